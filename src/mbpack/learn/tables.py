"""The table of one release: for the start-up and for every class it asks, the rows of what is checked and derived.

Rows are kept in blocks: the start-up itself, and one for each method that a class has and the start-up calls. Blocks
that say the same are one. The layout of the compact form is described in `mbpack.facts.checks`, which reads it.
"""

from __future__ import annotations

import ast
import hashlib
from typing import Any, NamedTuple

import msgspec

from mbpack.learn.classes import Classes
from mbpack.learn.nodes import PUT_TOGETHER, Node, opened, parts_of
from mbpack.learn.record import Obj, Row
from mbpack.learn.sources import Class, Function, Sources
from mbpack.learn.statements import Execution
from mbpack.learn.uses import uses

CONTAINER = "megatron.bridge.training.config.ConfigContainer"
START = "megatron.bridge.training.config.runtime_config_update"
PACKAGES = (
    "megatron.bridge",
    "megatron.training",
    "megatron.core.transformer",
    "megatron.core.optimizer",
    "megatron.core.distributed",
    "megatron.core.datasets",
)
_STORED = ("keys", "registers", "places", "rows")
_KINDS = ("let", "set", "refuse", "call", "each", "add", "use", "setby")


def stored(table: Table) -> bytes:
    """The compact form of a table."""
    blocks = {name: msgspec.Raw(stored_block(block)) for name, block in table.blocks.items()}
    asked = sorted({key for block in table.blocks.values() for key in block["keys"] if key[:1] != "$"})
    return msgspec.msgpack.encode({"start": table.start, "methods": table.methods, "blocks": blocks, "asked": asked})


def stored_block(block: dict[str, Any]) -> bytes:
    """The compact form of a block."""
    kept = {name: block[name] for name in _STORED}
    return msgspec.msgpack.encode({**kept, **uses(block["keys"], block["registers"], block["rows"])})


class Table(NamedTuple):
    """Everything that the start-up of a release checks."""

    start: str
    blocks: dict[str, dict[str, Any]]
    methods: dict[str, dict[str, str]]  # class -> method -> block
    beyond: list[tuple[str, str]]


class Encoder:
    """Rows of one block with short numbers for keys, registers and places."""

    def __init__(self) -> None:
        self.keys: dict[str, int] = {}
        self.registers: dict[int, int] = {}
        self.places: dict[str, int] = {}
        self.names: dict[str, int] = {}
        self.around: list[Node] = []
        self.defined: dict[Node, Node] = {}

    def key(self, name: str) -> int:
        """The number of a key."""
        return self.keys.setdefault(name, len(self.keys))

    def register(self, number: int) -> int:
        """The number of a register."""
        return self.registers.setdefault(number, len(self.registers))

    def node(self, node: Any) -> Any:
        """An expression: constants stand for themselves, everything else is a list."""
        head = node[0]
        if head == "c":
            return node[1]
        if head in ("list", "tuple", "set", "when"):
            return [head, *(self.node(_unworded(part)) for part in node[1:])]
        if head == "k":
            return ["k", self.key(node[1])]
        if head == "r":
            return ["r", self.register(node[1])]
        if head in ("v", "open", "sym", "member"):
            return list(node)
        if head in ("cls",):
            return ["cls", self.key(node[1][1]), *node[2:]]
        if head == "has":
            return ["has", self.key(node[1])]
        if head == "get":
            return ["get", self.key(node[1]), self.node(node[2])]
        if head == "isa":
            return ["isa", self.node(node[1]), *node[2:]]
        if head == "dict":
            return ["dict", *([self.node(key), self.node(held)] for key, held in node[1:])]
        if head == "map":
            return ["map", node[1], self.node(node[2]), self.node(node[3]), self.node(node[4])]
        if head in ("fn", "do"):
            return [head, node[1], *(self.node(part) for part in node[2:])]
        if head == "env":
            return ["env", node[1], self.node(node[2])]
        if head == "gpus":
            return ["gpus"]
        return [head, *(self.node(part) for part in node[1:])]

    def row(self, row: Row) -> list[Any]:
        """One row."""
        guards = [[self.node(guard), on] for guard, on in row.guards]
        target = row.target
        if row.kind in ("let", "add"):
            target = self.register(target[1])
        elif row.kind == "set":
            target = self.key(target)
        elif row.kind == "each":
            target = target[1]
        elif row.kind == "call":
            target = list(target)
        place = self.places.setdefault(row.place, len(self.places))
        encoded = [_KINDS.index(row.kind), guards, target, self.node(row.node), place]
        if row.kind == "refuse":
            encoded.append(self.name(row))
        elif row.kind == "each":
            self.around.append(row.node)
            encoded.append([self.row(inner) for inner in row.rows])
            self.around.pop()
        return encoded

    def name(self, row: Row) -> str:
        """What a refusal is called in every release: its function, the keys and texts that its own condition is about, and its guard's keys."""
        nodes = [row.node, *(guard for guard, _ in reversed(row.guards)), *reversed(self.around)]
        told = [(node, keys) for node in nodes if (keys := self.keys_of(node))]
        name = f"{row.place}:"
        if told:
            node, keys = told[0]
            guard = next((found for _, found in told[1:] if not set(found) <= set(keys)), [])
            texts = sorted({str(part[1]) for part in self.parts_of(node) if part[0] == "c" and _is_word(part[1])})
            name += "+".join(keys[:4]) + "".join(f"={text}" for text in texts[:3])
            name += f" if {'+'.join(guard[:3])}" if guard else ""
        count = self.names[name] = self.names.get(name, 0) + 1
        return name if count == 1 else f"{name}#{count}"

    def parts_of(self, node: Node) -> list[Node]:
        """An expression and all in it, through the register that it is."""
        return list(parts_of(self.defined.get(node, node)))

    def keys_of(self, node: Node, depth: int = 6) -> list[str]:
        """The keys that an expression reads, through registers too."""
        found: set[str] = set()
        for part in parts_of(node):
            if part[0] in ("k", "has", "get") and isinstance(part[1], str):
                found.add(part[1])
            elif part[0] == "cls":
                found.add(part[1][1])
            elif part[0] == "env":
                found.add(f"${part[1]}")
            elif part[0] == "r" and depth and part in self.defined:
                found.update(self.keys_of(self.defined[part], depth - 1))
        return sorted(found)


