"""How much the keys of a file show that it is meant for Megatron-Bridge."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct, field

from mbpack.facts.field_names import belongs_below, is_telling, names_in
from mbpack.facts.wrappers import is_wrapper_key

from .items import Item
from .scalars import MISSING, Interpolation

_SPECIAL: Final = "_"
_DEEP: Final = 4
#: A typing error keeps the beginning of a name, and its length within this.
_KEPT, _OFF = 4, 2
_LONG_ENOUGH: Final = 8


class Shown(Struct):
    """What the keys of a file show.

    telling    fields of their section that only Megatron programs have; names one typing error away are among them.
    common     fields of their section that many programs have (``optimizer.lr``).
    unknown    keys below a section that no release has there, and sections that are single values.
    strangers  keys at the top that are no section, and that no wrapper is known to read.
    misplaced  telling fields that stand at the top.
    """

    telling: list[str] = field(default_factory=list)
    common: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)
    misplaced: list[str] = field(default_factory=list)

    @property
    def enough(self) -> bool:
        """Whether the file is surely one of Megatron-Bridge: what is not from there is far from drowning what is."""
        others = len(self.unknown) + len(self.strangers)
        return bool(self.telling) and others <= 4 * (len(self.telling) + len(self.misplaced)) + len(self.common)

    @property
    def undisputed(self) -> bool:
        """Whether nothing in it is another program's."""
        return not self.unknown and not self.strangers


def shown_by(keys: Mapping[Any, Item], sections: Collection[str]) -> Shown:
    """Sort the keys of a file."""
    shown = Shown()
    for name, item in keys.items():
        if name in sections:
            _in_section(shown, name, item)
        elif not isinstance(name, str):
            shown.strangers.append(str(name))
        elif belongs_below(name):
            shown.misplaced.append(name)
        elif not is_wrapper_key(name) and not name.startswith(_SPECIAL):
            shown.strangers.append(name)
    return shown


def _in_section(shown: Shown, section: str, item: Item) -> None:
    value = item.value
    if not isinstance(value, dict):
        if section == "mixed_precision" and isinstance(value, str) and ("_mixed" in value or "16_with_" in value):
            shown.telling.append(section)
        elif value is not None and value is not MISSING and not isinstance(value, Interpolation):
            shown.unknown.append(section)
        return
    fields = names_in(section)
    for name in value:
        if not isinstance(name, str):
            shown.unknown.append(f"{section}.{name}")
        elif name in fields:
            (shown.telling if is_telling(name) else shown.common).append(f"{section}.{name}")
        elif name.startswith(_SPECIAL):
            continue
        elif belongs_below(name) or _mistyped(name, fields):
            shown.telling.append(f"{section}.{name}")
        else:
            shown.unknown.append(f"{section}.{name}")


def _mistyped(name: str, fields: Collection[str]) -> bool:
    if len(name) < _LONG_ENOUGH:
        return False
    near = [
        known for known in fields if known[:_KEPT] == name[:_KEPT] and abs(len(known) - len(name)) <= _OFF and is_telling(known)
    ]
    if not near:
        return False
    from difflib import get_close_matches

    return bool(get_close_matches(name, near, n=1, cutoff=0.85))


def targets(item: Item, depth: int = 0) -> Iterator[str]:
    """The import paths that a file names as ``_target_``, not too deep inside."""
    value = item.value
    if not isinstance(value, dict) or depth > _DEEP:
        return
    target = value.get("_target_")
    if target is not None and isinstance(target.value, str):
        yield target.value
    for child in value.values():
        yield from targets(child, depth + 1)
