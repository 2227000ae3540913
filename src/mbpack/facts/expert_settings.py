"""What Megatron-Core takes as settings of expert layers, per release.

Source: Megatron-Core 0.16 to 0.19 `transformer/transformer_config.py`, `TransformerConfig.__post_init__`.
"""

from __future__ import annotations

from mbpack.facts.releases import R05, R06, Release

#: Sizes of experts that the recipe data leave out where a Hugging Face configuration decides them.
LEFT_OUT = ("model.moe_ffn_hidden_size", "model.moe_shared_expert_intermediate_size")

#: Kinds of load balancing that go with an expert capacity.
CAPACITY_BALANCING = ("aux_loss", "seq_aux_loss", "global_aux_loss", "none")

#: Dispatchers that do not pad the routing map for FP8 or FP4.
UNPADDED_DISPATCHERS = ("allgather", "alltoall_seq")


def bias_scores(release: Release) -> tuple[str, ...]:
    """Score functions that go with a bias of the experts."""
    return ("sigmoid",) if release < R05 else ("sigmoid", "sqrtsoftplus")


def shared_overlap_dispatchers(release: Release) -> tuple[str, ...]:
    """Dispatchers that overlap with the shared experts."""
    return ("alltoall",) if release < R05 else ("alltoall", "flex")


def rank_capacity_backends(release: Release) -> tuple[str, ...]:
    """Backends of the flex dispatcher that know a capacity of a whole rank."""
    return ("hybridep",) if release < R06 else ("hybridep", "ncclep")
