"""Commands that change the sources: moving and formatting."""
