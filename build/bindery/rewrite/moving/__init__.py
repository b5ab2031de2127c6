"""`bindery mv`: plan a move, verify that no link breaks, and make the changes."""
