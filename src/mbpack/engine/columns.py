"""What the recipes of a set answer: every question is worked out once for all recipes that answer it alike.

:class:`Asked` keeps, for one configuration, each question with its answers and the recipes that give them, and what was read for
it. Settings and runs over a set of recipes (:mod:`mbpack.engine.part_settings`, :mod:`mbpack.engine.part_run`) ask it before they
work out anything.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Generic, TypeVar

from msgspec import Struct

from mbpack.config.answers import Layer, Setting, Unknown
from mbpack.config.document import Document, Item
from mbpack.facts.recipe_sets import Fork
from mbpack.facts.schema import Field

P = TypeVar("P")
T = TypeVar("T")

#: What was read for the answers that are being worked out, the innermost last: paths of the release, ("class", path), columns of
#: other questions, and texts for what is nothing of these.
NOTED: list[set[Any]] = []


def note(read: Any) -> None:
    """Note what is read, for the answer that is being worked out."""
    if NOTED:
        NOTED[-1].add(read)


def unnoted(work_out: Callable[[], T]) -> T:
    """What follows from something that is noted already."""
    NOTED.append(set())
    try:
        return work_out()
    finally:
        NOTED.pop()


#: Fields of classes, which live as long as their schema, by identity with their marks.
_FIELDS: dict[int, tuple[Field, Any]] = {}


class Raised(Struct, frozen=True):
    """An answer that is an exception."""

    error: Exception


class Column:
    """One question: its answers so far, each with the recipes that give it."""

    __slots__ = ("covered", "marks", "pieces", "reads")

    def __init__(self) -> None:
        self.pieces: list[tuple[int, Any]] = []  # recipes, answer; the recipes of two pieces are never the same
        self.marks: dict[Any, int] = {}
        self.covered = 0
        self.reads: set[Any] = set()  # what was read for it, other columns among it

    def add(self, mask: int, answer: Any) -> None:
        """Note an answer; recipes that answered before keep their first one."""
        mask &= ~self.covered
        if not mask:
            return
        self.covered |= mask
        mark = mark_of(answer)
        index = self.marks.setdefault(mark, len(self.pieces))
        if index == len(self.pieces):
            self.pieces.append((mask, answer))
        else:
            self.pieces[index] = (self.pieces[index][0] | mask, self.pieces[index][1])


class Asked(Generic[P]):
    """The questions that the recipes of a configuration were asked; ``part`` makes what is asked for some of the recipes."""

    def __init__(self, everybody: int, part: Callable[[int], P]) -> None:
        self.everybody = everybody
        self._make, self._parts = part, dict[int, P]()
        self._columns: dict[Any, Column] = {}

    def part(self, mask: int) -> P:
        """What is asked for the recipes of a mask."""
        found = self._parts.get(mask)
        if found is None:
            found = self._parts[mask] = self._make(mask)
        return found

    def ask(self, question: Any, mask: int, answer: Callable[[P], Any]) -> Any:
        """The answer of all recipes of a mask; raised where it is an exception.

        Raises:
            Fork: they differ.
        """
        return self.told(question, mask, answer)[0]

    def told(self, question: Any, mask: int, answer: Callable[[P], Any]) -> tuple[Any, Column]:
        """The answer of all recipes of a mask, as :meth:`ask` gives it, and the question with all its answers."""
        column = self._columns.get(question)
        if column is None or mask & ~column.covered:
            column = self.column(question, mask, answer)
        if NOTED:
            NOTED[-1].add(column)
        for given, found in column.pieces:
            if not mask & ~given:
                if found.__class__ is Raised:
                    raise found.error
                return found, column
        raise Fork(tuple(given & mask for given, _ in column.pieces if given & mask))

    def column(self, question: Any, mask: int, answer: Callable[[P], Any]) -> Column:
        """The answers to a question, at least those of the recipes of a mask."""
        column = self._columns.get(question)
        if column is None:
            column = self._columns[question] = Column()
        if mask & ~column.covered:
            self._fill(column, (self.everybody | mask) & ~column.covered, answer)
        return column

    def _fill(self, column: Column, mask: int, answer: Callable[[P], Any]) -> None:
        waiting = [mask]
        NOTED.append(set())
        try:
            while waiting:
                mask = waiting.pop()
                try:
                    found = answer(self.part(mask))
                except Fork as fork:
                    waiting += fork.parts
                except Exception as error:
                    column.add(mask, Raised(error))
                else:
                    column.add(mask, found)
        finally:
            column.reads |= NOTED.pop()
            column.reads.discard(column)


def mark_of(answer: Any) -> Any:
    """What two answers share that nobody can tell apart; places in a file are the same only where they are the same object."""
    kind = answer.__class__
    if answer is None or kind in (str, bool, int, float):
        return kind, str(answer) if kind is float else answer
    if kind is Raised:
        return kind, mark_of(answer.error)
    if kind is Unknown:
        return kind, answer.key, answer.needs, answer.reason, mark_of(answer.text)
    if kind is Setting:
        value = answer.value
        held = value if value is None or value.__class__ in (str, bool, int) else mark_of(value)
        return kind, answer.key, value.__class__, held, answer.origin, id(answer.item), id(answer.document), answer.likely
    if kind is Layer:
        return kind, id(answer.root)
    if kind is Field:
        found = _FIELDS.get(id(answer))
        if found is None:
            found = _FIELDS[id(answer)] = answer, (kind, *map(mark_of, answer))
        return found[1]
    if isinstance(answer, (tuple, list)):
        return kind, tuple(map(mark_of, answer))
    if kind is dict:
        return kind, tuple((mark_of(name), mark_of(value)) for name, value in answer.items())
    if isinstance(answer, Struct) and not isinstance(answer, (Item, Document)):
        return kind, tuple(mark_of(getattr(answer, name)) for name in kind.__struct_fields__)
    if isinstance(answer, Enum):
        return answer
    return kind, id(answer)
