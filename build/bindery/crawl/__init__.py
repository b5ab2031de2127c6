"""`bindery links`: compare the links of built outputs, and linkchecker's results, with the
resolver."""
