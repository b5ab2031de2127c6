"""`bindery links`: the links of the outputs as they lie there, linkchecker's word on them, and both
held against the resolver."""
