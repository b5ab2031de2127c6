"""Calculations in prose: read what an author states to be equal, and recompute it."""
