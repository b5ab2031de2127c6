"""A tool that measures as it always did."""

METHOD = 1
