"""CUDA graphs: spelling, scope, capture."""
