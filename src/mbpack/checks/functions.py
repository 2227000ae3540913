"""The functions and methods of the algebra, on operands that are worked out already."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from typing import Any

from mbpack.checks.values import OPEN, Held, Member, Symbol

LARGEST = 1 << 20


def truth(held: Any) -> Any:
    """Whether a value counts as true; OPEN where it is not known."""
    if held is OPEN:
        return OPEN
    if isinstance(held, (Symbol, Member, Held)):
        return True
    return bool(held)


def has_open(items: Iterable[Any]) -> bool:
    """Whether one of several values is not known."""
    return any(item is OPEN for item in items)


def quantified(many: Any, stop: bool) -> Any:
    """Whether any (``stop`` true) or all of some values are true."""
    if many is OPEN or isinstance(many, (Symbol, Held)):
        return OPEN
    answers = [truth(item) for item in many]
    return stop if stop in answers else OPEN if has_open(answers) else not stop


def _range(*limits: Any) -> Any:
    found = range(*limits)
    return list(found) if len(found) <= LARGEST else OPEN


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "len": len,
    "sorted": sorted,
    "min": min,
    "max": max,
    "sum": sum,
    "abs": abs,
    "range": _range,
    "list": list,
    "tuple": tuple,
    "set": set,
    "bool": bool,
    "int": int,
    "float": float,
    "str": str,
    "dict": dict,
    "round": round,
    "lcm": math.lcm,
    "gcd": math.gcd,
    "prod": math.prod,
    "sqrt": math.sqrt,
    "ceil": math.ceil,
    "floor": math.floor,
    "log2": math.log2,
    "log": math.log,
    "isclose": math.isclose,
    "isfinite": math.isfinite,
    "isnan": math.isnan,
    "isinf": math.isinf,
    "enumerate": lambda items: list(enumerate(items)),
    "zip": lambda *lists: list(zip(*lists, strict=False)),
    "next": lambda items, *default: next(iter(items), *default),
    "spread": lambda *items: list(items),
    "-": operator.neg,
}


def call(name: str, held: list[Any]) -> Any:
    """A function of some values."""
    work = FUNCTIONS.get(name)
    if work is None or any(item is OPEN or isinstance(item, (Held, Symbol)) for item in held):
        return OPEN
    if any(isinstance(item, (list, tuple)) and has_open(item) for item in held):
        return OPEN
    if any(isinstance(item, Member) for item in held) and name not in ("bool", "str"):
        raise TypeError
    return work(*held)


def method(name: str, held: Any, rest: list[Any]) -> Any:
    """A method of a text, list, mapping or set."""
    if name.startswith(".") or held is OPEN or isinstance(held, (Held, Symbol, Member)):
        return OPEN
    if any(item is OPEN or isinstance(item, (Held, Symbol)) for item in rest):
        return OPEN
    if isinstance(held, (list, tuple, set)) and has_open(held):
        return OPEN
    if any(isinstance(item, (list, tuple, dict)) and has_open(item) for item in rest):
        return OPEN
    made = getattr(held, name)(*rest)
    return list(made) if name in ("keys", "values", "items") else made
