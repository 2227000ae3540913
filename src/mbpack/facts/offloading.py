"""Modules whose activations can be offloaded to the host, per release.

Source: Megatron-Core 0.16 to 0.19 `transformer/transformer_config.py`, `TransformerConfig.__post_init__`.
"""

from __future__ import annotations

from typing import Final

from mbpack.facts.releases import R06, Release

_ALWAYS = frozenset("core_attn attn_proj expert_fc1 moe_act attn_norm mlp_norm qkv_linear".split())
#: The fused product of all experts, and the steps in it that can be offloaded one by one.
FUSED: Final = "fused_group_mlp"
FUSED_STEPS: Final = ("expert_fc1", "moe_act")

#: From this Transformer Engine on, offloading takes weights along unless the variable keeps the former way.
ENGINE: Final = "2.10"
VARIABLE: Final = "NVTE_CPU_OFFLOAD_V1"


def offload_module_names(release: Release) -> frozenset[str]:
    """The names `offload_modules` may hold in a release."""
    return _ALWAYS | {FUSED} if release >= R06 else _ALWAYS


def expert_steps(release: Release) -> tuple[str, ...]:
    """Those of them that lie inside an expert layer."""
    return (*FUSED_STEPS, FUSED) if release >= R06 else FUSED_STEPS
