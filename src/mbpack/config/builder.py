"""From YAML nodes to Items, with OmegaConf's meaning: keys, duplicate keys, tags, anchors, ``???`` and ``${...}``."""

from __future__ import annotations

import re
from typing import Any, Final

from msgspec import Struct
from yaml.nodes import MappingNode, ScalarNode

from .composer import COLLECTION, MAX_DEPTH, TEXT, Node, TooDeep
from .interpolation_grammar import grammar_error, is_usual
from .items import LINE_BREAK, Item, Problem, node_span
from .merging import TooMany, duplicate_key, flatten
from .scalars import MISSING, Interpolation, ScalarError, resolve_tagged, short_tag, shorten

MAX_ITEMS: Final = 200_000
"""Most values read, aliases counted each time they are used."""

MAX_ODD_TEXTS: Final = 200
"""Most unusual interpolations of one document that are checked against OmegaConf's grammar, which is slow."""

_STR: Final = "tag:yaml.org,2002:str"
_COLLECTION_TAGS: Final = {"mapping": "tag:yaml.org,2002:map", "sequence": "tag:yaml.org,2002:seq"}
_SET_TAG: Final = "tag:yaml.org,2002:set"
_PATH_TAGS: Final = tuple(f"tag:yaml.org,2002:python/object/apply:pathlib.{name}" for name in ("Path", "PosixPath"))
_PROPERTIES: Final = r"(?:[&!]\S*(?:\s|#.*)*)+"
_OPEN: Final = object()
#: Levels whose keys are sections and their fields; below may be mappings of somebody's own (`id2label: {0: ...}`).
_NAMED = 2


class _Mark(Struct):
    """A corrected place; counts from 0 as PyYAML's marks do."""

    line: int
    column: int
    index: int


def build(root: Node, text: str) -> tuple[Item, list[Problem]]:
    """The Items of a composed document, and what OmegaConf would object to (all of it, in order of writing).

    Raises TooDeep beyond MAX_DEPTH levels and TooMany beyond MAX_ITEMS values, aliases counted at every use.
    """
    builder = _Builder(text)
    if "<<" in text:
        flatten(root, builder.problems, MAX_ITEMS)
        builder.check_duplicates = False
    item = builder.item(root, None, 0, False)
    if builder.decorated:
        _measure(item, {}, 0)
    return item, builder.problems


