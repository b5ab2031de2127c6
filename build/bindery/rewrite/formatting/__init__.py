"""`bindery format`: format sources without changing a word."""
