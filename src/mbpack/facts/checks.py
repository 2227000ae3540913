"""What the start-up of each release checks and derives, as tables of conditions and derivations.

The tables are read from the sources of the packages (`tools/harvest_checks.py`) and lie in `data/checks-<release>.bin`
(msgpack); `data/checks-<release>.txt` says the same for readers. A table has blocks: the start-up, and one for each
method of a class that the start-up calls. A block:

    keys       the configuration keys it reads and sets, relative to the object that the block is about
    registers  how many values its rows work out on the way
    places     the functions upstream that its rows come from
    rows       [kind, guards, target, expression, place, inner rows]

A row counts where all its guards, [expression, wanted truth], hold. Kinds: see the constants. Expressions are constants
or lists ``[word, operand, ...]``; ``["k", n]`` is key n, ``["r", n]`` register n, ``["v", n]`` the element that a
quantifier looks at.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import msgspec
from msgspec import Struct

from mbpack.facts.schema import DATA

LET, SET, REFUSE, CALL, EACH, ADD, USE = range(7)


class Block(Struct, frozen=True):
    """The rows of one method."""

    keys: list[str]
    registers: int
    places: list[str]
    rows: list[list[Any]]


class _Stored(Struct, frozen=True):
    start: str
    methods: dict[str, dict[str, str]]
    blocks: dict[str, msgspec.Raw]


class Checks:
    """The table of one release."""

    def __init__(self, stored: bytes) -> None:
        self._stored = msgspec.msgpack.decode(stored, type=_Stored)
        self._blocks: dict[str, Block] = {}
        #: What others worked out once for this table.
        self.memo: dict[Any, Any] = {}

    @property
    def start(self) -> str:
        """The block of the start-up."""
        return self._stored.start

    def block(self, name: str) -> Block:
        """A block by its name. Raises KeyError for others."""
        found = self._blocks.get(name)
        if found is None:
            found = self._blocks[name] = msgspec.msgpack.decode(self._stored.blocks[name], type=Block)
        return found

    def names(self) -> list[str]:
        """All blocks."""
        return list(self._stored.blocks)

    @property
    def methods(self) -> dict[str, dict[str, str]]:
        """The blocks of each class by the name of the method."""
        return self._stored.methods

    def method(self, cls: str, name: str) -> str | None:
        """The block of a method of a class, by the class's import path; None where it checks nothing."""
        return self._stored.methods.get(cls, {}).get(name)


@cache
def checks(release_name: str) -> Checks | None:
    """The table of a release; None where there is none."""
    path = os.path.join(DATA, f"checks-{release_name}.bin")
    try:
        with open(path, "rb") as stored:
            return Checks(stored.read())
    except FileNotFoundError:
        return None
