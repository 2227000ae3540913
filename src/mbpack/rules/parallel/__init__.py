"""Parallel sizes, pipeline stages, sharding and what the ranks exchange."""
