"""Real Megatron-Bridge releases on a CPU: set-up, stand-ins for CUDA-only packages, and the worker that judges rows."""
