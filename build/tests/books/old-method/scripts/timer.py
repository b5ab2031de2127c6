"""A tool whose third method is not comparable with the first."""

METHOD: int = 3
