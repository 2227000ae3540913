"""The memory of a program that is followed, and how attributes are read and written in it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct

from mbpack.config.python.commandline import Option
from mbpack.config.python.values import (
    NOTHING,
    Cell,
    Class,
    Function,
    Known,
    Overlay,
    Place,
    Record,
    Ref,
    Several,
    State,
    Symbol,
    Unknown,
    Value,
    may_be,
)

#: Expressions and statements that are followed at most; what comes after them is unknown.
MAX_STEPS = 60_000
MAX_DEPTH = 25
#: Kinds of records that are part of a configuration.
SETTINGS = frozenset({"config", "part", "object"})
#: Kinds of records that functions are kept in.
_HOLDERS = frozenset({"list", "dict", "namespace", "partial", "instance"})


class Base(Protocol):
    """What is known of the objects that a program does not make itself."""

    def held(self, recipe: str | None, path: tuple[str, ...]) -> Value | bool | None:
        """What a recipe holds at a path: a value, True for some object, False where there is no such attribute, None unknown."""

    def default(self, cls: str, name: str) -> Value | bool | None:
        """The same for an attribute that the constructor of a class was not given."""


class Command(Struct, frozen=True):
    """The command that starts a program: its arguments (None for one that is not known) and what is set in its environment."""

    arguments: tuple[str | None, ...] = ()
    environment: Mapping[str, str] = {}


class OutOfSteps(Exception):
    """The program is too long to be followed."""


class Ended(Exception):
    """The program, or the function, ends here."""


class Condition(Struct):
    """A condition that could not be decided: its text, its line, and whether a configuration depends on it."""

    text: str
    line: int
    node: ast.expr
    matters: bool = False


class Shown(Struct, frozen=True):
    """A configuration at the point where the program hands it over.

    ``how`` is the function that takes it ("finetune", "pretrain"), or the one of the project that returns it; ``line`` its
    line. ``step`` is the module of the step function, where known.
    """

    config: int
    state: State
    how: str
    line: int
    launched: bool
    step: str | None = None


class Machine:
    """State and helpers; :mod:`mbpack.config.python.expressions` and its neighbours build on it.

    ``command`` is the command that starts the program, where it is known. ``defaults``: defaults of arguments and environment variables count as given. ``forced``: values that expressions
    are to have, by their text.
    """

    def __init__(
        self,
        base: Base | None = None,
        defaults: bool = False,
        forced: Mapping[str, Value] | None = None,
        path: str = "",
        command: Command | None = None,
    ) -> None:
        self.base, self.defaults, self.forced, self.path = base, defaults, dict(forced or {}), path
        self.command = command
        self.tasks: list[tuple[Value, Value | None, ast.Call, State]] = []  # NeMo-Run: script, executor, the call
        self.options: dict[int, list[Option]] = {}  # of a parser, by the time it was made
        self.state = State()
        self.steps, self.limit = 0, MAX_STEPS
        self.clock = 0
        self.ids = 0
        self.depth = 0
        self.parents: dict[int, int | None] = {}
        self.parts: dict[tuple[int, str], int] = {}
        self.frame = 0
        self.module = "__main__"
        self.globals: dict[int, int] = {}  # frame -> frame of its module
        self.declared: dict[tuple[int, str], int] = {}  # names declared global or nonlocal
        self.called: set[ast.AST] = set()
        self.shown: list[Shown] = []
        self.away: dict[int, Shown] = {}  # configurations where they were first given to what is not followed
        self.conditions: dict[str, Condition] = {}
        self.decided: dict[str, bool] = {}
        self.tested: dict[str, Value] = {}
        self.used_defaults: dict[str, str] = {}
        self.asked_base = False
        self.makers: frozenset[str] = frozenset()  # functions from elsewhere that are known to return a configuration
        self.asked_makers: set[str] = set()  # functions whose results start a training
        self.notes: dict[str, int] = {}  # what could not be followed -> line
        self.sites: list[ast.expr] = []  # calls in the file itself that lead into other files

    # ------------------------------------------------------------------ memory

    def tick(self) -> int:
        """The time of the next assignment."""
        self.clock += 1
        return self.clock

    def step(self) -> None:
        """Count one step.

        Raises:
            OutOfSteps: there were too many.
        """
        self.steps += 1
        if self.steps > self.limit:
            raise OutOfSteps

    def new(self, record: Record) -> Ref:
        """Put an object into memory."""
        self.ids += 1
        record.time = record.time or self.tick()
        self.state.put(self.ids, record)
        return Ref(self.ids)

    def new_frame(self, parent: int | None) -> int:
        """A place for names."""
        self.ids += 1
        self.state.frames[self.ids] = {}
        self.parents[self.ids] = parent
        self.globals[self.ids] = self.globals.get(parent, self.ids) if parent is not None else self.ids
        return self.ids

    def record(self, value: Value) -> Record | None:
        """The object of a value, if it is surely one."""
        return self.state.own(value.id) if isinstance(value, Ref) and value.id in self.state.heap else None

    def note(self, what: str, node: ast.AST) -> None:
        """Remember what could not be followed."""
        if self.module == "__main__":
            self.notes.setdefault(what, getattr(node, "lineno", 0))

    # ------------------------------------------------------------------ names

    def find(self, name: str) -> Cell | None:
        """What a name holds, from the innermost frame outwards."""
        frame: int | None = self.frame
        while frame is not None:
            cell = self.state.frames.get(frame, {}).get(name)
            if cell is not None:
                return cell
            frame = self.parents.get(frame)
        return None

    def bind(self, name: str, value: Value, place: Place | None = None) -> None:
        """Give a name a value."""
        frame = self.declared.get((self.frame, name), self.frame)
        self.state.names(frame)[name] = Cell(value, place or Place(None, self.tick()))

    def rebind(self, name: str, value: Value) -> None:
        """Give a name a value where it is held, in this frame or around it."""
        frame: int | None = self.frame
        while frame is not None:
            if name in self.state.frames.get(frame, {}):
                self.state.names(frame)[name] = Cell(value, Place(None, self.tick()))
                return
            frame = self.parents.get(frame)

    # ------------------------------------------------------------------ places

    def place(self, node: ast.expr | None, key: tuple[int, int, int] | None = None) -> Place:
        """The place of a value; what another file writes stands where the call leads there."""
        if self.sites and self.module != "__main__":
            return Place(self.sites[0], self.tick())
        return Place(node, self.tick(), key)

    # ------------------------------------------------------------------ attributes

    def get(self, owner: Value, name: str) -> Value:
        """The attribute of a value."""
        if isinstance(owner, Symbol):
            return Symbol(f"{owner.path}.{name}")
        if isinstance(owner, Class):
            return self.class_attribute(owner, name)
        record = self.record(owner)
        if record is None:
            return Unknown(owner.why if isinstance(owner, Unknown) else "", frozenset(self.state.reachable([owner])))
        assert isinstance(owner, Ref)
        cell = record.fields.get(name)
        if cell is not None:
            return cell.value
        if name == "__dict__":
            return Unknown("__dict__", frozenset((owner.id,)))
        if record.kind in SETTINGS:
            return self._lazily(owner, record, name)
        if record.kind == "instance" and record.cls is not None:
            return Unknown(record.opaque or "")
        return Unknown(record.opaque)

    def _lazily(self, owner: Ref, record: Record, name: str) -> Value:
        """An attribute that nobody wrote: a constant of the recipe or class, else a part that may be written into."""
        held = self.looked_up(owner.id, name)
        return held if isinstance(held, Known) else self.part(owner, record, name)

    def part(self, owner: Ref, record: Record, name: str) -> Ref:
        """The part of an object under a name."""
        key = (owner.id, name)
        if key not in self.parts:
            self.ids += 1
            self.parts[key] = self.ids
        number = self.parts[key]
        if number not in self.state.heap:
            self.state.put(number, Record("part", home=(owner.id, (name,)), opaque=record.opaque))
        record.fields[name] = Cell(Ref(number), Place(None, 0))
        return Ref(number)

    def looked_up(self, number: int, name: str) -> Value | bool | None:
        """What recipe or class say of an attribute that nobody wrote."""
        record = self.state.heap[number]
        if record.opaque:
            return None
        path: tuple[str, ...] = (name,)
        while record.kind == "part" and record.home is not None:
            number, above = record.home
            path = (*above, *path)
            record = self.state.heap[number]
            if record.opaque:
                return None
        if record.kind == "config" and record.recipe and not record.overlays:
            self.asked_base = True
            return self.base.held(record.recipe, path) if self.base is not None else None
        if record.kind == "object" and record.cls is not None and len(path) == 1:
            self.asked_base = True
            return self.base.default(record.cls, name) if self.base is not None else None
        return None

    def set(self, owner: Value, name: Any, value: Value, place: Place) -> None:
        """Write an attribute or an item."""
        record = self.record(owner)
        if record is not None:
            record.fields[name] = Cell(value, place)
            return
        for number in may_be(owner):  # one of them is written
            if number in self.state.heap:
                self._lose(self.state.own(number), name)

    def _lose(self, record: Record, name: Any) -> None:
        old = record.fields.pop(name, None)
        if record.kind == "list":
            self.forget(record)
        elif isinstance(name, str):
            why = "set through a name that may be another object"
            record.fields[name] = Cell(Unknown(why, may_be(old.value) if old else frozenset()), Place(None, self.tick()))

    def forget(self, record: Record, why: str = "changed where it cannot be followed") -> None:
        """Nothing is known of an object any more."""
        record.fields = {}
        record.opaque = record.opaque or why

    def escape(self, values: Iterable[Value], why: str) -> frozenset[int]:
        """Values go where they cannot be followed: what can be reached from them may be changed."""
        found = frozenset(self.state.reachable(self._with_named(list(values), why)))
        for number in found:
            if self.state.heap[number].kind not in ("parser", "bridge"):
                self.forget(self.state.own(number), why)
        return found

    def _with_named(self, values: list[Value], why: str) -> list[Value]:
        """Values, and what the functions among them name: who gets a function may call it."""
        seen: set[ast.AST] = set()
        index, held = 0, values
        while index < len(held):
            value = held[index]
            index += 1
            if isinstance(value, Several):
                held = [*held, *value.items]
            elif isinstance(value, Function) and value.node not in seen:
                seen.add(value.node)
                held = [*held, *self._named_in(value, why)]
            elif (record := self.record(value)) is not None and record.kind in _HOLDERS:
                held = [*held, *(cell.value for cell in record.fields.values() if isinstance(cell.value, Function))]
        return held

    def _named_in(self, function: Function, why: str) -> list[Value]:
        """What a function names outside of itself; a name that it may give another value is not known any more."""
        nodes = list(ast.walk(function.node))
        written = {name for node in nodes if isinstance(node, (ast.Global, ast.Nonlocal)) for name in node.names}
        before, self.frame = self.frame, function.frame
        found = []
        for name in {node.id for node in nodes if isinstance(node, ast.Name)}:
            cell = self.find(name)
            if cell is not None:
                found.append(cell.value)
                if name in written:
                    self.rebind(name, Unknown(why, may_be(cell.value)))
        self.frame = before
        return found

    # ------------------------------------------------------------------ what others fill in

    def class_attribute(self, owner: Class, name: str) -> Value:
        """An attribute of a class of the project."""
        raise NotImplementedError

    # ------------------------------------------------------------------ plain values

    def plain(self, value: Value, depth: int = 0) -> Any:
        """A value as Python's own; raises ValueError where a part of it is not known."""
        if isinstance(value, Known):
            return value.value
        if isinstance(value, Several):
            return tuple(self.plain(item, depth + 1) for item in value.items)
        record = self.record(value)
        if record is None or record.opaque or depth > 8:
            raise ValueError
        if record.kind == "list":
            return [self.plain(cell.value, depth + 1) for cell in record.fields.values()]
        if record.kind == "dict":
            return {name: self.plain(cell.value, depth + 1) for name, cell in record.fields.items()}
        raise ValueError

    def is_plain(self, value: Value) -> bool:
        """Whether a value is known with all its parts."""
        try:
            self.plain(value)
        except ValueError:
            return False
        return True

    def items_of(self, value: Value) -> list[Value] | None:
        """The elements of something that is iterated over, None where they are not known."""
        if isinstance(value, Several):
            return list(value.items)
        if isinstance(value, Known) and isinstance(value.value, str):
            return [Known(letter) for letter in value.value]
        record = self.record(value)
        if record is None or record.opaque:
            return None
        if record.kind == "list":
            return [cell.value for cell in record.fields.values()]
        if record.kind == "dict":
            return [Known(name) for name in record.fields]
        return None

    def make_list(self, values: Sequence[Value], node: ast.expr | None = None) -> Ref:
        """A list."""
        place = Place(node, self.tick())
        return self.new(Record("list", fields={index: Cell(value, place) for index, value in enumerate(values)}))

    def make_dict(self, entries: Mapping[Any, Value], node: ast.expr | None = None) -> Ref:
        """A dictionary."""
        place = Place(node, self.tick())
        return self.new(Record("dict", fields={name: Cell(value, place) for name, value in entries.items()}))

    def of(self, value: Any) -> Value:
        """A value of Python's as one of ours."""
        if value is None or isinstance(value, (bool, int, float, str, bytes)):
            return Known(value)
        if isinstance(value, tuple):
            return Several(tuple(self.of(item) for item in value))
        if isinstance(value, (list, set, range)):
            return self.make_list([self.of(item) for item in value])
        if isinstance(value, dict):
            return self.make_dict({name: self.of(item) for name, item in value.items()})
        return NOTHING


def is_generator(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a function yields."""
    todo: list[ast.AST] = list(node.body)
    while todo:
        child = todo.pop()
        if isinstance(child, (ast.Yield, ast.YieldFrom)):
            return True
        if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            todo += ast.iter_child_nodes(child)
    return False


Builtin = Callable[..., Any]
__all__ = ["Base", "Builtin", "Condition", "Ended", "Function", "Machine", "OutOfSteps", "Overlay", "Shown"]
