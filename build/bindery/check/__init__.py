"""What is wrong with a book, or with what it says."""
