"""Reading one Megatron-Bridge, from a path to files in the user's cache."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

from msgspec import Struct

from mbpack.facts.knowledge import KNOWLEDGE
from mbpack.facts.learned import FORMAT, Learned
from mbpack.facts.releases import Version, version_found
from mbpack.facts.schema import Schema
from mbpack.learn.lists.collect import Collected, collect, stated_version
from mbpack.learn.lists.fields import Reader
from mbpack.learn.lists.tree import SourceError, open_tree
from mbpack.learn.recipes.job import Recipes, read_all

#: Names that a summary lists of each kind.
_SHOWN = 6


class LearnError(ValueError):
    """Sources that cannot be read; the message is one line."""


class Lesson(Struct):
    """What was read, and what could not be."""

    version: Version
    origin: str
    classes: Collected
    recipes: Recipes
    unparsed: list[str]
    without_core: bool
    seconds: float

    def summary(self, path: str) -> Iterator[str]:
        """What the command prints."""
        found = self.classes
        fields = sum(len(entry[2]) for entry in found.classes.values())
        yield f"Megatron-Bridge {self.version.patch} in {self.origin}, read in {self.seconds:.1f} s; nothing of it was run"
        yield f"  classes   {len(found.classes)} with {fields:,} fields, {len(found.sections)} sections"
        yield from _names("  new       ", found.new, f"compared with {KNOWLEDGE[self.version.release].release}")
        yield from _names("  gone      ", found.gone, "")
        yield from self.recipes.summary()
        if self.without_core:
            yield "  missing   Megatron-Core: fields of its classes stand as in the release mbpack knows; put it beside, or in 3rdparty"
        yield from _names("  unread    ", found.unread, "defaults that depend on the machine")
        if found.borrowed:
            yield f"  borrowed  {found.borrowed} defaults that cannot be read, from the release mbpack knows"
        yield from _names("  partly    ", found.foreign, "classes with bases of other libraries")
        yield from _names("  unparsed  ", self.unparsed, "modules")
        yield "Start-up checks are those mbpack knows: fields are learned, rules are not."
        if path:
            yield f"Kept in {path}; used wherever {self.version.patch} is named or found. `mbpack learn --forget {self.version.patch}`"


def _names(label: str, names: list[str], note: str) -> Iterator[str]:
    if names:
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        yield f"{label}{', '.join(names[:_SHOWN])}{more}" + (f" ({note})" if note else "")


def read(source: str, bridge: str | None = None) -> Lesson:
    """Read the sources at a path.

    Raises:
        LearnError: there are none, or nothing says which version they are.
    """
    start = time.perf_counter()
    try:
        tree = open_tree(source)
    except SourceError as error:
        raise LearnError(str(error)) from None
    stated = bridge or stated_version(tree)
    version = version_found(stated)
    if version is None:
        said = f"the version {stated!r} is none that mbpack can compare with" if stated else "its version is stated nowhere"
        raise LearnError(f"{source}: {said}; name it with --bridge")
    known = Schema(version.release.name, shipped=True)
    reader = Reader(tree)
    classes = collect(reader, known)
    if not classes.classes:
        raise LearnError(f"{source}: no configuration class can be read there")
    without_core = tree.module("megatron.core.transformer.transformer_config") is None
    return Lesson(
        version,
        os.path.abspath(source),
        classes,
        read_all(reader, known.release, {name: entry[0] for name, entry in classes.classes.items()}),
        sorted(set(tree.unread)),
        without_core,
        time.perf_counter() - start,
    )


def kept(lesson: Lesson) -> Learned:
    """What stays of it."""
    return Learned(
        FORMAT,
        lesson.version.patch,
        lesson.origin,
        time.strftime("%Y-%m-%d"),
        lesson.classes.sections,
        lesson.classes.classes,
        lesson.recipes.modules,
        lesson.recipes.aliases,
    )
