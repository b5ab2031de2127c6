"""Books of other tools become books of GitHub Markdown."""
