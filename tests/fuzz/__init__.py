"""Fuzzing of every input that mbpack reads (see README.md)."""
