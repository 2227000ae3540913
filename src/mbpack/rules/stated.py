"""Values that somebody states, as against class defaults that a recipe may replace without our data saying so."""

from __future__ import annotations

from typing import Any

from mbpack.config.run import Run
from mbpack.config.settings import ABSENT, Origin, Unknown
from mbpack.facts.expert_settings import LEFT_OUT


def touched(run: Run, *keys: str) -> bool:
    """Whether a check over these keys can fail: a recipe as it is returned starts, so the user must have changed one of them."""
    return run.complete or any(_changed(run, key) for key in keys)


def _changed(run: Run, key: str) -> bool:
    try:
        return run.setting(key).item is not None
    except Unknown as unknown:
        return "recipe" not in unknown.needs  # an expression: its value is asked for, and stays unknown


def stated(run: Run, key: str, absent: Any = None) -> Any:
    """The plain value.

    Raises:
        Unknown: the class default stands, and the recipe's data do not tell whether the recipe keeps it.
    """
    setting, recipe = run.setting(key), run.settings.recipe
    if recipe is not None and setting.origin is Origin.DEFAULT and setting.value is not ABSENT:
        converted = key in LEFT_OUT and bool(recipe.likely) and recipe.value("model.num_moe_experts") is not None
        if converted or not recipe.complete:
            raise Unknown(key, (), "the recipe may set it")
    return run.value(key, absent)


def stated_number(run: Run, key: str, absent: Any = None) -> Any:
    """The same for arithmetic: an int, a float, None, or ``absent``.

    Raises:
        Unknown: as :func:`stated`.
        WrongKind: the value is text, a list or a mapping.
    """
    stated(run, key)
    return run.number(key, absent)
