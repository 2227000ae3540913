"""The values that facts and rules are made of, on record: limits, tables by release, key names. A change shows in the diff.

python -m tests.facts.test_constants --write   accept today's values (read the diff before it is committed)
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mbpack.facts.releases import Release
from mbpack.rules.base import Rule

SOURCES = Path(__file__).parents[2] / "src" / "mbpack"
RECORD = Path(__file__).parents[1] / "data" / "constants.txt"
MODULES = [
    f"{room}/{path.stem}"
    for room in ("facts", "rules")
    for path in sorted((SOURCES / room).glob("*.py"))
    if path.stem != "__init__"
]
#: Names that are a module's own business: rules have records of their own, and the data files are facts by release.
LEFT_OUT = frozenset({"RULES", "ALL_RULES", "ALWAYS", "BY_NAME", "DATA"})
#: Longer collections take a line per element.
WIDTH = 120
_CONSTANT = re.compile(r"_?[A-Z][A-Z0-9_]*$")


def constants(module: str) -> list[str]:
    """A line per constant that a module defines, or one per element of a long one; words for people are left out."""
    loaded = importlib.import_module(f"mbpack.{module.replace('/', '.')}")
    text = (SOURCES / f"{module}.py").read_text(encoding="utf-8")
    own = [name for name in vars(loaded) if _CONSTANT.match(name) and name not in LEFT_OUT]
    defined = [name for name in own if re.search(rf"^(\w+, )*{name}(, \w+)*(: [^=\n]*)? =", text, re.MULTILINE)]
    return [line for name in sorted(defined) for line in _lines(name, vars(loaded)[name])]


def _lines(name: str, value: Any) -> list[str]:
    line = f"{name} = {shown(value)}"
    if len(line) <= WIDTH or not isinstance(value, (Mapping, set, frozenset, tuple, list)):
        return [line]
    if isinstance(value, Mapping):
        return [f"{name} =", *(f"  {shown(key)}: {shown(child)}" for key, child in value.items())]
    return [
        f"{name} =",
        *(f"  {text}" for text in (sorted(map(shown, value)) if isinstance(value, (set, frozenset)) else map(shown, value))),
    ]


def shown(value: Any) -> str:
    """A value as text that is the same in every process."""
    if isinstance(value, Release):
        return value.name
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, str):
        return "'...'" if " " in value else repr(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{shown(key)}: {shown(child)}" for key, child in value.items()) + "}"
    if isinstance(value, (set, frozenset)):
        return "{" + ", ".join(sorted(map(shown, value))) + "}"
    if isinstance(value, re.Pattern):
        return f"/{value.pattern}/"
    if isinstance(value, msgspec.Struct):
        return f"{type(value).__name__}({', '.join(shown(getattr(value, name)) for name in value.__struct_fields__)})"
    if isinstance(value, (tuple, list)):
        return f"({', '.join(map(shown, value))})"
    if isinstance(value, (bool, int, float)) or value is None:
        return repr(value)
    return getattr(value, "__name__", None) or (value.slug if isinstance(value, Rule) else type(value).__name__)


@cache
def held() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in RECORD.read_text(encoding="utf-8").splitlines():
        if line.startswith("@ "):
            found[line[2:]] = []
        elif line:
            found[[*found][-1]].append(line)
    return found


def record() -> Iterator[str]:
    for module in MODULES:
        lines = constants(module)
        if lines:
            yield from (f"@ {module}", *lines, "")


@pytest.mark.parametrize("module", MODULES)
def test_constants_are_those_on_record(module: str) -> None:
    assert constants(module) == held().get(module, []), "python -m tests.facts.test_constants --write, and read the diff"


if __name__ == "__main__":
    if "--write" not in sys.argv[1:]:
        sys.exit(__doc__)
    RECORD.write_text("\n".join(record()), encoding="utf-8")
