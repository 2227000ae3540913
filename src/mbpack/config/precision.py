"""The number formats a run computes in, after its mixed-precision setting is applied to the model.

``mixed_precision`` is a name or an object; the start-up copies its fields over the model's, so it wins over what
``model.fp8`` says. Without one the model's own fields count. Source: ``training/mixed_precision.py``,
``MixedPrecisionConfig.setup`` (all releases).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from mbpack.config.run import Run
from mbpack.config.shared import shared
from mbpack.facts.schema import schema
from mbpack.facts.widths import fp8_block

SECTION = "mixed_precision"
FIELDS = ("fp8", "fp8_recipe", "fp8_dot_product_attention")


class Fp8(NamedTuple):
    """FP8 as it will be in effect. ``key`` is the setting that switches it on; ``block`` is in tokens."""

    format: str
    recipe: str | None
    attention: bool
    block: int
    key: str


@shared
def fp8_in_effect(run: Run) -> Fp8 | None:
    """The FP8 settings of a run, None where it computes in BF16 or FP16. Raises Unknown where they live in a recipe."""
    setting = run.value(SECTION)
    if setting is None:
        return _fp8("model.fp8", lambda name: run.value(f"model.{name}"))
    if isinstance(setting, str):
        return _fp8(SECTION, dict(_named(run.release.name, setting)).get)
    return _fp8(f"{SECTION}.fp8", lambda name: run.value(f"{SECTION}.{name}"))


def precision_field(run: Run, name: str) -> Any:
    """A number-format field (``fp8``, ``fp4``, ``bf16``) as it stands on the model after the setting is applied."""
    setting = run.value(SECTION)
    if setting is None:
        return run.value(f"model.{name}")
    if isinstance(setting, str):
        return (schema(run.release.name).mixed_precision(setting) or {}).get(name)
    return run.value(f"{SECTION}.{name}")


def applied(run: Run, section: str, name: str) -> Any:
    """A precision field of the model, the optimizer or DDP as it will be; without ``mixed_precision``, the section's own.

    Raises:
        Unknown: the value lives in a recipe that was not named.
    """
    setting = run.value(SECTION)
    if setting is None:
        return run.value(f"{section}.{name}")
    if isinstance(setting, str):
        return (run.settings.schema.mixed_precision(setting) or {}).get(name)
    return run.value(f"{SECTION}.{name}")


@lru_cache(maxsize=256)
def _named(release: str, name: str) -> tuple[tuple[str, Any], ...]:
    """The FP8 fields that a mixed-precision name stands for; none for an unknown name."""
    fields = schema(release).mixed_precision(name) or {}
    return tuple((field, fields.get(field)) for field in FIELDS)


def _fp8(key: str, read: Any) -> Fp8 | None:
    number_format = read("fp8")
    if not number_format:
        return None
    recipe = read("fp8_recipe")
    recipe = recipe if isinstance(recipe, str) else None
    attention = read("fp8_dot_product_attention") is True
    return Fp8(str(number_format), recipe, attention, fp8_block(recipe), key)
