"""The EPUB."""
