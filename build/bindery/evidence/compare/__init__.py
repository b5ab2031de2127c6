"""Two runs of a tool, like with like."""
