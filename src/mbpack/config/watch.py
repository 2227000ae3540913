"""Which of many watched keys a configuration writes, asked all at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from mbpack.config.document import Item
from mbpack.config.settings import Settings
from mbpack.facts.keys import parts_in
from mbpack.facts.releases import Release

#: Fields that settle the values of others: the class of an object, and arguments without names.
_CLASS, _ARGUMENTS = "_target_", "_args_"
#: Where some models keep the settings of Megatron-Core.
_NESTED: dict[tuple[str, ...], tuple[str, ...]] = {("model",): ("model", "transformer")}

_Leaves: TypeAlias = dict[str, set[str]]


class Watch:
    """Keys by the mapping they stand in, for one release; ``watched`` is a name and the canonical keys that concern it."""

    def __init__(self, release: Release, watched: Mapping[str, Iterable[str]]) -> None:
        self._owners: dict[tuple[str, ...], _Leaves] = {}
        for name, keys in watched.items():
            for key in keys:
                parts = parts_in(release, key)
                self._owners.setdefault(parts[:-1], {}).setdefault(parts[-1], set()).add(name)
        for owner, inner in _NESTED.items():
            if owner in self._owners:
                self._owners[inner] = self._owners[owner]

    def seen(self, settings: Settings) -> frozenset[str]:
        """The names one of whose keys somebody wrote, or may have written where the layers do not tell."""
        found: set[str] = set()
        for layer in settings.layers:
            for owner, leaves in self._owners.items():
                written = _reach(layer.root, owner)
                if written is not None:
                    found.update(*_touched(written, leaves, settings.complete))
        return frozenset(found)


def _reach(item: Item, owner: tuple[str, ...]) -> Any:
    """What is written for an owner, or over it; None without either, and for null, below which nobody looks."""
    for part in owner:
        if item.value.__class__ is not dict:
            break
        child = item.value.get(part)
        if child is None:
            return None
        item = child
    return item.value


def _touched(written: Any, leaves: _Leaves, complete: bool) -> Iterable[set[str]]:
    if written.__class__ is not dict or _ARGUMENTS in written or (_CLASS in written and not complete):
        return leaves.values()
    return [leaves[leaf] for leaf in leaves.keys() & written.keys()]
