"""A chapter as XHTML."""
