"""Many recipes read as if they were one: a question that all of them answer alike has that answer, any other splits them.

A set of recipes is a bit mask over the recipes of a release, in the order of :func:`mbpack.facts.recipes.names`. A
:class:`RecipeSet` stands in the place of a :class:`~mbpack.facts.recipes.Recipe`; asked for something in which its
recipes differ it raises :class:`Fork` with the parts that agree, and whoever asked goes on with each part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from functools import cache
from typing import Any

from mbpack.facts import recipes
from mbpack.facts.recipes import Recipe

#: What a recipe answers about itself, beside its values.
_ATTRIBUTES = (
    *("name", "release", "module", "dataset_class", "model_class", "hf_id", "peft", "gpus", "perf", "complete", "unavailable"),
    *("family", "gpu"),
)
_NOTHING: Any = object()


class Fork(Exception):
    """Recipes of a set differ in what was asked; ``parts`` are masks that agree, together the set."""

    def __init__(self, parts: tuple[int, ...]) -> None:
        super().__init__("recipes differ")
        self.parts = parts


class _Column:
    """One question, and which recipes give which answer."""

    __slots__ = ("answers",)

    def __init__(self) -> None:
        self.answers: list[tuple[Any, int]] = []  # answer, mask of the recipes that give it

    def ask(self, mask: int) -> Any:
        """The answer of all recipes of a mask. Raises Fork where they differ."""
        parts = []
        for answer, given in self.answers:
            shared = given & mask
            if shared == mask:
                return answer
            if shared:
                parts.append(shared)
        raise Fork(tuple(parts))


class RecipeTable:
    """All recipes of a release by question: every path, and what the recipes say about themselves."""

    def __init__(self, release: str, find: Callable[[str, str], Recipe | None] = recipes.find) -> None:
        found = ((name, find(release, name)) for name in recipes.names(release))
        kept = [(name, recipe) for name, recipe in found if recipe is not None and recipe.unavailable is None]
        self.names: tuple[str, ...] = tuple(name for name, _ in kept)
        self.all = (1 << len(kept)) - 1
        self._recipes = tuple(recipe for _, recipe in kept)
        self._attributes: dict[str, _Column] = {}
        self.values = self._by_path(lambda recipe: recipe.values.items())
        self.likely = self._by_path(lambda recipe: ((path, True) for path in recipe.likely))
        self.guessed = self._by_path(lambda recipe: ((path, True) for path in recipe.guessed))

    def bit(self, name: str) -> int:
        """The mask of one recipe, 0 where it is not among them."""
        return 1 << self.names.index(name) if name in self.names else 0

    def recipe(self, index: int) -> Recipe:
        """The recipe of one bit."""
        return self._recipes[index]

    def with_value(self, path: str) -> int:
        """The mask of the recipes that give something other than null at a path."""
        column = self.values.get(path)
        return sum(mask for answer, mask in column.answers if answer is not None and answer is not _NOTHING) if column else 0

    def attribute(self, name: str) -> _Column:
        """What the recipes answer about themselves; made when first asked."""
        column = self._attributes.get(name)
        if column is None:
            column = self._attributes[name] = self._column({i: getattr(recipe, name) for i, recipe in enumerate(self._recipes)})
        return column

    def _by_path(self, pairs: Callable[[Recipe], Any]) -> dict[str, _Column]:
        held: dict[str, dict[int, Any]] = {}
        for index, recipe in enumerate(self._recipes):
            for path, value in pairs(recipe):
                held.setdefault(path, {})[index] = value
        return {path: self._column(answers) for path, answers in held.items()}

    def _column(self, answers: Mapping[int, Any]) -> _Column:
        masks: dict[Any, int] = {}
        values: dict[Any, Any] = {}
        for index, value in answers.items():
            key = (value.__class__, value if isinstance(value, (str, int, float, type(None))) else repr(value))
            masks[key] = masks.get(key, 0) | 1 << index
            values.setdefault(key, value)
        column = _Column()
        column.answers = [(values[key], mask) for key, mask in masks.items()]
        rest = self.all & ~sum(masks.values())
        if rest:
            column.answers.append((_NOTHING, rest))
        return column


@cache
def table(release: str) -> RecipeTable:
    """The recipes of a release ("0.3" ... "nightly")."""
    return RecipeTable(release)


class _Paths(Mapping[str, Any]):
    """The paths of a set of recipes, as a mapping that splits where the set differs."""

    def __init__(self, owner: RecipeSet, columns: Mapping[str, _Column]) -> None:
        self._owner, self.columns = owner, columns

    def __getitem__(self, path: str) -> Any:
        column = self.columns.get(path)
        found = _NOTHING if column is None else column.ask(self._owner.mask)
        if found is _NOTHING:
            raise KeyError(path)
        return found

    def __iter__(self) -> Iterator[str]:
        self._owner.one()  # who wants all paths wants a recipe
        return (path for path in self.columns if path in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class _Marked(Set[str]):
    """The paths that carry a mark in a set of recipes."""

    def __init__(self, paths: _Paths) -> None:
        self._paths = paths

    @classmethod
    def _from_iterable(cls, paths: Iterable[Any]) -> Set[Any]:
        return frozenset(paths)

    def __contains__(self, path: object) -> bool:
        return path in self._paths

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)

    def __bool__(self) -> bool:
        return any(path in self._paths for path in self._paths.columns)


class RecipeSet:
    """Recipes of a table by their mask, asked like one recipe."""

    def __init__(self, held: RecipeTable, mask: int) -> None:
        self.table, self.mask = held, mask
        self.values: Mapping[str, Any] = _Paths(self, held.values)
        self.likely, self.guessed = _Marked(_Paths(self, held.likely)), _Marked(_Paths(self, held.guessed))

    def one(self) -> Recipe:
        """The only recipe of the set. Raises Fork, a part for each, where there are several."""
        if self.mask & (self.mask - 1):
            raise Fork(tuple(bits(self.mask)))
        return self.table.recipe(self.mask.bit_length() - 1)

    def __getattr__(self, name: str) -> Any:
        if name not in _ATTRIBUTES:
            raise AttributeError(name)
        return self.table.attribute(name).ask(self.mask)

    def is_called(self, name: str) -> bool:
        """Whether all are the recipe of that name, or none is. Raises Fork where one of several is."""
        named = self.table.bit(name) & self.mask
        if named and named != self.mask:
            raise Fork((named, self.mask & ~named))
        return bool(named)

    holds = Recipe.holds
    value = Recipe.value
    spreads_experts = Recipe.spreads_experts


def bits(mask: int) -> Iterator[int]:
    """The single bits of a mask, lowest first, each as a mask."""
    while mask:
        lowest = mask & -mask
        yield lowest
        mask ^= lowest
