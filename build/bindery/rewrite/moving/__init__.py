"""`bindery mv`: what a move changes, the proof that no link breaks, and the disk."""
