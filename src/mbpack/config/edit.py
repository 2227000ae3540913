"""Change single keys of a file and leave every other byte as it is.

A change is made of splices: pieces of the text that are replaced. Each change is tried, the result parsed again, and
taken only when the whole tree of values is the old one with just the intended key changed. That is also what decides
about anchors, aliases and merge keys: a change there is made when it turns out to concern that one key alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from mbpack.config import splices
from mbpack.config.document import Document, Item, parse
from mbpack.config.references import refers_to
from mbpack.config.scalars import Interpolation
from mbpack.config.spelling import Raw
from mbpack.config.splices import CannotSplice, Splice

__all__ = ["CannotEdit", "Edited", "delete_key", "rename_key", "same", "set_key"]


class CannotEdit(Exception):
    """This change cannot be made by machine; the message is one line and says why."""


class Edited(Struct, frozen=True):
    """A document after one change, and the splices that made it, step by step (places in the text before each step)."""

    document: Document
    steps: tuple[tuple[Splice, ...], ...]


def set_key(document: Document, path: Sequence[str], value: Any) -> Edited:
    """Set the value at a path; sections on the way are made where they are missing.

    Raises:
        CannotEdit: the change would reach other keys too, or there is no place for it.
    """
    root, names = _root(document), tuple(path)
    items = _walk(root, names)
    if len(items) > len(names) and same(items[-1].plain, _plain(value)):
        return Edited(document, ())
    _no_expression(document, names, items[-1] if len(items) > len(names) else None, value)
    wanted = _with(root.plain, names, _plain(value))
    try:
        if len(items) > len(names):
            tries = splices.replacing(document, items[-2], items[-1], names[-1], value)
        else:
            depth = len(items) - 1
            for name in reversed(names[depth + 1 :]):
                value = {name: value}
            tries = splices.adding(document, items[-1], names[depth], value, top=depth == 0)
        return _first_right(document, tries, wanted, items)
    except CannotSplice as reason:
        raise CannotEdit(f"{'.'.join(names)}: {reason}") from None


def delete_key(document: Document, path: Sequence[str]) -> Edited:
    """Delete a key with its value. A section that loses its last key goes too: with nothing below it, it would be null.

    Raises:
        CannotEdit: the key is not there, or the change would reach other keys too.
    """
    root, names = _root(document), tuple(path)
    items = _walk(root, names)
    if len(items) <= len(names):
        raise CannotEdit(f"{'.'.join(names)} is not written in this file")
    while len(names) > 1 and len(items[-2].value) == 1:
        names, items = names[:-1], items[:-1]
    _no_expression(document, names, None)
    try:
        return _first_right(document, splices.removing(document, items[-2], items[-1]), _without(root.plain, names), items)
    except CannotSplice as reason:
        raise CannotEdit(f"{'.'.join(names)}: {reason}") from None


def rename_key(document: Document, path: Sequence[str], to: Sequence[str]) -> Edited:
    """Give a key another name, or another section. Where the other name is written already, the old key is deleted.

    Raises:
        CannotEdit: the key is not there, or the change would reach other keys too.
    """
    root, names, target = _root(document), tuple(path), tuple(to)
    items = _walk(root, names)
    if len(items) <= len(names):
        raise CannotEdit(f"{'.'.join(names)} is not written in this file")
    if len(_walk(root, target)) > len(target):
        return delete_key(document, names)
    _no_expression(document, names, None)
    try:
        if names[:-1] == target[:-1]:
            wanted = _with(_without(root.plain, names), target, items[-1].plain)
            return _first_right(document, splices.renaming(document, items[-1], target[-1]), wanted, items)
    except CannotSplice as reason:
        raise CannotEdit(f"{'.'.join(names)}: {reason}") from None
    return _moved(document, names, target, items[-1])


def _moved(document: Document, names: tuple[str, ...], target: tuple[str, ...], item: Item) -> Edited:
    """A key in another section: with its words and the comment behind it where both fit on the line."""
    values: list[Any] = [item.plain]
    written = splices.words_of(document, item)
    if written is not None:
        values.insert(0, _Written(written, item.plain))
        comment = splices.comment_behind(document, item)
        if comment:
            values.insert(0, _Written(written + comment, item.plain))
    added = None
    for value in values[:-1]:
        try:
            added = set_key(document, target, value)
            break
        except CannotEdit:
            continue
    added = added or set_key(document, target, values[-1])
    removed = delete_key(added.document, names)
    return Edited(removed.document, added.steps + removed.steps)


class _Written(Raw):
    """Words of the file, and the value they stand for."""

    value: Any

    def __new__(cls, text: str, value: Any) -> _Written:
        made = super().__new__(cls, text)
        made.value = value
        return made


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, _Written) else value


def _root(document: Document) -> Item:
    if document.root is None:
        raise CannotEdit("the file cannot be read")
    return document.root


def _walk(root: Item, path: Sequence[str]) -> list[Item]:
    """The items on the way to a path, as far as they are written; the root first."""
    items = [root]
    for name in path:
        value = items[-1].value
        child = value.get(name) if isinstance(value, dict) else None
        if child is None:
            break
        items.append(child)
    return items


def _no_expression(document: Document, path: tuple[str, ...], item: Item | None, value: Any = None) -> None:
    """Refuses a change that ``${...}`` elsewhere would pass on, or that would cut a value off from its variable."""
    referring = refers_to(document, path)
    if referring:
        raise CannotEdit(f"{'.'.join(path)}: {referring} takes its value from here; change both by hand")
    if item is None or not isinstance(item.value, Interpolation) or (isinstance(value, str) and item.value in value):
        return
    if ":" in item.value:
        raise CannotEdit(f"{'.'.join(path)} is an expression, {item.value}; change what it refers to")


def _first_right(document: Document, tries: Iterator[tuple[Splice, ...]], wanted: Any, items: Sequence[Item]) -> Edited:
    for attempt in tries:
        text = splices.applied(document.text, attempt)
        edited = parse(("\ufeff" if document.bom else "") + text, document.path)
        edited.encoding = document.encoding
        if edited.root is None or _kinds(edited) - _kinds(document):
            continue
        if same(edited.root.plain, wanted):
            return Edited(edited, (attempt,))
    if any(item.anchored for item in items):
        raise CannotSplice("an anchor, an alias or a merge key stands here; a change would reach other places too")
    raise CannotSplice("the text here cannot be changed by machine")


def _kinds(document: Document) -> set[tuple[str, bool]]:
    return {(problem.kind, problem.fatal) for problem in document.problems}


def same(one: Any, other: Any) -> bool:
    """Whether two trees hold the same values of the same kinds (1, 1.0 and true differ)."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, str) and isinstance(other, str):
        return str(one) == str(other)
    return one.__class__ is other.__class__ and (one == other or one != one)


def _with(tree: Any, path: tuple[str, ...], value: Any) -> Any:
    held = dict(tree) if isinstance(tree, dict) else {}
    held[path[0]] = value if len(path) == 1 else _with(held.get(path[0]), path[1:], value)
    return held


def _without(tree: Mapping[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    if len(path) == 1:
        return {key: value for key, value in tree.items() if key != path[0]}
    return {key: _without(value, path[1:]) if key == path[0] else value for key, value in tree.items()}
