"""Selects and runs rules over a run, decides what fires first and the verdict."""
