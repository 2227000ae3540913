"""A configuration that a program makes, as documents that settings are read from."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, field

from mbpack.config.document import Document, Interpolation, Item, Span
from mbpack.config.python.machine import Shown
from mbpack.config.python.values import Cell, Class, Function, Known, Overlay, Place, Record, Ref, Several, Symbol, Unknown, Value
from mbpack.facts.schema import Schema

#: What stands in the place of a value that is not known; no resolver of that name exists, so that it stays unknown.
UNKNOWN: Final = Interpolation("${python:unknown}")
_DTYPES: Final = re.compile(r"torch\.(?:bfloat16|float\d*\w*|half|double|u?int\d+|bool|long)")
_FOREVER: Final = 1 << 60
Path = tuple[str, ...]


class Merged(Struct, frozen=True):
    """A file or arguments that are merged into the configuration between two of its documents."""

    overlay: Overlay


class Configuration(Struct, frozen=True):
    """A configuration of a program: its layers, lowest first, and what is known about it.

    ``name`` is the function that takes or returns it; ``recipe`` None where none is known, "" for one put together from
    parts; ``module`` where the recipe is imported from.
    """

    layers: tuple[Document | Merged, ...]
    name: str
    line: int
    recipe: str | None
    module: str
    launched: bool
    step: str | None
    variable: str


class _Out(Struct):
    """What one document gets."""

    made: set[Path] = field(default_factory=set)
    opaque: dict[Path, str] = field(default_factory=dict)


class Source:
    """The text of a program, with the places of its syntax tree as those of documents."""

    def __init__(self, text: str, path: str | None, tree: ast.Module) -> None:
        self.text, self.path = text, path
        self.lines = re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+", text)  # what Python takes for the end of a line
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line))
        self.strings = sorted(
            (self.span(node) for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)),
            key=lambda span: span.start,
        )

    def span(self, node: ast.expr) -> Span:
        """The place of a node."""
        return self.between(node.lineno, node.col_offset, node.end_lineno or node.lineno, node.end_col_offset or node.col_offset)

    def between(self, line: int, first: int, end_line: int, end: int) -> Span:
        """A place from lines (from 1) and columns in bytes (from 0)."""
        start, last = self._column(line, first), self._column(end_line, end)
        begin, finish = self._start(line) + start, self._start(end_line) + last
        return Span(line, start + 1, end_line, last + 1, begin, finish)

    def _start(self, line: int) -> int:
        return self.starts[min(max(line - 1, 0), len(self.starts) - 1)]

    def _column(self, line: int, offset: int) -> int:
        text = self.lines[line - 1] if 0 < line <= len(self.lines) else ""
        return offset if text.isascii() else len(text.encode("utf-8", "surrogatepass")[:offset].decode("utf-8", "ignore"))

    def place(self, place: Place) -> tuple[Span, Span | None]:
        """The places of a value and of its key."""
        key = self.between(place.key[0], place.key[1], place.key[0], place.key[2]) if place.key is not None else None
        if place.node is not None and hasattr(place.node, "end_lineno"):
            return self.span(place.node), key
        return key or Span(1, 1, 1, 1, 0, 0), key


def configuration(shown: Shown, source: Source, schema: Schema | None) -> Configuration:
    """The layers of a configuration; ``schema`` gives classes and enumerations the names of the release, where it is known."""
    record = shown.state.heap[shown.config]
    layers: list[Document | Merged] = []
    low = 0
    for overlay in record.overlays:
        if overlay.time > low:
            layers.append(_Emitter(shown, source, schema, low, overlay.time).document(record))
            low = overlay.time
        layers.append(Merged(overlay))
    layers.append(_Emitter(shown, source, schema, low, _FOREVER).document(record))
    made = (record.recipe, record.module, shown.launched, shown.step, _variable(shown))
    return Configuration(
        tuple(layer for layer in layers if not _is_empty(layer)) or tuple(layers[-1:]), shown.how, shown.line, *made
    )


def _is_empty(layer: Document | Merged) -> bool:
    return isinstance(layer, Document) and layer.root is not None and not (layer.root.value or layer.made or layer.opaque)


def _variable(shown: Shown) -> str:
    """The name the program has for the configuration: the last one it was given."""
    names = [
        (cell.place.time, name)
        for frame in shown.state.frames.values()
        for name, cell in frame.items()
        if isinstance(name, str) and isinstance(cell.value, Ref) and cell.value.id == shown.config
    ]
    return max(names)[1] if names else "cfg"


class _Emitter:
    """Writes what was set after one time and up to another as a document."""

    def __init__(self, shown: Shown, source: Source, schema: Schema | None, low: int, high: int) -> None:
        self.state, self.config, self.source, self.schema = shown.state, shown.config, source, schema
        self.low, self.high = low, high
        self.out = _Out()
        self.open: list[int] = []

    def document(self, record: Record) -> Document:
        """The document."""
        first = self.low == 0
        if record.opaque and first:
            self.out.opaque[()] = record.opaque
        if record.recipe == "" and first:
            self.out.made.add(())
        self.open.append(self.config)
        root = Item(self._fields(record, (), False), Span(1, 1, 1, 1, 0, 0))
        source = self.source
        return Document(
            source.path,
            source.text,
            root,
            language="python",
            made=frozenset(self.out.made),
            opaque=self.out.opaque,
            strings=source.strings,
        )

    def _fields(self, record: Record, path: Path, whole: bool) -> dict[str, Item]:
        found: dict[str, Item] = {}
        for name, cell in record.fields.items():
            if not isinstance(name, str):
                continue
            item = self._cell(cell, (*path, name), whole)
            if item is not None:
                found[name] = item
        return found

    def _cell(self, cell: Cell, path: Path, whole: bool) -> Item | None:
        time = cell.place.time
        inside = (whole or time > self.low) and time <= self.high and time > 0
        record = self.state.heap.get(cell.value.id) if isinstance(cell.value, Ref) else None
        if isinstance(cell.value, Unknown) and cell.place.node is None and cell.place.key is None:
            if inside:  # perhaps written, through a name that may be another object
                self.out.opaque[path] = cell.value.why
            return None
        if record is None or record.kind not in ("config", "part", "object", "dict"):
            return self._item(cell.value, cell.place) if inside else None
        assert isinstance(cell.value, Ref)
        if cell.value.id in self.open or len(self.open) > 12:
            return self._item(UNKNOWN, cell.place) if inside else None
        self.open.append(cell.value.id)
        item = self._object(record, cell, path, inside)
        self.open.pop()
        return item

    def _object(self, record: Record, cell: Cell, path: Path, inside: bool) -> Item | None:
        children: dict[str, Item] = {}
        target = self._target(record) if record.kind == "object" else None
        home = self._home(record)
        if inside and target is None and record.kind != "dict" and home != (self.config, path):
            written = self._fields(record, path, True)
            if not written:
                return self._item(UNKNOWN, cell.place)
        if inside:
            if target is not None:
                self.out.made.add(path)
                where, _ = self.source.place(cell.place)
                children["_target_"] = Item(target, where)
            elif record.kind == "dict":
                self.out.made.add(path)
            elif home != (self.config, path):
                self.out.made.add(path)
                self.out.opaque[path] = record.opaque or "made where it cannot be followed"
        if record.opaque and (inside or self.low == 0):
            self.out.opaque[path] = record.opaque
        children.update(self._fields(record, path, inside))
        if not children and not inside:
            return None
        span, key = self.source.place(cell.place)
        if not inside and children:
            first = next(iter(children.values()))
            return Item(children, first.span, first.key)
        return Item(children, span, key)

    def _home(self, record: Record) -> tuple[int, Path] | None:
        """The configuration that a part belongs to, and where in it."""
        path: Path = ()
        number = -1
        while record.kind == "part" and record.home is not None:
            number, above = record.home
            path = (*above, *path)
            held = self.state.heap.get(number)
            if held is None:
                return None
            record = held
        return (number, path) if record.kind == "config" else None

    def _target(self, record: Record) -> str | None:
        """The import path of an object's class, where the class is upstream's own."""
        if record.cls is None or not record.cls.startswith("megatron."):
            return None
        if self.schema is None:
            return record.cls
        name = record.cls.rpartition(".")[2]
        return self.schema.path(name)

    def _item(self, value: Value | Interpolation, place: Place) -> Item:
        span, key = self.source.place(place)
        return Item(self._plain(value, span), span, key)

    def _plain(self, value: Value | Interpolation, span: Span) -> Any:
        if isinstance(value, Known):
            return value.value
        if isinstance(value, Several):
            return [Item(self._plain(item, span), span) for item in value.items]
        if isinstance(value, Ref):
            record = self.state.heap.get(value.id)
            if record is not None and record.kind == "list" and not record.opaque:
                return [Item(self._plain(cell.value, span), span) for cell in record.fields.values()]
            return UNKNOWN
        if isinstance(value, Symbol):
            return self._symbol(value, span)
        if isinstance(value, (Function, Class)):
            return _called(f"__main__.{value.node.name if isinstance(value, Class) else value.name}", span)
        return UNKNOWN

    def _symbol(self, value: Symbol, span: Span) -> Any:
        if _DTYPES.fullmatch(value.path) or value.path.startswith(("torch.nn.functional.", "megatron.core.activations.")):
            return _called(value.path, span)
        owner, _, member = value.path.rpartition(".")
        enum = owner.rpartition(".")[2]
        numbers = self.schema.enums.get(enum, {}) if self.schema is not None else {}
        if member in numbers:
            held = {"_target_": Item(f"megatron.core.transformer.enums.{enum}", span), "_call_": Item(True, span)}
            return {**held, "_args_": Item([Item(numbers[member], span)], span)}
        return UNKNOWN


def _called(path: str, span: Span) -> dict[str, Item]:
    return {"_target_": Item(path, span), "_call_": Item(False, span)}


__all__ = ["UNKNOWN", "Configuration", "Mapping", "Merged", "Sequence", "Source", "Unknown", "configuration"]
