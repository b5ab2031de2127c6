"""Compare runs with comparable records."""
