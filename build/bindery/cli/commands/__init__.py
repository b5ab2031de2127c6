"""The verbs of the command line, one file each; `bindery.cli.main` registers them."""
