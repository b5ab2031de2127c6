"""A book on disk: loading, link resolution, history and editions."""
