"""Attention: kernels, variants, context parallelism and its communication."""
