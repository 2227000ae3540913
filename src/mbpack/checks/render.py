"""Rows of the tables in words, for readers of a table and for findings that nobody has written words for."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from mbpack.facts.checks import ADD, CALL, EACH, LET, REFUSE, SET, SET_BY, Block, Checks

_LONGEST = 90
_INFIX = {"==", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "//", "%", "**", "&", "|", "is", "is not", "in", "not in"}
_OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<", "is": "is not", "is not": "is"}
_OPPOSITE |= {"in": "not in", "not in": "in"}


def definitions(block: Block) -> dict[int, Any]:
    """What each register of a block holds."""
    found: dict[int, Any] = {}

    def collect(rows: list[list[Any]]) -> None:
        for row in rows:
            if row[0] == LET:
                found[row[2]] = row[3]
            elif row[0] == EACH:
                collect(row[5])

    collect(block.rows)
    return found


def _changed(block: Block) -> set[int]:
    """Registers that are asked for after something else was set where they come from."""
    read: dict[int, set[int]] = {}  # register -> the keys it comes from
    stale: set[int] = set()
    found: set[int] = set()

    def look(rows: list[list[Any]]) -> None:
        for row in rows:
            found.update(stale & _registers([row[3], row[1]]))
            if row[0] == LET:
                read[row[2]] = _keys(row[3], read)
            elif row[0] == SET:
                stale.update(register for register, keys in read.items() if row[2] in keys)
            elif row[0] == EACH:
                look(row[5])

    look(block.rows)
    return found


def _registers(node: Any) -> set[int]:
    if not isinstance(node, list):
        return set()
    if len(node) == 2 and node[0] == "r":
        return {node[1]}
    return {register for part in node for register in _registers(part)}


def _keys(node: Any, read: Mapping[int, set[int]]) -> set[int]:
    if not isinstance(node, list) or not node:
        return set()
    if node[0] == "r":
        return set(read.get(node[1], ()))
    if node[0] in ("k", "has"):
        return {node[1]}
    found = {node[1]} if node[0] in ("get", "cls") else set()
    for part in node[1:]:
        found |= _keys(part, read)
    return found


class Renderer:
    """Expressions of one block as text; long registers keep their number."""

    def __init__(self, block: Block, root: str = "", longest: int = _LONGEST) -> None:
        self.block, self.root, self.longest = block, root, longest
        self.defined = definitions(block)
        self._short: dict[int, str | None] = {}

    @cached_property
    def _changed(self) -> set[int]:
        return _changed(self.block)

    def key(self, number: int) -> str:
        """The whole path of a key."""
        name = self.block.keys[number]
        return f"{self.root}.{name}" if self.root and name[:1] != "$" else name or "the configuration"

    def kept(self, number: int) -> Any:
        """What a register holds, where that still is what it comes from; None otherwise."""
        return self.defined.get(number) if number not in self._changed else None

    def register(self, number: int) -> str:
        """What a register holds, or its number where that is long."""
        if number not in self._short:
            self._short[number] = f"${number}"
            node = self.defined.get(number)
            text = self.text(node) if node is not None and number not in self._changed else ""
            if text and len(text) <= self.longest:
                self._short[number] = text
        return self._short[number] or f"${number}"

    def condition(self, node: Any, wanted: bool = True) -> str:
        """An expression that should hold, or should not."""
        if wanted:
            return self.text(node)
        if isinstance(node, list):
            if node[0] == "r" and self.register(node[1]) != f"${node[1]}":
                return self.condition(self.defined[node[1]], False)
            if node[0] in _OPPOSITE:
                return self.text([_OPPOSITE[node[0]], *node[1:]])
            if node[0] == "not":
                return self.text(node[1])
            if node[0] in ("and", "or"):
                word = "or" if node[0] == "and" else "and"
                return f" {word} ".join(self._inner(self.condition(part, False)) for part in node[1:])
        return f"not {self._inner(self.text(node))}"

    @staticmethod
    def _inner(text: str) -> str:
        return text if " " not in text or _is_whole(text) else f"({text})"

    def text(self, node: Any) -> str:
        """An expression."""
        if not isinstance(node, list):
            return constant(node)
        head = node[0]
        if head == "k":
            return self.key(node[1])
        if head == "r":
            return self.register(node[1])
        if head == "v":
            return f"@{node[1]}"
        if head == "not":
            return self.condition(node[1], False)
        if head in ("and", "or"):
            return f" {head} ".join(self._inner(self.text(part)) for part in node[1:])
        if head in _INFIX:
            return f"{self._inner(self.text(node[1]))} {head} {self._inner(self.text(node[2]))}"
        if head == "if":
            condition, then, other = (self._inner(self.text(part)) for part in node[1:])
            return f"{then} if {condition} else {other}"
        if head == "cls":
            names = sorted(path.rpartition(".")[2] for path in node[2:])
            return f"class of {self.key(node[1])} in {{{', '.join(names)}}}"
        if head == "has":
            return f"{self.key(node[1])} exists"
        if head == "get":
            return f"{self.key(node[1])} or, without one, {self.text(node[2])}"
        if head == "isa":
            return f"{self._inner(self.text(node[1]))} is of kind {'/'.join(node[2:])}"
        if head in ("list", "tuple", "set"):
            ends = {"list": "[]", "tuple": "()", "set": "{}"}[head]
            return ends[0] + ", ".join(self.text(part) for part in node[1:]) + ends[1]
        return self._rare(node)

    def _rare(self, node: list[Any]) -> str:
        head = node[0]
        if head == "when":
            return f"{self.text(node[2])} (if {self.text(node[1])})"
        if head == "dict":
            return "{" + ", ".join(f"{self.text(key)}: {self.text(held)}" for key, held in node[1:]) + "}"
        if head == "map":
            condition = "" if node[3] is True else f" if {self.text(node[3])}"
            return f"[{self.text(node[4])} for each @{node[1]} of {self.text(node[2])}{condition}]"
        if head in ("fn", "do"):
            return f"{node[1]}({', '.join(self.text(part) for part in node[2:])})"
        if head == "item":
            return f"{self._inner(self.text(node[1]))}[{self.text(node[2])}]"
        if head == "slice":
            return f"{self._inner(self.text(node[1]))}[{self.text(node[2])}:{self.text(node[3])}]"
        if head == "env":
            return f"${node[1]}"
        if head == "gpus":
            return "the number of GPUs"
        if head == "fails":
            return f"{self._inner(self.text(node[1]))} cannot be worked out"
        if head == "sym":
            return str(node[1]).rpartition(".")[2]
        if head == "member":
            return f"{node[1]}.{node[2]}"
        return f"<beyond: {node[1]}>"

    def guards(self, row: list[Any]) -> list[str]:
        """The conditions under which a row counts."""
        return [self.condition(guard, wanted) for guard, wanted in row[1]]


def _is_whole(text: str) -> bool:
    """Whether brackets or quotes hold a text together from its first to its last character."""
    if text[0] == "'":
        return text.index("'", 1) == len(text) - 1
    text = text.lstrip("abcdefghijklmnopqrstuvwxyz_0123456789.") or text
    if text[0] not in "([{":
        return False
    depth = 0
    for index, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if depth == 0:
            return index == len(text) - 1
    return False


def constant(value: Any) -> str:
    """A constant as YAML spells it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, str) else str(value)


