"""Fields, defaults and recipes of a Megatron-Bridge, read from its sources without importing anything of it."""
