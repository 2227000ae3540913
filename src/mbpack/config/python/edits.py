"""Edits of a program: literals in place, nothing else."""

from __future__ import annotations

import ast
from typing import Any

from mbpack.config.document import Document, Item
from mbpack.config.edit import CannotEdit


def set_literal(document: Document, path: tuple[str, ...], value: Any) -> Document:
    """The document with another literal where a key's value is written; every other byte stays.

    Raises:
        CannotEdit: the value is not written there as a literal of this key alone; the message says how to write it.
    """
    by_hand = f"write it by hand: {'.'.join(path)} = {value!r}"
    item = document.root
    for name in path:
        item = item.value.get(name) if item is not None and isinstance(item.value, dict) else None
    if item is None or not (value is None or isinstance(value, (bool, int, float, str))):
        raise CannotEdit(f"the program does not write {'.'.join(path)} as a literal; {by_hand}")
    if item.span.start in document.shared:
        raise CannotEdit(f"line {item.span.line} gives its value to several keys; {by_hand}")
    if not _is_literal(document, item):
        raise CannotEdit(f"line {item.span.line} takes it from somewhere else; {by_hand}")
    text = document.text[: item.span.start] + repr(value) + document.text[item.span.end :]
    edited = document.reread(text) if document.reread is not None else None
    if edited is None:
        raise CannotEdit(f"the program makes another configuration then; {by_hand}")
    edited.encoding, edited.bom = document.encoding, document.bom
    return edited


def _is_literal(document: Document, item: Item) -> bool:
    try:
        held = ast.literal_eval(document.text[item.span.start : item.span.end])
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return False
    return type(held) is type(item.value) and bool(held == item.value)
