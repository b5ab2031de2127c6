"""Commands in a text that call companion tools, and whether the tools would take them."""
