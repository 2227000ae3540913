"""Which keys each rule reads when a recipe stands alone: what a file does not write cannot change what such a rule says.

A rule reads the same keys, one after the other, until it comes to one that the file writes. So one that reads none of the
file's keys on any recipe alone says about the file what it says about the recipe alone, and that is no word about the file.
``rules/reads.tsv`` holds them, a rule a line; ``tools/rule_reads.py`` makes it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache

from mbpack import rules
from mbpack.config.document import Item
from mbpack.config.run import Run
from mbpack.facts.keys import paths
from mbpack.facts.releases import Release
from mbpack.rules.base import Rule

FILE = os.path.join(os.path.dirname(rules.__file__), "reads.tsv")
#: Stands for a rule that looks at whatever is written.
EVERYTHING = "*"


@cache
def reads() -> dict[str, tuple[str, ...]]:
    """Slug of a rule -> canonical keys it reads, or ``*``."""
    with open(FILE, encoding="utf-8") as file:
        pairs = (line.rstrip("\n").partition("\t") for line in file)
        return {slug: tuple(keys.split()) for slug, _, keys in pairs}


class Touched:
    """The keys that a configuration writes, for one question: may a rule read one of them?"""

    def __init__(self, run: Run) -> None:
        self._release = run.release
        self._above: set[tuple[str, ...]] = set()  # what is written, and all above it
        self._leaves: set[tuple[str, ...]] = set()
        for layer in run.settings.layers:
            for path, leaf in _written(layer.root, ()):
                self._above.add(path)
                if leaf:
                    self._leaves.add(path)

    def by(self, rule: Rule) -> bool:
        """Whether a rule may read something that is written; so for every rule that is not on record."""
        keys = reads().get(rule.slug)
        return keys is None or any(
            key == EVERYTHING or self._writes(parts) for key in keys for parts in _parts(self._release, key)
        )

    def _writes(self, parts: tuple[str, ...]) -> bool:
        return parts in self._above or any(parts[:depth] in self._leaves for depth in range(1, len(parts)))


def _written(item: Item, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], bool]]:
    if item.value.__class__ is not dict:
        yield path, True
        return
    yield path, not item.value
    for name, child in item.value.items():
        if name == "_target_":
            yield path, True  # another class: everything in it may have changed
        yield from _written(child, (*path, str(name)))


def _parts(release: Release, key: str) -> tuple[tuple[str, ...], ...]:
    parts = paths(release)[key]
    if parts[0] == "model" and len(parts) > 1 and parts[1] != "transformer":
        return parts, ("model", "transformer", *parts[1:])
    return (parts,)
