"""Models: families, layers, experts."""
