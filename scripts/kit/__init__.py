"""What the companion tools share. `bindery bundle TOOL` puts a tool and the parts it uses into one
file; no module here imports torch when it is imported."""
