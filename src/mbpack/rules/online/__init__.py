"""Packing while the job runs: in the batch, over the global batch, with dynamic context parallelism."""
