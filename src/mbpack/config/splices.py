"""Where in the text a change of one key goes. Each function offers splices, best first; the caller tries them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from mbpack.config.document import Document, Item
from mbpack.config.scalars import MISSING
from mbpack.config.spelling import block, key_word, word
from mbpack.facts.patterns import lazy

_COLON = lazy(r"[ \t]*:")
_ALIAS = lazy(r"[ \t]*:\s*(\*[^\s,\[\]{}]+)")
_COMMENT = lazy(r"[ \t]+#[^\r\n]*")

#: Sections that people write next to each other: where a new section goes, best place first.
_NEIGHBOURS: Mapping[str, tuple[str, ...]] = {
    "validation": ("train",),
    "train": ("model",),
    "ddp": ("train", "optimizer", "model"),
    "dist": ("ddp", "train", "model"),
    "rng": ("dist", "train"),
    "model": ("recipe",),
}


class CannotSplice(Exception):
    """There is no place for this change; the message says why."""


class Splice(NamedTuple):
    """A piece of a text (character offsets, ``end`` exclusive) and what takes its place."""

    start: int
    end: int
    text: str


def applied(text: str, changes: Sequence[Splice]) -> str:
    """The text with all splices made; their places are those of the text before."""
    parts: list[str] = []
    at = 0
    for change in sorted(changes):
        parts += (text[at : change.start], change.text)
        at = change.end
    return "".join((*parts, text[at:]))


def replacing(document: Document, parent: Item, item: Item, name: str, value: Any) -> Iterator[tuple[Splice, ...]]:
    """Another value for a key; where it came through a merge key, the same key written in its own mapping."""
    if item.key is None:
        raise CannotSplice("a list item has no key")
    if not _through_merge(document, parent, item):
        yield from _new_value(document, parent, item, value)
    if item.anchored:
        yield from adding(document, parent, name, value)


def adding(document: Document, parent: Item, name: str, value: Any, top: bool = False) -> Iterator[tuple[Splice, ...]]:
    """A new key in a mapping, beside its siblings. ``top``: the mapping is the whole file."""
    held = parent.value
    if isinstance(held, dict):
        if not held:
            yield from _into_empty(document, parent, name, value)
            return
        own = [(key, child) for key, child in held.items() if child.key and not _through_merge(document, parent, child)]
        add = _add_flow if parent.flow else _add_block
        yield from add(document, parent, _by_closeness(own, name, top), name, value, top)
        return
    if (held is None or held is MISSING) and parent.key is not None:
        yield from _new_value(document, None, parent, {name: value})
        return
    raise CannotSplice("it lies below a value that is no mapping")


def removing(document: Document, parent: Item, item: Item) -> Iterator[tuple[Splice, ...]]:
    """A key and its value taken out."""
    if item.key is None or _through_merge(document, parent, item):
        raise CannotSplice("it comes through a merge key or an alias; take it out there by hand")
    end = _end(document, item)
    if not parent.flow:
        yield (_lines(document.text, item.key.start, end),)
        return
    own = sorted(child.key.start for child in parent.value.values() if child.key is not None)
    later = [start for start in own if start > item.key.start]
    before = [child for child in parent.value.values() if child.key is not None and child.key.start < item.key.start]
    if later:
        yield (Splice(item.key.start, later[0], ""),)
    if before:
        last = max(before, key=lambda child: child.key.start if child.key else 0)
        yield (Splice(_end(document, last), end, ""),)
    yield (Splice(item.key.start, end, ""),)


def renaming(document: Document, item: Item, name: str) -> Iterator[tuple[Splice, ...]]:
    """Another name for a key, in the same quotes."""
    if item.key is None:
        raise CannotSplice("a list item has no key")
    sign = document.text[item.key.start]
    yield (Splice(item.key.start, item.key.end, f"{sign}{name}{sign}" if sign in "'\"" else key_word(name)),)


def words_of(document: Document, item: Item) -> str | None:
    """The value as it is written, where that is one line of its own; None for blocks, aliases and unwritten nulls."""
    if item.key is None or item.span.start < item.key.end or item.span.start == item.span.end:
        return None
    text = document.text[item.span.start : item.span.end]
    if "\n" in text or text[0] in "|>" or (isinstance(item.value, (dict, list)) and not item.flow):
        return None
    return text


def comment_behind(document: Document, item: Item) -> str:
    """The comment on the line where a value ends, with the blanks before it."""
    match = _COMMENT.match(document.text, item.span.end)
    return match.group() if match else ""


# ------------------------------------------------------------------ values


def _new_value(document: Document, parent: Item | None, item: Item, value: Any) -> Iterator[tuple[Splice, ...]]:
    text, key, span = document.text, item.key, item.span
    assert key is not None
    in_flow = parent.flow if parent is not None else _inside_brackets(document, item)
    nested = isinstance(value, Mapping) and bool(value) and not in_flow
    colon = _COLON.match(text, key.end)
    alias = _ALIAS.match(text, key.end)
    if alias is not None and span.start < key.end:
        yield (Splice(alias.start(1), alias.end(1), word(value)),)
        return
    if span.start < key.end:
        raise CannotSplice("its text stands somewhere else")
    if nested and colon is not None:
        indent = " " * (key.column - 1 + len(_step(document)))
        lines = document.newline.join(block(value, indent, _step(document)))
        end = span.end if span.end > span.start else colon.end()
        yield Splice(colon.end(), end, ""), _after_line(document, end, lines)
    if isinstance(item.value, (dict, list)) and not item.flow and item.value and colon is not None:
        body = _lines(text, span.start, span.end)
        yield Splice(colon.end(), colon.end(), f" {word(value)}"), body
        return
    if span.start == span.end:
        at = colon.end() if colon is not None else key.end
        yield (Splice(at, at, f" {word(value)}" if colon is not None else f": {word(value)}"),)
        return
    quote = text[span.start] if item.quoted and text[span.start] in "'\"" else ""
    yield (Splice(span.start, span.end, word(value, quote)),)


def _inside_brackets(document: Document, item: Item) -> bool:
    """Whether a key stands in a flow mapping: something other than blanks and a dash is before it on its line."""
    assert item.key is not None
    start = document.text.rfind("\n", 0, item.key.start) + 1
    return document.text[start : item.key.start].strip(" -\t") != ""


# ------------------------------------------------------------------ new keys


def _into_empty(document: Document, parent: Item, name: str, value: Any) -> Iterator[tuple[Splice, ...]]:
    text, span = document.text, parent.span
    if text[span.start : span.start + 1] == "{":
        yield (Splice(span.start + 1, span.start + 1, f"{key_word(name)}: {word(value)}"),)
        return
    lines = document.newline.join(block({name: value}, "", _step(document)))
    at = len(text)
    before = document.newline if text and not text.endswith("\n") else ""
    yield (Splice(at, at, before + lines + (document.newline if not before else "")),)


def _add_flow(
    document: Document, parent: Item, siblings: Sequence[Item], name: str, value: Any, top: bool
) -> Iterator[tuple[Splice, ...]]:
    entry = f"{key_word(name)}: {word(value)}"
    for sibling in siblings:
        at = _end(document, sibling)
        yield (Splice(at, at, f", {entry}"),)
    at = parent.span.start + 1
    yield (Splice(at, at, f"{entry}, "),)


def _add_block(
    document: Document, parent: Item, siblings: Sequence[Item], name: str, value: Any, top: bool
) -> Iterator[tuple[Splice, ...]]:
    step = _step(document)
    gap = document.newline if top and _spaced(document, siblings) else ""
    if name == "_target_" and siblings:  # the class comes first
        first = min(siblings, key=lambda child: child.key.start if child.key else 0)
        assert first.key is not None
        indent = " " * (first.key.column - 1)
        lines = document.newline.join(block({name: value}, "", step))
        yield (Splice(first.key.start, first.key.start, f"{lines}{document.newline}{indent}"),)
    if name.startswith("enable_") and siblings and isinstance(siblings[0].value, dict):  # a switch stands above what it switches
        assert siblings[0].key is not None
        start = document.text.rfind("\n", 0, siblings[0].key.start) + 1
        lines = document.newline.join(block({name: value}, " " * (siblings[0].key.column - 1), step))
        yield (Splice(start, start, lines + document.newline),)
    for sibling in siblings:
        assert sibling.key is not None
        lines = document.newline.join(block({name: value}, " " * (sibling.key.column - 1), step))
        yield (_after_line(document, _end(document, sibling), gap + lines),)
    indent = " " * (parent.span.column - 1)
    lines = document.newline.join(block({name: value}, indent, step))[len(indent) :]
    yield (Splice(parent.span.start, parent.span.start, f"{lines}{document.newline}{indent}"),)


def _by_closeness(own: Sequence[tuple[str, Item]], name: str, top: bool) -> list[Item]:
    """The siblings after which a new key is best written: those that share words with it, then the last ones."""
    words = set(name.split("_")) - {""}
    neighbours = _NEIGHBOURS.get(name, ()) if top else ()

    def key(entry: tuple[int, tuple[str, Item]]) -> tuple[int, int]:
        place, (other, _) = entry
        if top:
            return (len(neighbours) - neighbours.index(other) if other in neighbours else 0), place
        return (0 if other == "_target_" else len(words & set(str(other).split("_")))), place

    return [item for _, (_, item) in sorted(enumerate(own), key=key, reverse=True)]


def _spaced(document: Document, sections: Sequence[Item]) -> bool:
    """Whether an empty line separates the sections of a file."""
    starts = sorted(section.key.start for section in sections if section.key is not None)
    return any(re.search(r"\n[ \t]*\r?\n", document.text[one:two]) for one, two in itertools.pairwise(starts))


def _step(document: Document) -> str:
    """One level of indentation, as the first indented key of the file has it."""
    root = document.root
    if root is not None and isinstance(root.value, dict):
        for section in root.value.values():
            if isinstance(section.value, dict) and not section.flow and section.key is not None:
                for child in section.value.values():
                    if child.key is not None and child.key.line > section.key.line and child.key.column > section.key.column:
                        return " " * int(child.key.column - section.key.column)
    return "  "


# ------------------------------------------------------------------ places


def _through_merge(document: Document, parent: Item, item: Item) -> bool:
    """Whether a key is written somewhere else than in its mapping."""
    key, span = item.key, parent.span
    return key is not None and not span.start <= key.start <= max(span.end, span.start)


def _end(document: Document, item: Item) -> int:
    """Where the entry of a key ends in the text."""
    key, span = item.key, item.span
    assert key is not None
    if span.start < key.end:  # an alias
        alias = _ALIAS.match(document.text, key.end)
        if alias is None:
            raise CannotSplice("its text stands somewhere else")
        return alias.end()
    if span.start == span.end:
        colon = _COLON.match(document.text, key.end)
        return colon.end() if colon is not None else key.end
    return span.end


def _line_end(text: str, at: int) -> int:
    """The offset behind the line end of the line that holds an offset."""
    end = text.find("\n", at)
    return len(text) if end < 0 else end + 1


def _lines(text: str, start: int, end: int) -> Splice:
    """The whole lines from one offset to another, taken out; a file without a last line end keeps having none."""
    first = text.rfind("\n", 0, start) + 1
    if text[first:start].strip(" \t"):
        raise CannotSplice("it shares its line with something else")
    last = _line_end(text, end)
    if last == len(text) and not text.endswith("\n") and first:
        first -= 2 if text[first - 2 : first] == "\r\n" else 1
    return Splice(first, last, "")


def _after_line(document: Document, at: int, lines: str) -> Splice:
    """Lines put in behind the line that holds an offset."""
    end = _line_end(document.text, at)
    if end == len(document.text) and not document.text.endswith("\n"):
        return Splice(end, end, document.newline + lines)
    return Splice(end, end, lines + document.newline)
