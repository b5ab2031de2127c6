"""What the companion tools share; `bindery bundle` copies the parts that a tool uses into it."""
