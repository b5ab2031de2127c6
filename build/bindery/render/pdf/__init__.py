"""The PDF."""