def _is_word(constant: Any) -> bool:
    return isinstance(constant, str) and constant.replace("_", "").replace(".", "").isalnum()


def _unworded(node: Node) -> Node:
    """An entry of a collection; words for people are none of our facts, only that an entry is there."""
    if node == opened(PUT_TOGETHER):
        return ("c", True)
    is_message = node[0] == "c" and isinstance(node[1], str) and (" " in node[1] or "=" in node[1])
    return ("c", True) if is_message else node


class Builder:
    """Makes the table of a release."""

    def __init__(self, sources: Sources, versions: dict[str, tuple[int, ...]]) -> None:
        self.sources, self.versions = sources, versions
        self.classes = Classes(sources, PACKAGES)
        self.blocks: dict[str, dict[str, Any]] = {}
        self.methods: dict[str, dict[str, str]] = {}
        self.beyond: dict[tuple[str, str], None] = {}
        self._made: dict[str, str] = {}
        self._asked: set[str] = set()

    def build(self) -> Table:
        """Read everything.

        Raises:
            LookupError: the sources hold no Megatron-Bridge.
        """
        container, start = self.sources.find(CONTAINER), self.sources.find(START)
        if not isinstance(container, Class) or not isinstance(start, Function):
            raise LookupError(f"no {START} below {self.sources.root}")
        first = self._block(start, container)
        while True:
            wanted = {name for block in self.blocks.values() for name in block["calls"]} - self._asked
            if not wanted:
                break
            self._asked |= wanted
            for cls in self.classes.all:
                if cls.fields and cls.path.startswith(("megatron.bridge.", "megatron.training.", "megatron.core.")):
                    self._methods(cls, wanted)
        return Table(first, self.blocks, self.methods, list(self.beyond))

    def _methods(self, cls: Class, wanted: set[str]) -> None:
        for name in sorted(wanted):
            method = cls.method(name)
            if method is None or method.path.endswith("nn.Module") or not _configures(cls):
                continue
            block = self._block(method, cls)
            if block:
                self.methods.setdefault(cls.path, {})[name] = block

    def _block(self, function: Function, cls: Class) -> str:
        """The name of the block of a method on a class; "" where it checks and derives nothing."""
        execution = Execution(self.sources, self.classes, self.versions)
        execution.shared = lambda inner: self._block(inner, cls) if inner.path != function.path else None
        owner = Obj("", cls, None, False)
        rows = execution.block(function, owner, [])
        self.beyond.update(dict.fromkeys(execution.beyond))
        rows = _needed(rows)
        if not rows:
            return ""
        for row in rows:
            for node in parts_of(row.node):
                if node[0] == "open":
                    self.beyond[(row.place, node[1])] = None
        encoder = Encoder()
        for row in (inner for one in rows for inner in _with_inner(one)):
            if row.kind == "let":
                encoder.defined[row.target] = row.node
        encoded = [encoder.row(row) for row in rows]
        body = {
            "keys": list(encoder.keys),
            "registers": len(encoder.registers),
            "places": list(encoder.places),
            "rows": encoded,
            "calls": sorted({target[1] for target in _calls(rows)}),
            "what": function.path,
        }
        mark = hashlib.sha1(msgspec.json.encode([body["keys"], body["places"], encoded])).hexdigest()
        if mark not in self._made:
            name = function.path.removeprefix("megatron.")
            self._made[mark] = name if name not in self.blocks else f"{name}@{cls.name}"
            self.blocks[self._made[mark]] = body
        return self._made[mark]


def _configures(cls: Class) -> bool:
    return any("dataclass" in ast.unparse(d) for c in cls.order for d in c.node.decorator_list)


def _calls(rows: list[Row]) -> list[tuple[str, str]]:
    found = [row.target for row in rows if row.kind == "call" and row.target[0] != "@"]
    for row in rows:
        found += _calls(row.rows)
    return found


def _needed(rows: list[Row]) -> list[Row]:
    """The rows without registers that nobody asks."""
    used: set[Node] = set()
    kept: list[Row] = []
    for row in reversed(rows):
        if row.kind == "let" and row.target not in used and not can_fail(row.node):
            continue
        kept.append(row)
        for one in _with_inner(row):
            for guard, _ in one.guards:
                used.update(part for part in parts_of(guard) if part[0] == "r")
            used.update(part for part in parts_of(one.node) if part[0] == "r")
            if one.kind == "add":
                used.add(one.target)
    return kept[::-1]


def _with_inner(row: Row) -> list[Row]:
    return [row, *(inner for one in row.rows for inner in _with_inner(one))]


def can_fail(node: Node) -> bool:
    """Whether working out an expression can stop the start-up."""
    safe: tuple[str, ...] = (
        "c",
        "k",
        "r",
        "v",
        "sym",
        "member",
        "not",
        "and",
        "or",
        "if",
        "==",
        "!=",
        "is",
        "is not",
        "isa",
        "cls",
        "has",
        "get",
    )
    safe += ("list", "tuple", "dict", "env", "gpus", "fails", "open", "when")
    return any(part[0] not in safe for part in parts_of(node))
