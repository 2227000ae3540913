"""Modules that selective activation recompute takes, per release.

Source: Megatron-Core 0.16 to 0.19 `transformer/transformer_config.py`, `TransformerConfig.__post_init__`.
"""

from __future__ import annotations

from mbpack.facts.releases import R06, Release

_ALWAYS = frozenset("core_attn moe_act layernorm mla_up_proj mlp moe shared_experts".split())
#: Modules that cannot be recomputed where FP8 scales with a delay.
NO_DELAYED_SCALING = ("moe_act", "layernorm")


def recompute_module_names(release: Release) -> frozenset[str]:
    """The names `recompute_modules` may hold in a release.

    The DeepSeek-V4 recipes of 0.5 and 0.6 name `mhc` as well, which no published Megatron-Core knows.
    """
    return _ALWAYS | ({"gdn_norm_out"} if release >= R06 else frozenset())
