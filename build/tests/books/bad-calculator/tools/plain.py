"""A tool without calculators."""
