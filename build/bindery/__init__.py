"""bindery: GitHub Markdown to a site, a PDF and an EPUB, with every link resolved and checked."""

__version__ = "0.1.0"
