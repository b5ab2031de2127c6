"""Records and published data, and the provenance of each number in the book."""
