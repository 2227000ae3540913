"""Transformer Engine of a release on a CPU: its own Python and, compiled by the host's compiler, pieces of its own C++."""
