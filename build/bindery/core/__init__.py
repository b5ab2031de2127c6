"""Shared by all other packages: the model, configuration, findings, processes, files."""
