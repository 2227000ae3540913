"""What the reader of Python programs knows of a value, and the memory it keeps.

A program is followed, never run. What is not known stays :class:`Unknown`; an unknown value remembers which objects it
may be, so that a change made through it is not missed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

from msgspec import Struct, field


class Known(Struct, frozen=True):
    """A constant: None, a boolean, a number, a text or bytes."""

    value: Any


class Unknown(Struct, frozen=True):
    """Something that is not known; ``why`` in a few words, ``may`` the objects that it may be or hold.

    ``truth`` is whether it counts as true, where that is known.
    """

    why: str = ""
    may: frozenset[int] = frozenset()
    truth: bool | None = None


class Symbol(Struct, frozen=True):
    """Something imported from outside the project, by its dotted path: a module, a class, a function, a constant."""

    path: str

    @property
    def name(self) -> str:
        """The last part."""
        return self.path.rpartition(".")[2]


class Ref(Struct, frozen=True):
    """An object in memory."""

    id: int


class Several(Struct, frozen=True):
    """A tuple."""

    items: tuple[Any, ...]


class Function(Struct, frozen=True):
    """A function of the project, the frame it was defined in, and the object it is bound to."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    frame: int
    module: str
    bound: Any = None
    defaults: tuple[tuple[str, Any], ...] = ()  # as they were when it was defined

    @property
    def name(self) -> str:
        """The name it was defined under."""
        return getattr(self.node, "name", "<lambda>")


class Class(Struct, frozen=True):
    """A class of the project; ``bases`` are the values of its base classes."""

    node: ast.ClassDef
    frame: int
    module: str
    bases: tuple[Any, ...] = ()


Value: TypeAlias = Known | Unknown | Symbol | Ref | Several | Function | Class

NOTHING = Unknown()
NONE = Known(None)


def same(left: Value, right: Value) -> bool:
    """Whether two values are the same one; 1, 1.0 and True are three."""
    if isinstance(left, Known) and isinstance(right, Known):
        return type(left.value) is type(right.value) and left.value == right.value
    if isinstance(left, Several) and isinstance(right, Several):
        return len(left.items) == len(right.items) and all(map(same, left.items, right.items))
    return type(left) is type(right) and left == right


class Place(Struct, frozen=True):
    """Where a value is written in the file that is read: the node of the value, and the line and columns of its key.

    ``time`` counts assignments: what is set later wins over what a file brought in between.
    """

    node: ast.expr | None
    time: int
    key: tuple[int, int, int] | None = None  # line from 1, columns from 0 in bytes


class Cell(Struct, frozen=True):
    """A value somewhere, and where it was written."""

    value: Value
    place: Place


class Overlay(Struct, frozen=True):
    """A file, or arguments, merged into a configuration at some time; ``path`` is None where it is not known which."""

    path: str | None
    time: int
    line: int
    arguments: tuple[str, ...] = ()


class Record(Struct):
    """An object in memory.

    kind     "config" (a configuration), "part" (something a recipe made and put there), "object" (made by a class of
             ``cls``), "dict", "list", "namespace", "parser", "bridge" (an AutoBridge), "merge" (a tree to merge into a
             configuration), "instance" (of a class of the project)
    recipe   of a configuration: the recipe's name; "" when it was put together from parts, None when nobody knows.
    home     of a part: the configuration it belongs to and the path there.
    opaque   why what is not written in ``fields`` is not known; "" where base or class decide.
    """

    kind: str
    cls: str | None = None
    recipe: str | None = None
    module: str = ""
    home: tuple[int, tuple[str, ...]] | None = None
    fields: dict[Any, Cell] = field(default_factory=dict)
    opaque: str = ""
    overlays: tuple[Overlay, ...] = ()
    time: int = 0

    def copy(self) -> Record:
        """The same with fields of its own."""
        return Record(
            self.kind,
            self.cls,
            self.recipe,
            self.module,
            self.home,
            dict(self.fields),
            self.opaque,
            self.overlays,
            self.time,
        )


