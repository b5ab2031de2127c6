"""GitHub Markdown as the project reads it, with the position of everything."""
