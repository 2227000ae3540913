"""Which layers a model has and on which pipeline stage and virtual stage they are.

Sources: Megatron-Core `transformer_block.py`, `get_num_layers_to_build`; `transformer_layer.py`, `get_transformer_layer_offset`;
`gpt_layer_specs.py` (alternation of experts); `models/hybrid/hybrid_layer_allocation.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from msgspec import Struct

from mbpack.facts.shapes import Shape
from mbpack.memory.setup import Setup

#: Kinds of layer: mixer ("A" attention, "L" latent attention, "M" Mamba, "G" gated delta net, "" none) and feed-forward
#: ("-" MLP, "E" experts, "" none), as one text of two letters, "." for none.
ATTENTION, LATENT, MAMBA, DELTA, MLP, EXPERTS, NONE = "A", "L", "M", "G", "-", "E", "."

#: Letters of a hybrid pattern: every letter is a layer of its own.
_HYBRID = {"M": "M.", "*": "A.", "-": ".-", "E": ".E", "G": "G.", "+": "L."}


class Chunk(Struct, frozen=True):
    """The model chunk of one virtual stage: its layers, and what stands at the ends."""

    layers: tuple[str, ...]
    embedding: bool = False
    loss: bool = False
    mtp: int = 0


@lru_cache(maxsize=64)
def layer_kinds(shape: Shape) -> tuple[str, ...]:
    """The kind of every decoder layer, in order."""
    if shape.hybrid_layer_pattern:
        pattern = shape.hybrid_layer_pattern.partition("/")[0].replace("|", "")
        return tuple(_HYBRID[letter] for letter in pattern if letter in _HYBRID)
    mixer = LATENT if shape.multi_latent_attention else ATTENTION
    kinds = []
    for index in range(shape.num_layers):
        freq = shape.linear_attention_freq
        own = DELTA if freq and (index + 1) % freq else mixer
        kinds.append(own + (EXPERTS if _has_experts(shape, index) else MLP))
    return tuple(kinds)


def _has_experts(shape: Shape, index: int) -> bool:
    if not shape.num_moe_experts:
        return False
    if shape.moe_layer_freq:
        return bool(shape.moe_layer_freq[index]) if index < len(shape.moe_layer_freq) else True
    return index >= shape.dense_first


@lru_cache(maxsize=64)
def mtp_kinds(shape: Shape) -> tuple[str, ...]:
    """The layers of one multi-token prediction depth: those of the pattern, else one like the last of the decoder."""
    if shape.mtp_pattern:
        return tuple(_HYBRID[letter] for letter in shape.mtp_pattern if letter in _HYBRID)
    kinds = [kind for kind in layer_kinds(shape) if kind[0] in "AL"] or list(layer_kinds(shape))
    return (kinds[-1],)


@lru_cache(maxsize=256)
def chunks(setup: Setup) -> tuple[tuple[Chunk, ...], ...]:
    """The chunks of every pipeline stage, one for each virtual stage.

    Layers that do not divide are counted out from the front, as a layout of one's own would: the start-up refuses such a
    split, so that its memory is nobody's.
    """
    kinds = layer_kinds(setup.shape)
    total = setup.pp * setup.vpp
    counts = setup.stages or _even(len(kinds), total)
    mtp_at = total - 1 if setup.mtp_stage is None else setup.mtp_stage
    found: list[list[Chunk]] = [[] for _ in range(setup.pp)]
    start = 0
    for index, count in enumerate(counts):
        part = kinds[start : start + count]
        start += count
        found[index % setup.pp].append(
            Chunk(part, index == 0, index == total - 1, setup.shape.mtp_num_layers if index == mtp_at else 0)
        )
    return tuple(tuple(stage) for stage in found)


def _even(layers: int, parts: int) -> Sequence[int]:
    each, rest = divmod(layers, parts)
    return [each + (index < rest) for index in range(parts)]
