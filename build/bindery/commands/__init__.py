"""The verbs of the command line, one file each; `bindery.cli` registers them."""
