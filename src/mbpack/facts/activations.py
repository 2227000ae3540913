"""Activation functions of the feed-forward layers: the names a configuration may give, and what the fused kernels take.

Source: `utils/activation_map.py` of 0.4 to 0.6 (0.3 has no names); Megatron-Core `transformer_config.py`,
`TransformerConfig.__post_init__`.
"""

from __future__ import annotations

from typing import Final

from mbpack.facts.releases import R03, R05, Release

GELU, SILU, RELU, QUICK_GELU = "gelu", "silu", "relu", "quick_gelu"
#: Stands for a value that is none of the functions that a check asks for.
OTHER: Final = "other"

#: Functions that the bias is fused into, and those that Transformer Engine has a layer for.
FUSED: Final = (GELU, SILU, QUICK_GELU)
ENGINE: Final = (GELU, SILU, RELU)

_NAMES: Final = {
    GELU: GELU,
    SILU: SILU,
    RELU: RELU,
    **dict.fromkeys(("sigmoid", "tanh", "relu2", "squared_relu", "gelu_pytorch_tanh", "fast_gelu"), OTHER),
    **{f"torch.nn.functional.{name}": name for name in (GELU, SILU, RELU)},
    "torch.nn.functional.sigmoid": OTHER,
}
_LATER_NAMES: Final = {**_NAMES, QUICK_GELU: QUICK_GELU, "torch.tanh": OTHER}

#: The same functions as import paths; Megatron-Core has a second function of the name quick_gelu, which is not fused.
_PATHS: Final = {
    **{f"torch.nn.functional.{name}": name for name in (GELU, SILU, RELU)},
    "torch._C._nn.gelu": GELU,
    "torch.relu": OTHER,
    "torch.tanh": OTHER,
    "torch.sigmoid": OTHER,
    "torch.nn.functional.sigmoid": OTHER,
    "torch.nn.functional.tanh": OTHER,
    "megatron.core.fusions.fused_bias_geglu.quick_gelu": QUICK_GELU,
    **{f"megatron.core.activations.{name}": OTHER for name in ("squared_relu", "fast_gelu", "quick_gelu")},
}


def names(release: Release) -> dict[str, str]:
    """The texts that become a function, and which; none in 0.3."""
    if release <= R03:
        return {}
    return _NAMES if release < R05 else _LATER_NAMES


def at_path(path: str) -> str | None:
    """Which function an import path leads to; None where that is not known here."""
    return _PATHS.get(path)


def described(text: str) -> str:
    """Which function a default described as ``<callable NAME>`` is."""
    name = text.removeprefix("<callable ").removesuffix(">")
    return name if name in (*FUSED, RELU) else OTHER


def replaceable(release: Release, text: str) -> bool:
    """Whether an override reaches a recipe's function: only one that has a name is part of the merged configuration.

    The others are put back after the overrides.
    """
    return text.removeprefix("<callable ").removesuffix(">") in names(release)
