"""Many recipes read as if they were one: a question that all of them answer alike has that answer, any other splits them.

A set of recipes is a bit mask over the recipes of a release, in the order of :func:`mbpack.facts.recipes.names`. A
:class:`RecipeSet` stands in the place of a :class:`~mbpack.facts.recipes.Recipe`; asked for something in which its
recipes differ it raises :class:`Fork` with the parts that agree, and whoever asked goes on with each part.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from functools import cache, cached_property
from typing import Any

import msgspec

from mbpack.facts import recipes
from mbpack.facts.recipes import Recipe
from mbpack.facts.schema import Opaque, read_data

#: What a recipe answers about itself, beside its values.
_ATTRIBUTES = (
    *("name", "release", "module", "dataset_class", "model_class", "hf_id", "peft", "gpus", "perf", "complete", "unavailable"),
    *("family", "gpu", "context"),
)
_NOTHING: Any = object()
_OPAQUE = 1


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

    def __init__(self, release: str, columns: Mapping[str, Any]) -> None:
        self.release = release
        self.names: tuple[str, ...] = tuple(columns["names"])
        self.all = (1 << len(self.names)) - 1
        self.values, self.likely, self.guessed = (self._columns(columns[kind]) for kind in ("values", "likely", "guessed"))
        self._attributes = self._columns(columns["attributes"])

    def bit(self, name: str) -> int:
        """The mask of one recipe, 0 where it is not among them."""
        return 1 << self.names.index(name) if name in self.names else 0

    def recipe(self, index: int) -> Recipe:
        """The recipe of one bit."""
        found = recipes.find(self.release, self.names[index])
        assert found is not None
        return found

    def with_value(self, path: str) -> int:
        """The mask of the recipes that give something other than null at a path."""
        column = self.values.get(path)
        return sum(mask for answer, mask in column.answers if answer is not None and answer is not _NOTHING) if column else 0

    def attribute(self, name: str) -> _Column:
        """What the recipes answer about themselves."""
        return self._attributes[name]

    def _columns(self, held: Mapping[str, list[tuple[Any, bytes]]]) -> dict[str, _Column]:
        found: dict[str, _Column] = {}
        for name, answers in held.items():
            column = found[name] = _Column()
            rest = self.all
            for answer, stored in answers:
                mask = int.from_bytes(stored, "little")
                column.answers.append((answer, mask))
                rest ^= mask
            if rest:
                column.answers.append((_NOTHING, rest))
        return found


def columns_of(release: str) -> dict[str, Any]:
    """What the recipes of a release answer, by question, as `data/profiles-<release>.bin` holds it (`tools/profiles.py`).

    ``values``, ``likely``, ``guessed`` by path and ``attributes`` by name, each a list of answer and mask (bytes, the first recipe of
    ``names`` in the lowest bit).
    """
    found = ((name, recipes.find(release, name)) for name in recipes.names(release))
    pairs = [(name, recipe) for name, recipe in found if recipe is not None and recipe.unavailable is None]
    names, kept = [name for name, _ in pairs], [recipe for _, recipe in pairs]
    held: dict[str, dict[str, dict[int, Any]]] = {"values": {}, "likely": {}, "guessed": {}, "attributes": {}}
    for index, recipe in enumerate(kept):
        for path, value in recipe.values.items():
            held["values"].setdefault(path, {})[index] = value
        for path in recipe.likely:
            held["likely"].setdefault(path, {})[index] = True
        for path in recipe.guessed:
            held["guessed"].setdefault(path, {})[index] = True
        for name in _ATTRIBUTES:
            held["attributes"].setdefault(name, {})[index] = getattr(recipe, name)
    size = -(-len(kept) // 8)
    return {"names": names} | {
        kind: {path: _grouped(answers, size) for path, answers in sorted(paths.items())} for kind, paths in held.items()
    }


def _grouped(answers: Mapping[int, Any], size: int) -> list[tuple[Any, bytes]]:
    masks: dict[Any, int] = {}
    values: dict[Any, Any] = {}
    for index, value in answers.items():
        key = (value.__class__, value if isinstance(value, (str, int, float, type(None))) else repr(value))
        masks[key] = masks.get(key, 0) | 1 << index
        values.setdefault(key, value)
    return [(values[key], mask.to_bytes(size, "little")) for key, mask in masks.items()]


def packed(columns: Mapping[str, Any]) -> bytes:
    """Columns as the bytes of a data file; values that plain data cannot express keep their kind."""
    return msgspec.msgpack.encode(_plain(columns))


def _plain(value: Any) -> Any:
    if isinstance(value, Opaque):
        return msgspec.msgpack.Ext(_OPAQUE, value.text.encode())
    if isinstance(value, Mapping):
        return {key: _plain(child) for key, child in value.items()}
    return [_plain(child) for child in value] if isinstance(value, (list, tuple)) else value


def _opaque(code: int, data: memoryview) -> Opaque:
    assert code == _OPAQUE
    return Opaque(bytes(data).decode())


@cache
def table(release: str) -> RecipeTable:
    """The recipes of a release ("0.3" ... "nightly")."""
    return RecipeTable(release, msgspec.msgpack.decode(read_data(f"profiles-{release}.bin"), ext_hook=_opaque))


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

    @cached_property
    def values(self) -> Mapping[str, Any]:
        """See :class:`Recipe`, as the following."""
        return _Paths(self, self.table.values)

    @cached_property
    def likely(self) -> Set[str]:
        return _Marked(_Paths(self, self.table.likely))

    @cached_property
    def guessed(self) -> Set[str]:
        return _Marked(_Paths(self, self.table.guessed))

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
