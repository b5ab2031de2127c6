"""Read companion tools without running them."""
