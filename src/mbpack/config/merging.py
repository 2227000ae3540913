"""Merge keys (``<<``), as PyYAML's SafeConstructor and OmegaConf's duplicate check treat them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, Final

from yaml.nodes import MappingNode, ScalarNode, SequenceNode

from .composer import MAX_DEPTH, TEXT, Node
from .items import Problem, Span, node_end, node_span
from .scalars import ScalarError, shorten

_STR: Final = "tag:yaml.org,2002:str"
_MERGE: Final = "tag:yaml.org,2002:merge"


class TooMany(Exception):
    """Aliases or merges that unfold into more values than a configuration can have."""


def duplicate_key(node: Node, first: Span | None) -> Problem:
    """The problem of a key that is written twice in one mapping."""
    where = f" (first in line {first.line})" if first is not None else ""
    message = f"the key `{shorten(node.value)}` is written twice{where}: keep one of the two"
    return Problem("duplicate-key", message, node_span(node), True)


def flatten(root: Node, problems: list[Problem], limit: int) -> None:
    """Replaces every merge key of a document by the keys it brings in, and reports duplicate keys.

    Merged keys come first and lose against keys written in the mapping; of several mappings in one ``<<`` list the
    first wins (up to PyYAML 6.0.3; 6.0.4 lets the last win, so such a conflict is reported).

    The loader works through a document level by level. A mapping that overrides a merged key, and that is itself merged
    into a mapping of a higher level, has been flattened before its own turn comes, and the loader then takes the
    overridden key for a duplicate. This order is followed here. Raises TooMany when more than `limit` keys are merged.
    """
    _Flattener(problems, limit).run(root)


class _Flattener:
    def __init__(self, problems: list[Problem], limit: int) -> None:
        self.problems = problems
        self.budget = limit
        self.flat: set[int] = set()
        self.overriding: dict[int, list[Node]] = {}

    def run(self, root: Node) -> None:
        queue = deque([root])
        seen = {id(root)}
        while queue:
            node = queue.popleft()
            if node.__class__ is MappingNode:
                self._report_duplicates(node)
                self._flatten(node, 0)
                children = [value for _, value in node.value]
            elif node.__class__ is SequenceNode:
                children = node.value
            else:
                continue
            for child in children:
                if id(child) not in seen:
                    seen.add(id(child))
                    queue.append(child)

    def _report_duplicates(self, node: Node) -> None:
        keys: dict[str, Node] = {}
        for key, _ in node.value:
            if not _is_text(key):
                continue
            if key.value in keys:
                self.problems.append(duplicate_key(key, node_span(keys[key.value])))
            keys.setdefault(key.value, key)
        # Filled already only if the mapping was merged before its turn.
        for key in self.overriding.get(id(node), ()):
            if _is_text(key):
                self.problems.append(duplicate_key(key, None))

    def _flatten(self, node: Node, depth: int) -> None:
        if id(node) in self.flat:
            return
        self.flat.add(id(node))
        sources = [pair for pair in node.value if _is_merge(pair[0])]
        if not sources:
            return
        if depth > MAX_DEPTH:
            raise TooMany
        own = [pair for pair in node.value if not _is_merge(pair[0])]
        node.end_mark, node.merged = node_end(node), True  # its last pair may soon be one written elsewhere
        node.value = own  # until it is done: a mapping that merges itself sees its own keys only
        merged: dict[Any, tuple[Node, Node]] = {}
        for key, source in sources:
            for pair in self._pairs(key, source, depth + 1):
                merged[_identity(pair[0])] = pair
        own_keys = [key for key, _ in own]
        self.overriding[id(node)] = [key for key in own_keys if merged.pop(_identity(key), None) is not None]
        node.value = [*merged.values(), *own]

    def _pairs(self, key: Node, source: Node, depth: int) -> Iterator[tuple[Node, Node]]:
        """The pairs a merge brings in, weakest first."""
        listed = source.__class__ is SequenceNode
        written: dict[Any, Node] = {}
        for part in reversed(source.value) if listed else (source,):
            if part.__class__ is not MappingNode:
                message = "`<<` takes a mapping or a list of mappings: give it an alias of a mapping (`<<: *name`)"
                self.problems.append(Problem("merge", message, node_span(key), True))
                continue
            self._flatten(part, depth)
            self.budget -= len(part.value)
            if self.budget < 0:
                raise TooMany
            for pair in part.value:
                other = written.setdefault(_identity(pair[0]), pair[1])
                if listed and other is not pair[1] and other.value != pair[1].value:
                    self._report_conflict(key, pair[0])
                pair[1].merged_in = True
                yield pair

    def _report_conflict(self, merge: Node, key: Node) -> None:
        name = shorten(str(key.value))
        message = f"two merged mappings give `{name}`, and PyYAML's versions differ in which one counts: write it out"
        self.problems.append(Problem("merge-conflict", message, node_span(merge), False))


def _is_merge(key: Node) -> bool:
    """Whether a key is an unquoted ``<<`` (or tagged as one)."""
    tag = key.tag
    return (isinstance(tag, ScalarError) and key.value == "<<") or (isinstance(tag, str) and tag == _MERGE)


def _is_text(key: Node) -> bool:
    """Whether the loader's duplicate check looks at a key: a string."""
    return key.tag is TEXT or bool(key.tag == _STR)


def _identity(key: Node) -> Any:
    """What makes two keys the same: the value of a scalar, the node itself otherwise."""
    if key.__class__ is not ScalarNode:
        return id(key)
    tag: Any = key.tag
    if _is_text(key) or isinstance(tag, ScalarError):
        return key.value
    return (tag, key.value) if isinstance(tag, str) else (None, tag)
