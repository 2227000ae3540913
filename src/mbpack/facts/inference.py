"""Layers and graphs for inference that a training configuration can name.

Source: Megatron-Core 0.17 to 0.19 `transformer/transformer_config.py`, `transformer/cuda_graph_config.py`.
"""

from __future__ import annotations

from typing import Final

#: What a graph for inference can span.
SCOPES: Final = ("none", "layer", "block")


def graph_scopes(impl: object) -> tuple[str, ...]:
    """The scopes of inference graphs that go with an implementation of CUDA graphs."""
    return SCOPES[1:] if impl == "local" else SCOPES[:1]
