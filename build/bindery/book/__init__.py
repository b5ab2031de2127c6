"""A book on disk: loaded, resolved, with its history and editions."""
