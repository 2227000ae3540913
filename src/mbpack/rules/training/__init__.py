"""Schedule, precision, optimizer, adapters, checkpoints, logs."""