class _Builder:
    __slots__ = ("built", "check_duplicates", "decorated", "odd_texts", "problems", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.problems: list[Problem] = []
        self.check_duplicates = True
        self.decorated = "&" in text or "!" in text or "<<" in text  # anchors, tags, merges
        self.odd_texts = MAX_ODD_TEXTS
        self.built: dict[int, Any] = {}

    def item(self, node: Node, key: Node | None, depth: int, anchored: bool) -> Item:
        if not self.decorated:
            return self._item(node, key, depth, anchored)
        known = self.built.get(id(node))
        if known is not None:
            return self._alias(node, key, known)
        if not self._trim_properties(node) and not hasattr(node, "merged_in"):
            return self._item(node, key, depth, anchored)
        self.built[id(node)] = _OPEN
        item = self.built[id(node)] = self._item(node, key, depth, True)
        return item

    def _item(self, node: Node, key: Node | None, depth: int, anchored: bool) -> Item:
        kind = node.__class__
        if kind is ScalarNode:
            value = node.tag
            if value is TEXT:
                value = node.value
                if "$" in value or value == "???":
                    value = self._special(value, node)
            elif value.__class__ is str or value.__class__ is ScalarError:
                value = self._tagged(node, value)
            style = node.style
            if style and style in "|>":
                self._trim_block(node)
            return Item(value, node, key, bool(style), anchored)
        value = (self._mapping if kind is MappingNode else self._sequence)(node, depth + 1, anchored)
        return Item(value, node, key, False, anchored, bool(node.flow_style))

    def _mapping(self, node: Node, depth: int, anchored: bool) -> dict[Any, Item]:
        if depth > MAX_DEPTH:
            raise TooDeep
        if node.tag is not COLLECTION and node.tag != _COLLECTION_TAGS["mapping"]:
            self._bad_tag(node, "set" if node.tag == _SET_TAG else "tag")
        values: dict[Any, Item] = {}
        for key_node, value_node in node.value:
            if key_node.tag is TEXT:
                key = key_node.value
                if self.decorated:
                    self._trim_properties(key_node)
            elif key_node.__class__ is ScalarNode:
                key = self._key(key_node, depth <= _NAMED)
            else:
                self._problem(
                    "non-string-key", "a list or mapping cannot be a key: use a plain name, and put `{{ }}` in quotes", key_node
                )
                continue
            if key in values and self.check_duplicates and key_node.tag in (TEXT, _STR):
                self.problems.append(duplicate_key(key_node, values[key].key))
            values[key] = self.item(value_node, key_node, depth, anchored)
        return values

    def _sequence(self, node: Node, depth: int, anchored: bool) -> Any:
        if depth > MAX_DEPTH:
            raise TooDeep
        if node.tag is not COLLECTION and node.tag != _COLLECTION_TAGS["sequence"]:
            if node.tag in _PATH_TAGS and all(child.tag is TEXT for child in node.value):
                from pathlib import PurePosixPath

                return str(PurePosixPath(*(child.value for child in node.value)))
            self._bad_tag(node)
        return [self.item(child, None, depth, anchored) for child in node.value]

    def _key(self, node: Node, names: bool) -> Any:
        """The key of a scalar that is not an untagged string; ``names`` says that the mapping's keys are names of fields."""
        value = node.tag
        if value.__class__ is ScalarError and node.value in {"=", "<<"}:
            return node.value
        if value.__class__ is str or value.__class__ is ScalarError:
            if self.decorated:
                self._trim_properties(node)
            value = self._tagged(node, value)
        if value is None:
            self._problem("non-string-key", "an empty or null key cannot be read: write a name before the colon", node)
        elif value.__class__ is not str and names:
            what = f"the boolean {str(value).lower()}" if isinstance(value, bool) else "a number"
            what = "binary data" if isinstance(value, bytes) else what
            message = f"the key `{shorten(node.value)}` is read as {what}, not as a name: put it in quotes"
            self._problem("non-string-key", message, node, fatal=False)
        return value

    def _tagged(self, node: Node, tag: Any) -> Any:
        """The value of a scalar with an explicit tag, or of a word that the loader fails on."""
        try:
            if isinstance(tag, ScalarError):
                raise tag
            value = resolve_tagged(tag, node.value)
        except ScalarError as error:
            self._problem("value" if tag is error else "tag", str(error), node)
            return node.value
        return self._special(value, node) if isinstance(value, str) else value

    def _special(self, text: str, node: Node) -> Any:
        """A string that may be ``???`` or hold an interpolation."""
        if text == "???":
            return MISSING
        if "${" not in text:
            return text
        if not is_usual(text) and self.odd_texts:
            self.odd_texts -= 1
            reason = grammar_error(text)
            if reason is not None:
                self._problem("interpolation", reason, node)
        return Interpolation(text)

    def _alias(self, node: Node, key: Node | None, known: Any) -> Item:
        if known is _OPEN:
            self._problem("recursive-alias", "an alias that lies inside its own anchor never ends: write it out", node)
            return Item(None, node, key, anchored=True)
        known.anchored = True
        return Item(known.value, node, key, known.quoted, True, known.flow)

    def _bad_tag(self, node: Node, kind: str = "tag") -> None:
        tag = shorten(short_tag(str(node.tag)))
        self._problem(kind, f"the tag `{tag}` is not read here: write plain values", node)

    def _problem(self, kind: str, message: str, node: Node, fatal: bool = True) -> None:
        self.problems.append(Problem(kind, message, node_span(node), fatal))

    def _trim_properties(self, node: Node) -> bool:
        """Moves the start of a node behind its anchor and tag. True if it has an anchor."""
        start, end = node.start_mark, node.end_mark
        match = re.compile(_PROPERTIES).match(self.text, start.index)
        if match is None:
            return False
        # The pattern also eats white space; an empty node ends right after its properties.
        stop = match.end() if node.__class__ is not ScalarNode else min(match.end(), end.index)
        node.start_mark = self._moved(start, stop)
        return "&" in match.group()

    def _trim_block(self, node: Node) -> None:
        """Ends a block scalar with its last line: the parser puts the empty lines after it inside."""
        written = self.text[node.start_mark.index : node.end_mark.index]
        node.end_mark = self._moved(node.start_mark, node.start_mark.index + len(written.rstrip()))

    def _moved(self, mark: Any, index: int) -> _Mark:
        """The mark of a later index."""
        lines = LINE_BREAK.split(self.text[mark.index : index])
        if len(lines) == 1:
            return _Mark(mark.line, mark.column + len(lines[0]), index)
        return _Mark(mark.line + len(lines) - 1, len(lines[-1]), index)


def _measure(item: Item, heights: dict[int, tuple[int, int]], depth: int) -> tuple[int, int]:
    """Height and number of values below an item with every alias written out.

    Each container is visited once, so the work is linear although the numbers may grow exponentially.
    """
    value = item.value
    if not isinstance(value, (dict, list)):
        return 0, 1
    known = heights.get(id(value))
    if known is None:
        if depth > MAX_DEPTH:
            raise TooDeep
        height, count = 0, 1
        for child in value.values() if isinstance(value, dict) else value:
            below = _measure(child, heights, depth + 1)
            height, count = max(height, below[0]), count + below[1]
        known = heights[id(value)] = (height + 1, count)
    if known[0] > MAX_DEPTH:
        raise TooDeep
    if known[1] > MAX_ITEMS:
        raise TooMany
    return known
