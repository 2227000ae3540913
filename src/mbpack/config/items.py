"""The parts of a parsed configuration file: places, values with their places, and problems."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from msgspec import Struct

from mbpack.facts.patterns import lazy

from .scalars import MISSING, Interpolation

LINE_BREAK: Final = lazy("\r\n|[\n\r\x85\u2028\u2029]")
"""What ends a line in YAML 1.1."""


class Span(Struct, frozen=True):
    """A place in a text. Lines and columns count from 1, columns in characters; `end_column` is the column after the
    last character. `start` and `end` are character offsets into the text, `end` exclusive."""

    line: int
    column: int
    end_line: int
    end_column: int
    start: int
    end: int


class Item:
    """A value and where it was written.

    value    None, bool, int, float, str or bytes; MISSING for ``???``; an Interpolation for a string that holds
             ``${...}``; a dict of Items for a mapping; a list of Items for a sequence. Keys of a mapping are nearly
             always strings, but YAML also makes integers, floats, booleans and bytes of them.
    span     where the value is written; for a null that is not written, the empty place after the key. The span of a
             block mapping or list ends with its last value, that of a block scalar with its last line. An anchor or a
             tag before the value does not belong to it.
    key      where its key is written; None for the root and for list items.
    quoted   the scalar is written with quotes or as a block (``|``, ``>``), so it is a string because of its writing.
    anchored the value carries an anchor, lies inside one that does, is an alias or came through a merge key: editing
             the text there changes other places too.
    flow     the mapping or sequence is written with brackets.

    Places are worked out when they are asked for: a check reads few of them, a file has hundreds.
    """

    __slots__ = ("_key", "_span", "anchored", "flow", "quoted", "value")

    value: Any
    quoted: bool
    anchored: bool
    flow: bool

    def __init__(
        self,
        value: Any,
        span: Any,
        key: Any = None,
        quoted: bool = False,
        anchored: bool = False,
        flow: bool = False,
    ) -> None:
        """`span` and `key` are Spans; the composer passes YAML nodes instead, which are turned into Spans on demand."""
        self.value = value
        self._span = span
        self._key = key
        self.quoted = quoted
        self.anchored = anchored
        self.flow = flow

    @property
    def span(self) -> Span:
        at = self._span
        if type(at) is not Span:
            at = self._span = node_span(at)
        return at

    @property
    def start(self) -> int:
        """Where the value begins, as a character offset."""
        at = self._span
        return int(at.start if type(at) is Span else at.start_mark.index)

    @property
    def over_lines(self) -> bool:
        """Whether the value is written over several lines."""
        at = self._span
        if type(at) is Span:
            return bool(at.line != at.end_line)
        return bool(at.start_mark.line != node_end(at).line)

    @property
    def key(self) -> Span | None:
        at = self._key
        if at is not None and type(at) is not Span:
            at = self._key = node_span(at)
        return at  # type: ignore[no-any-return]

    def move(self, span: Span, key: Span | None) -> None:
        """Say that the value is written somewhere else: an argument's place in a script."""
        self._span, self._key = span, key

    @property
    def plain(self) -> Any:
        """The value without places: dicts and lists of plain values, ``???`` and interpolations as strings."""
        value = self.value
        if isinstance(value, dict):
            return {key: item.plain for key, item in value.items()}
        if isinstance(value, list):
            return [item.plain for item in value]
        if value is MISSING:
            return "???"
        return str(value) if isinstance(value, Interpolation) else value

    def __repr__(self) -> str:
        return f"Item({self.plain!r})"


def node_span(node: Any) -> Span:
    """The place of a YAML node, from its marks."""
    start = node.start_mark
    end = node_end(node)
    return Span(start.line + 1, start.column + 1, end.line + 1, end.column + 1, start.index, end.index)


def node_end(node: Any) -> Any:
    """Where a node ends. A block collection has no end of its own in YAML's grammar: it ends with its last value.

    A value that starts before its key or before the item above it is an alias; its text is somewhere else.
    """
    while node.id != "scalar" and not node.flow_style and node.value and not hasattr(node, "merged"):
        if node.id == "mapping":
            before, child = node.value[-1]
        else:
            before, child = (node.value[-2:-1] or [node])[0], node.value[-1]
        if child.start_mark.index <= max(before.start_mark.index, node.start_mark.index):
            return before.end_mark if before is not node else node.start_mark
        node = child
    return node.end_mark


class Problem(Struct, frozen=True):
    """Something wrong with the file as YAML. `fatal`: OmegaConf refuses the file because of it."""

    kind: str
    message: str
    span: Span
    fatal: bool


def walk(item: Item, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Item]]:
    """Every item below and including this one, with its path of keys and list positions, in order of writing."""
    yield path, item
    value = item.value
    if isinstance(value, dict):
        for key, child in value.items():
            yield from walk(child, (*path, key))
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from walk(child, (*path, index))


def without(item: Item, path: tuple[str, ...]) -> Item:
    """A mapping without the key at a path; the mappings on the way are copied, everything else is shared."""
    child = item.value.get(path[0]) if item.value.__class__ is dict else None
    if child is None:
        return item
    kept = without(child, path[1:]) if path[1:] else None
    if kept is child:
        return item
    changed = Item(item.value, item._span, item._key, item.quoted, item.anchored, item.flow)
    changed.value = {name: kept if name == path[0] else held for name, held in item.value.items() if kept or name != path[0]}
    return changed
