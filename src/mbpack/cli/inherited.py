"""Files that a file builds on: ``defaults: base.yaml``.

Megatron-Bridge does not read the key; programs around it do, and merge the file over those it names. They are read here
as layers below it, so that a finding can name a line of the file that holds the value.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from mbpack.cli.inputs import InputError, read
from mbpack.config.document import Document, Interpolation

_SUFFIXES = ("", ".yaml", ".yml")
#: Files that one file may build on, all told; a chain that is longer does not end.
_MOST = 20


def with_inherited(document: Document) -> list[Document]:
    """A document behind everything it builds on, lowest layer first.

    Names are looked up beside the file that holds them. What is not there is left out: the key itself is reported as
    one that a wrapper reads (``cfg/wrapper-key``).
    """
    found: list[Document] = []
    _collect(document, {os.path.realpath(document.path or "")}, found)
    return found


def _collect(document: Document, seen: set[str], found: list[Document]) -> None:
    for path in _named(document):
        place = os.path.realpath(path)
        if place in seen or len(seen) > _MOST:
            continue
        seen.add(place)
        try:
            below = read(path)
        except InputError:
            continue
        if below.root is not None:
            below.inherited = True
            _collect(below, seen, found)
    found.append(document)


def _named(document: Document) -> Iterator[str]:
    held = document.root.value.get("defaults") if document.root is not None and document.path else None
    if held is None:
        return
    folder = os.path.dirname(document.path or "")
    for name in _names(held.value):
        for suffix in _SUFFIXES:
            path = os.path.join(folder, name + suffix)
            if os.path.isfile(path):
                yield path
                break


def _names(value: Any) -> Iterator[str]:
    """The files a ``defaults`` value names: one text, or a list of texts and of ``group: option`` as Hydra writes them."""
    if isinstance(value, str) and not isinstance(value, Interpolation) and value != "_self_":
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _names(item.value)
    elif isinstance(value, dict):
        for group, option in value.items():
            if isinstance(option.value, str):
                yield f"{str(group).rpartition(' ')[2].lstrip('/')}/{option.value}"
