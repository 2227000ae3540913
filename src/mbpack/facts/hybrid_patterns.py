"""Layer patterns of hybrid models: letters for layers, bars between pipeline stages, slashes before blocks for MTP.

Source: Megatron-Core 0.17 `ssm/mamba_hybrid_layer_allocation.py`, 0.18 and 0.19 `models/hybrid/hybrid_layer_allocation.py`.
"""

from __future__ import annotations

from mbpack.facts.releases import R04, R05, R06, Release

STAGE_SEPARATOR, MTP_SEPARATOR = "|", "/"

#: Mamba, gated delta net, attention, MLP, experts; sparse attention since 0.5, latent attention since 0.6.
_SYMBOLS = {R04: "MG*-E", R05: "MG*-ED", R06: "MG*-ED+"}


def symbols(release: Release) -> str:
    """The letters a release knows; "" where that is not on record."""
    return _SYMBOLS.get(release, "")


def layers_in(pattern: str) -> int:
    """Layers of the decoder: the letters before the first slash."""
    return len(pattern.partition(MTP_SEPARATOR)[0].replace(STAGE_SEPARATOR, ""))
