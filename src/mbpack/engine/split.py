"""One configuration over many recipes: every rule is asked once for each group of recipes that answer it alike.

A :class:`Part` is a set of recipes with a run whose recipe is that set. A rule that reads something in which the recipes differ
stops with :class:`~mbpack.facts.recipe_sets.Fork`; it is then asked again for each part, which already knows what the
whole answered alike. Parts are kept: rules that split a set the same way share them and all they worked out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

from mbpack.config.answers import twin
from mbpack.config.run import Run
from mbpack.facts.recipe_sets import Fork, RecipeSet, RecipeTable, bits
from mbpack.facts.recipes import Recipe

Answer = TypeVar("Answer")


class Part:
    """Recipes that have answered alike so far, and the run in which they are one."""

    def __init__(self, table: RecipeTable, mask: int, run: Run) -> None:
        self.table, self.mask, self.run = table, mask, run
        #: Those that the file's name speaks of.
        self.near = 0
        self._parts: dict[int, Part] = {}

    @property
    def names(self) -> list[str]:
        """The recipes."""
        return [self.table.names[bit.bit_length() - 1] for bit in bits(self.mask)]

    def part(self, mask: int) -> Part:
        """The part with these recipes; what the whole answered is known to it."""
        found = self._parts.get(mask)
        if found is None:
            found = self._parts[mask] = Part(self.table, mask, with_recipes(self.run, self.table, mask))
        return found


def with_recipes(run: Run, table: RecipeTable, mask: int) -> Run:
    """The same run on a set of recipes. What it has already worked out must hold for all of them."""
    new = twin(run)
    new.settings = run.settings.on(cast(Recipe, RecipeSet(table, mask)))
    new.memo, new.stopped = dict(run.memo), list(run.stopped)
    return new


def whole(run: Run, table: RecipeTable, mask: int) -> Part:
    """A run without a recipe, put on a set of recipes."""
    settings = run.settings.on(cast(Recipe, RecipeSet(table, mask)), forget=True)
    return Part(table, mask, Run(settings, run.context, run.evidence, run.overrides))


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
