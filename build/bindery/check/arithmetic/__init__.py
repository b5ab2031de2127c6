"""Sums in prose: what an author states to be equal, read and worked out again."""
