"""The rule modules, as they lie in the topic folders beside this file; nothing is listed by hand."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache, lru_cache
from importlib import import_module

from mbpack.config.settings import Settings
from mbpack.config.watch import Watch
from mbpack.facts.releases import Release
from mbpack.rules import internal
from mbpack.rules.base import Rule
from mbpack.rules.watched import WATCHED

_HERE = os.path.dirname(__file__)


@cache
def module_names() -> tuple[str, ...]:
    """Every module in a topic folder, such as ``packing.batch``, by name."""
    return tuple(sorted(_find()))


def _find() -> Iterator[str]:
    for folder in os.scandir(_HERE):
        names = os.listdir(folder) if folder.is_dir() else []
        if "__init__.py" in names:
            yield from (f"{folder.name}.{name[:-3]}" for name in names if name.endswith(".py") and name != "__init__.py")


@cache
def module_rules(name: str) -> tuple[Rule, ...]:
    """The rules of a module, in the order of its ``RULES``; none for a module that others only look things up in."""
    rules: tuple[Rule, ...] = getattr(import_module(f"mbpack.rules.{name}"), "RULES", ())
    return rules


def of_words(name: str) -> bool:
    """Whether a module holds words for the tables' checks, which are asked by CHK101 where the recipe is known."""
    return name.rpartition(".")[2].startswith("words")


def rules_for(settings: Settings) -> tuple[Rule, ...]:
    """The rules to ask about a configuration, those that read what stopped the others last."""
    release = settings.version.release
    return _rules(release, _watch(release).seen(settings), not settings.base_known)


@cache
def _watch(release: Release) -> Watch:
    return Watch(release, WATCHED)


@lru_cache(maxsize=512)
def _rules(release: Release, seen: frozenset[str], words: bool) -> tuple[Rule, ...]:
    names = (name for name in module_names() if (name not in WATCHED or name in seen) and (words or not of_words(name)))
    rules = [rule for name in names for rule in module_rules(name)]
    return tuple(sorted((rule for rule in (*internal.RULES, *rules) if rule.applies(release)), key=lambda rule: rule.late))
