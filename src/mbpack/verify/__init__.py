"""Upstream's own tests: which cover a configuration, whether a checkout has them, and what they say when run."""
