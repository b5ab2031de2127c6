"""Changes to the sources: moving and formatting."""
