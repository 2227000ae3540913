"""Which keys each rule reads, and so which rules cannot say anything new where other keys are written.

A rule reads the same keys, one after the other, until it comes to one that a file writes. So one that reads none of the
file's keys on any recipe alone says about the file what it says about the recipe alone, and that is no word about the file.
``rules/reads.tsv`` holds a rule a line: its slug, what it reads on recipes alone, and what beyond that on files as well;
``tools/rule_reads.py`` makes it.

Keys are canonical; ``model._target_`` stands for the class of an object. What is no key has a sign before it:

    @layers     whatever is written              @overrides  the KEY=VALUE arguments
    @evidence   what was found on disk           @stopped    what stopped other rules
    @classes    the class of any object          @found      what other rules found
    @launcher, @gpus, @gpu, @step, @nodes, @flags            what is given beside the files
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from functools import cache, lru_cache
from typing import NamedTuple

from mbpack import rules
from mbpack.config.document import Item
from mbpack.config.run import Run
from mbpack.facts.keys import paths
from mbpack.facts.releases import Release
from mbpack.rules.base import Rule

FILE = os.path.join(os.path.dirname(rules.__file__), "reads.tsv")
TARGET = "_target_"
#: What is read beside keys and counts as written by every file.
ANYTHING = frozenset({"@layers", "@evidence", "@overrides", "@stopped", "@classes", "@found", "@step", "@nodes", "@flags"})

#: Sections whose keys are all read one by one.
_WHOLE = frozenset({"dataset", "model"})

Path = tuple[str, ...]


class Reads(NamedTuple):
    """What a rule reads on recipes alone, and what besides on files."""

    alone: tuple[str, ...]
    more: tuple[str, ...]


@cache
def reads() -> dict[str, Reads]:
    """Slug of a rule -> what it reads; without the rules that were never seen reading, about which nothing is known."""
    with open(FILE, encoding="utf-8") as file:
        columns = (line.rstrip("\n").split("\t") for line in file)
        return {slug: Reads(tuple(alone.split()), tuple(more.split())) for slug, alone, more in columns if alone or more}


class Touched:
    """Paths that are written or changed, for one question: may a rule read one of them?

    ``leaves`` are the paths of values, and of mappings everything below which may be another; ``above`` all paths above them.
    """

    def __init__(self, release: Release, above: Collection[Path], leaves: Collection[Path]) -> None:
        self._release, self._above, self.leaves = release, above, leaves
        self._answers: dict[str, bool] = {}

    @classmethod
    def of_run(cls, run: Run) -> Touched:
        """All that a configuration writes."""
        above: set[Path] = set()
        leaves: set[Path] = set()
        for layer in run.settings.layers:
            for path, leaf in _written(layer.root, ()):
                above.add(path)
                if leaf:
                    leaves.add(path)
        return cls(run.release, above, leaves)

    @classmethod
    def of_paths(cls, release: Release, changed: Iterable[Path]) -> Touched:
        """Single paths of the release."""
        leaves = frozenset(changed)
        return cls(release, {path[:depth] for path in leaves for depth in range(len(path) + 1)}, leaves)

    def by(self, rule: Rule) -> bool:
        """Whether a rule may say something about the file because of what is written; so for every rule that is not on record."""
        known = reads().get(rule.slug)
        return known is None or any(key in ANYTHING or self.has(key) for key in known.alone)

    def concerned(self, others: Collection[str]) -> set[str]:
        """The slugs of the rules that may answer otherwise now; ``others`` are the signs of what else has changed.

        Of a model and a dataset as a whole, rules ask only whether there is one: their keys are read one by one.
        """
        found: set[str] = set()
        for path in self.leaves:
            found |= _readers(self._release, path)
        for sign in others:
            found |= _with(f" {sign} ")
        return found

    def has(self, key: str) -> bool:
        """Whether a canonical key is written, or something above or below it; of a sign, never."""
        found = self._answers.get(key)
        if found is None:
            found = self._answers[key] = key[0] != "@" and any(self._writes(parts) for parts in _parts(self._release, key))
        return found

    def _writes(self, parts: Path) -> bool:
        return parts in self._above or any(parts[:depth] in self.leaves for depth in range(1, len(parts)))


def _written(item: Item, path: Path) -> Iterator[tuple[Path, bool]]:
    if item.value.__class__ is not dict:
        yield path, True
        return
    yield path, not item.value
    for name, child in item.value.items():
        if name == TARGET:
            yield path, True  # another class: everything in it may have changed
        yield from _written(child, (*path, str(name)))


@cache
def _parts(release: Release, key: str) -> tuple[Path, ...]:
    owner = key.removesuffix(f".{TARGET}")
    parts = paths(release)[owner] if owner == key else (*paths(release)[owner], TARGET)
    if parts[0] == "model" and len(parts) > 1 and parts[1] != "transformer":
        return parts, ("model", "transformer", *parts[1:])
    return (parts,)


@lru_cache(maxsize=4096)
def _readers(release: Release, path: Path) -> frozenset[str]:
    """The slugs of the rules that read something at, above or below a path."""
    from mbpack.checks.values import canonical

    names = [name for depth, name in enumerate(path) if (depth, name) != (1, "transformer")]
    key = canonical(release, ".".join(names))
    parts = key.split(".")
    above = (".".join(parts[:depth]) for depth in range(1, len(parts)))
    return _with(f" {key} ", f" {key}.", *(f" {owner} " for owner in above if owner not in _WHOLE))


def _with(*texts: str) -> frozenset[str]:
    """The slugs of the lines that hold one of some texts: quicker than to take all lines apart."""
    return frozenset(slug for slug, line in _lines().items() if any(text in line for text in texts))


@cache
def _lines() -> dict[str, str]:
    """Slug -> its line with blanks around every key."""
    with open(FILE, encoding="utf-8") as file:
        pairs = (line.rstrip("\n").partition("\t") for line in file)
        return {slug: f" {keys} ".replace("\t", "  ") for slug, _, keys in pairs}


def is_known(rule: Rule) -> bool:
    """Whether it is on record what a rule reads."""
    return rule.slug in _lines()
