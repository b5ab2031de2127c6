"""What can be known of a companion tool without running it."""
