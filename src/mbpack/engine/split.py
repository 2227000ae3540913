"""One configuration over many recipes: every rule is asked once for each group of recipes that answer it alike.

A :class:`Part` is a set of recipes with a run whose recipe is that set. A rule that reads something in which the recipes differ
stops with :class:`~mbpack.facts.recipe_sets.Fork`; it is then asked again for each part. All parts of a whole share what
its recipes answer (:mod:`mbpack.engine.columns`), and there is one part for each set of recipes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from mbpack.config.run import Run
from mbpack.engine.part_run import PartRun, RunOver, over_recipes
from mbpack.engine.part_settings import SettingsOver
from mbpack.facts.recipe_sets import Fork, RecipeTable, bits

Answer = TypeVar("Answer")


class Part:
    """Recipes that have answered alike so far, and the run in which they are one."""

    def __init__(self, table: RecipeTable, mask: int, run: PartRun, parts: dict[int, Part]) -> None:
        self.table, self.mask, self.run = table, mask, run
        #: Those that the file's name speaks of.
        self.near = 0
        self._parts = parts

    @property
    def names(self) -> list[str]:
        """The recipes."""
        return [self.table.names[bit.bit_length() - 1] for bit in bits(self.mask)]

    def part(self, mask: int) -> Part:
        """The part with these recipes; there is one for each set of them."""
        found = self._parts.get(mask)
        if found is None:
            found = self._parts[mask] = Part(self.table, mask, self.run.over.part(mask), self._parts)
        return found


def whole(run: Run, table: RecipeTable, mask: int, settings: SettingsOver | None = None) -> Part:
    """A run without a recipe, put on a set of recipes; ``settings``: what its settings were asked already."""
    return part_of(over_recipes(run, table, mask, settings))


def part_of(over: RunOver) -> Part:
    """All recipes of what was asked."""
    parts: dict[int, Part] = {}
    mask = over.everybody
    parts[mask] = Part(over.settings.table, mask, over.part(mask), parts)
    return parts[mask]


def answers(start: Part, mask: int, ask: Callable[[Part], Answer]) -> Iterator[tuple[int, Answer]]:
    """What ``ask`` says, with the recipes for which it says so; their masks are disjoint and together ``mask``."""
    waiting = [(start, mask)]
    while waiting:
        part, wanted = waiting.pop()
        try:
            answer = ask(part)
        except Fork as fork:
            waiting += [(part.part(piece), piece & wanted) for piece in fork.parts if piece & wanted]
        else:
            yield wanted & part.mask, answer


def per_value(found: Iterator[tuple[int, Any]]) -> dict[Any, int]:
    """Answers that can be told apart, each with all its recipes."""
    masks: dict[Any, int] = {}
    for mask, answer in found:
        masks[answer] = masks.get(answer, 0) | mask
    return masks
