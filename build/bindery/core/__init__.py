"""What every other package stands on: the model, the configuration, findings, processes, files."""
