"""Activations recomputed and offloaded."""