def block_text(name: str, block: Block) -> list[str]:
    """A block for readers: one line a refusal or derivation, under the function it comes from."""
    renderer = Renderer(block)
    lines: list[str] = [f"## {name}"]
    _rows(renderer, block.rows, lines, "", [None])
    return lines


def _rows(renderer: Renderer, rows: list[list[Any]], lines: list[str], indent: str, place: list[str | None]) -> None:
    for row in rows:
        here = renderer.block.places[row[4]]
        if here and here != place[0] and row[0] != LET:
            lines.append(f"{indent}# {here}")
            place[0] = here
        conditions = renderer.guards(row)
        if row[0] == REFUSE:
            if row[3] is not True:
                conditions.append(renderer.text(row[3]))
            lines.append(f"{indent}refuse {_leaf(row[5])} | {' and '.join(_bracketed(conditions)) or 'always'}")
            continue
        when = f" | {' and '.join(_bracketed(conditions))}" if conditions else ""
        if row[0] == LET:
            if renderer.register(row[2]) == f"${row[2]}":
                lines.append(f"{indent}${row[2]} = {renderer.text(row[3])}{when}")
        elif row[0] == SET:
            lines.append(f"{indent}{renderer.key(row[2])} := {renderer.text(row[3])}{when}")
        elif row[0] == SET_BY:
            lines.append(f"{indent}{row[2] or 'the object'}, by name := {renderer.text(row[3])}{when}")
        elif row[0] == ADD:
            lines.append(f"{indent}${row[2]} gets {renderer.text(row[3])}{when}")
        elif row[0] == CALL:
            lines.append(f"{indent}then {'.'.join(row[2]) if row[2][0] != '@' else row[2][1]}{when}")
        elif row[0] == EACH:
            lines.append(f"{indent}for each @{row[2]} of {renderer.text(row[3])}{when}")
            _rows(renderer, row[5], lines, indent + "  ", place)
        else:
            lines.append(f"{indent}work out {renderer.text(row[3])}{when}")


def _leaf(name: str) -> str:
    return name.partition(":")[2] or name


def _bracketed(conditions: list[str]) -> list[str]:
    return [f"({text})" if " or " in text or " if " in text else text for text in conditions]


def table_text(table: Checks) -> str:
    """A whole table for readers."""
    lines = [f"# start: {table.start}"]
    for name in sorted(table.names()):
        lines += ["", *block_text(name, table.block(name))]
    lines += ["", "## classes"]
    for cls, methods in sorted(table.methods.items()):
        lines.append(f"{cls}: {', '.join(f'{name} = {block}' for name, block in sorted(methods.items()))}")
    return "\n".join(lines) + "\n"
