"""What an execution of a start-up without values leaves behind: rows of conditions, derivations and refusals."""

from __future__ import annotations

from typing import Any, NamedTuple

from msgspec import Struct, field

from mbpack.learn.nodes import Node, const, is_const, joined, negate
from mbpack.learn.sources import Class, External, Function, Module

#: Methods that the start-up calls on whatever object stands somewhere.
STEPS = ("finalize", "validate", "__post_init__")
#: The part of a model that holds Megatron-Core's settings.
NESTED = "transformer"
_PLAIN = ("c", "r", "v", "sym", "member", "open", "gpus")


class Beyond(Exception):
    """Something that the algebra has no words for."""


class Obj(Struct, frozen=True):
    """A configuration object or field, by its path; ``held`` is what the field held when a name was given to it."""

    path: str
    cls: Class | None = None
    held: Node | None = None
    #: Whether other classes than ``cls`` may stand there.
    varies: bool = True
    #: Whether it lives in this start-up alone.
    local: bool = False

    def child(self, name: str) -> str:
        """The path of one of its fields; what stands in a model's ``transformer`` counts as the model's."""
        path = self.path.removesuffix(NESTED).rstrip(".") if self.path.rpartition(".")[2] == NESTED else self.path
        return f"{path}.{name}" if path else name


class Seq(Struct):
    """A list, tuple or set of values that are not all plain, or that grows."""

    kind: str
    items: list[Any]


class Mapping(Struct):
    """A mapping whose values are not all plain."""

    items: list[tuple[Any, Any]]


class Bound(NamedTuple):
    """A method of an object."""

    function: Function
    owner: Obj


class Super(NamedTuple):
    """``super()`` in a method."""

    owner: Obj
    after: Class


class Attribute(NamedTuple):
    """An attribute of a value, when it is called: ``text.split``."""

    value: Any
    name: str


class Closure(NamedTuple):
    """A function made inside another, and what that knows."""

    function: Function
    names: dict[str, Any]


class Builtin(NamedTuple):
    """A function of Python."""

    name: str


class Row(Struct):
    """One entry: see `Recorder`."""

    kind: str
    guards: tuple[tuple[Node, bool], ...]
    target: Any
    node: Node
    place: str = ""
    rows: list[Row] = field(default_factory=list)


class Scope(Struct):
    """A function call or a loop that can end before its last statement."""

    kind: str
    base: int
    live: Node | None = None
    place: str = ""
    returns: list[tuple[Node, Any]] = field(default_factory=list)
    names: dict[str, Any] = field(default_factory=dict)
    module: Module | None = None
    owner: Class | None = None
    self_: Any = None


class Recorder:
    """Collects the rows of one block.

    let     a register holds the value of an expression from here on
    set     a key holds the value of an expression from here on
    setby   a field whose name is worked out is set
    refuse  the start-up stops here where the condition holds
    call    another block runs on the object at a path
    each    rows for every element of a list
    add     a list in a register grows by a value
    use     an expression is worked out, because that may stop the start-up
    """

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.stack: list[tuple[Node, bool]] = []
        self.scopes: list[Scope] = []
        self.registers = 0
        self.variables = 0
        self.pure = 0
        self.overwritten: set[str] = set()
        self.locals = 0
        #: Objects made on the way, by the key that holds them.
        self.aliases: dict[str, Obj] = {}

    def guards(
        self, since: int = 0, until: int | None = None, scopes: list[Scope] | None = None
    ) -> tuple[tuple[Node, bool], ...]:
        """The conditions under which the next row counts."""
        found = list(self.stack[since:until])
        for scope in self.scopes if scopes is None else scopes:
            if scope.live is not None:
                found.append((scope.live, True))
        return tuple(dict.fromkeys(found))

    def condition(self, scope: Scope) -> Node:
        """The conditions since a scope began, as one."""
        later = self.scopes[self.scopes.index(scope) :]
        return joined("and", [n if on else negate(n) for n, on in self.guards(scope.base, None, later)] or [const(True)])

    def emit(
        self, kind: str, target: Any, node: Node, place: str = "", guards: tuple[tuple[Node, bool], ...] | None = None
    ) -> Row:
        """Add a row."""
        if self.pure:
            raise Beyond(f"a statement inside an expression ({kind})")
        guards = self.guards() if guards is None else guards
        if any(is_const(node) and bool(node[1]) is not on for node, on in guards):
            return Row(kind, guards, target, node, place)
        kept = tuple((guard, on) for guard, on in guards if not is_const(guard))
        row = Row(kind, kept, target, node, place)
        self.rows.append(row)
        return row

    def let(self, node: Node, guards: tuple[tuple[Node, bool], ...] | None = None) -> Node:
        """A register that holds what an expression is now."""
        if node[0] in _PLAIN or self.pure:
            return node
        if all(isinstance(part, tuple) and part[0] == "c" for part in node[1:]) and node[0] in ("list", "tuple", "set"):
            return node
        self.registers += 1
        name = ("r", self.registers)
        place = next((scope.place for scope in reversed(self.scopes) if scope.kind == "function"), "")
        self.emit("let", name, node, place, guards)
        return name

    def variable(self) -> Node:
        """A new element of a quantifier."""
        self.variables += 1
        return ("v", self.variables)


def path_of(value: Class | Function | External | Module) -> str:
    """The dotted path by which a class, function or foreign name is the same as another."""
    if isinstance(value, Module):
        return value.name
    return value.path
