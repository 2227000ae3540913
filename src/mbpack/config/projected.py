"""A document with one other value, without reading its text again: for a look at what a change would bring.

Only where nothing but reading could come to the same: a number, a truth value, null or a plain word in the place of a value on
one line, in a document without anchors, tags or expressions. The places of what stands behind it are those of the text before,
so such a document is judged and thrown away, never edited.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from mbpack.config.document import Document, Item
from mbpack.config.scalars import Interpolation
from mbpack.config.spelling import word
from mbpack.config.splices import Splice, applied
from mbpack.facts.patterns import lazy

_WORD = lazy(r"[A-Za-z][A-Za-z0-9_+./-]*\Z")
#: Between a key and a value that nothing decorates.
_BETWEEN = lazy(r"[ \t]*:[ \t]+")
_DECORATED = ("&", "!", "<<", "${")


def projected(document: Document, values: Sequence[tuple[tuple[str, ...], Any]]) -> Document | None:
    """The document with other values at keys that it writes; None where the text has to be read to know."""
    if document.language != "yaml" or document.root is None or document.problems:
        return None
    if any(sign in document.text for sign in _DECORATED):
        return None
    root, splices = document.root, set()
    for path, value in values:
        items = _way(document.root, path)
        splice = _splice(document, items[-1], value) if len(items) > len(path) and _is_plain(value) else None
        if splice is None:
            return None
        splices.add(splice)
        root = _with(root, path, Item(value, items[-1].span, items[-1].key, splice.text[:1] in "'\""))
    if len(splices) < len(values):
        return None
    return replace(document, text=applied(document.text, tuple(splices)), root=root)


def _way(root: Item, path: Sequence[str]) -> list[Item]:
    items = [root]
    for name in path:
        children = items[-1].value
        child = children.get(name) if children.__class__ is dict else None
        if child is None:
            break
        items.append(child)
    return items


def _is_plain(value: Any) -> bool:
    if value.__class__ is str:
        return _WORD.match(value) is not None and word(value) == value
    return value is None or value.__class__ in (bool, int)


def _splice(document: Document, item: Item, value: Any) -> Splice | None:
    key, span = item.key, item.span
    if isinstance(item.value, (dict, list, Interpolation)) or item.anchored or key is None:
        return None
    if span.start >= span.end or span.line != span.end_line:
        return None
    text = document.text
    between = _BETWEEN.match(text, key.end)
    if between is None or between.end() != span.start or text[span.start] in "|>":
        return None
    quote = text[span.start] if item.quoted else ""
    return Splice(span.start, span.end, word(value, quote))


def _with(parent: Item, path: Sequence[str], item: Item) -> Item:
    """A mapping with another item at a path."""
    if not path:
        return item
    child = _with(parent.value[path[0]], path[1:], item)
    return Item({**parent.value, path[0]: child}, parent._span, parent._key, parent.quoted, parent.anchored, parent.flow)


def changed_paths(before: Item, after: Item, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Where two trees differ: the paths of values, and of mappings that one of them alone has, with all below."""
    if before is after:
        return []
    one, other = before.value, after.value
    if one.__class__ is not dict or other.__class__ is not dict:
        same = one.__class__ is other.__class__ and before.quoted == after.quoted and before.plain == after.plain
        return [] if same and repr(before.plain) == repr(after.plain) else [path]
    found: list[tuple[str, ...]] = []
    for name in {**one, **other}:
        place = (*path, str(name))
        if name in one and name in other:
            found += changed_paths(one[name], other[name], place)
        else:
            found.append(place)
    return found
