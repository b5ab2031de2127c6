"""What every other package builds on: the model, the configuration, findings, processes, files."""
