"""Find commands in text that call companion tools, and check them against the tools' options."""
