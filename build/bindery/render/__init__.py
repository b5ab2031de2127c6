"""Outputs: the site, the PDF and the EPUB, from the same resolved book."""
