"""`bindery links`: the links of the built outputs and what linkchecker says of them, compared with
the resolver."""
