"""Records and published data, and how each number of the book is traced to them."""
