"""Parse GitHub Markdown and record the position of everything."""
