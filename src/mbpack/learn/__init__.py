"""Reads what a release of Megatron-Bridge checks at start-up from its sources, without importing or executing them."""
