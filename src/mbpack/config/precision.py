"""The number formats a run computes in, after its mixed-precision setting is applied to the model.

``mixed_precision`` is a name or an object; the start-up copies its fields over the model's, so it wins over what
``model.fp8`` says. Without one the model's own fields count. Source: ``training/mixed_precision.py``,
``MixedPrecisionConfig.setup`` (all releases).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from mbpack.config.run import Run
from mbpack.facts.widths import fp8_block

SECTION = "mixed_precision"


class Fp8(NamedTuple):
    """FP8 as it will be in effect. ``key`` is the setting that switches it on; ``block`` is in tokens."""

    format: str
    recipe: str | None
    attention: bool
    block: int
    key: str


def fp8_in_effect(run: Run) -> Fp8 | None:
    """The FP8 settings of a run, None where it computes in BF16 or FP16. Raises Unknown where they live in a recipe."""
    setting = run.value(SECTION)
    if setting is None:
        return _fp8(run, "model.fp8", lambda name: run.value(f"model.{name}"))
    if isinstance(setting, str):
        named = run.settings.schema.mixed_precision(setting) or {}
        return _fp8(run, SECTION, named.get)
    return _fp8(run, f"{SECTION}.fp8", lambda name: run.value(f"{SECTION}.{name}"))


def _fp8(run: Run, key: str, read: Any) -> Fp8 | None:
    number_format = read("fp8")
    if not number_format:
        return None
    recipe = read("fp8_recipe")
    recipe = recipe if isinstance(recipe, str) else None
    attention = read("fp8_dot_product_attention") is True
    return Fp8(str(number_format), recipe, attention, fp8_block(recipe), key)