class State:
    """Names and objects at one point of the program.

    Copies share their objects until one of them is written: :meth:`own` gives the one to write into.
    """

    __slots__ = ("_mine", "frames", "heap")

    def __init__(self, frames: dict[int, dict[str, Cell]] | None = None, heap: dict[int, Record] | None = None) -> None:
        self.frames: dict[int, dict[str, Cell]] = frames if frames is not None else {}
        self.heap: dict[int, Record] = heap if heap is not None else {}
        self._mine: set[int] = set()

    def copy(self) -> State:
        """A copy that can be changed alone."""
        self.share()
        return State(dict(self.frames), dict(self.heap))

    def share(self) -> None:
        """From now on what is held here is held elsewhere too: whoever writes takes copies."""
        self._mine = set()

    def own(self, number: int) -> Record:
        """An object to write into."""
        if number not in self._mine:
            self._mine.add(number)
            self.heap[number] = self.heap[number].copy()
        return self.heap[number]

    def names(self, number: int) -> dict[str, Cell]:
        """The names of a frame, to write into."""
        if number not in self._mine:
            self._mine.add(number)
            self.frames[number] = dict(self.frames.get(number, {}))
        return self.frames[number]

    def put(self, number: int, record: Record) -> None:
        """A new object."""
        self.heap[number] = record
        self._mine.add(number)

    def reachable(self, values: Iterable[Value]) -> Iterator[int]:
        """Every object that can be reached from values."""
        todo, seen = list(values), set()
        while todo:
            value = todo.pop()
            if isinstance(value, Several):
                todo += value.items
                continue
            if isinstance(value, Function) and value.bound is not None:
                todo.append(value.bound)
                continue
            for number in value.may if isinstance(value, Unknown) else (value.id,) if isinstance(value, Ref) else ():
                if number not in seen and number in self.heap:
                    seen.add(number)
                    yield number
                    record = self.heap[number]
                    todo += [cell.value for cell in record.fields.values()]
                    if record.home is not None and record.kind == "merge":
                        todo.append(Ref(record.home[0]))


def joined(left: State, right: State, why: str, time: int) -> State:
    """What is true after either of two ways; values that differ are unknown, with ``why``, and written at ``time``."""
    left.share()
    right.share()
    frames = {**left.frames, **right.frames}
    for number, one in left.frames.items():
        other = right.frames.get(number)
        if other is not None and one is not other:
            frames[number] = _cells(one, other, why, time)
    heap = {**left.heap, **right.heap}
    for number in left.heap.keys() - right.heap.keys() | right.heap.keys() - left.heap.keys():
        held = heap[number]
        if held.kind == "part":  # in the other way nobody looked at it
            heap[number] = _record(held, Record("part", held.cls, home=held.home, opaque=held.opaque), why, time)
    for number, a in left.heap.items():
        b = right.heap.get(number)
        if b is not None and a is not b:
            heap[number] = _record(a, b, why, time)
    return State(frames, heap)


def _record(a: Record, b: Record, why: str, time: int) -> Record:
    record = a.copy()
    record.fields = _cells(a.fields, b.fields, why, time)
    record.opaque = a.opaque or b.opaque
    if a.kind == "list" and a.fields.keys() != b.fields.keys():
        record.fields, record.opaque = {}, why
    if a.overlays != b.overlays:
        longer = max(a.overlays, b.overlays, key=len)
        record.overlays = tuple(
            Overlay(None, o.time, o.line) if o not in a.overlays or o not in b.overlays else o for o in longer
        )
    return record


def _cells(a: dict[Any, Cell], b: dict[Any, Cell], why: str, time: int) -> dict[Any, Cell]:
    found: dict[Any, Cell] = {}
    for name in [*a, *(name for name in b if name not in a)]:
        one, other = a.get(name), b.get(name)
        if one is other and one is not None:
            found[name] = one
        elif one is None or other is None:
            cell = one or other
            assert cell is not None
            if isinstance(cell.value, Ref) and cell.place.time == 0:
                found[name] = cell  # a part that was only looked at
            else:
                found[name] = Cell(Unknown(why, _may(cell.value)), Place(cell.place.node, time, cell.place.key))
        elif same(one.value, other.value):
            found[name] = one if one.place.time >= other.place.time else other
        else:
            latest = max(one, other, key=lambda cell: cell.place.time)
            found[name] = Cell(
                Unknown(why, _may(one.value) | _may(other.value)), Place(latest.place.node, time, latest.place.key)
            )
    return found


def _may(value: Value) -> frozenset[int]:
    if isinstance(value, Ref):
        return frozenset((value.id,))
    if isinstance(value, Several):
        return frozenset(number for item in value.items for number in _may(item))
    return value.may if isinstance(value, Unknown) else frozenset()


may_be = _may
