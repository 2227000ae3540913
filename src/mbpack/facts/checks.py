"""What the start-up of each release checks and derives, as tables of conditions and derivations.

The tables are read from the sources of the packages (`tools/harvest_checks.py`) and lie in `data/checks-<release>.bin`
(msgpack); `data/checks-<release>.txt` says the same for readers. A table has blocks: the start-up, and one for each
method of a class that the start-up calls. A block:

    keys       the configuration keys it reads and sets, relative to the object that the block is about
    registers  how many values its rows work out on the way
    places     the functions upstream that its rows come from
    rows       [kind, guards, target, expression, place, inner rows]

    reads, sets, decides, wanted, there, by_name   see `Uses`; by_name: keys that a row may set whose name is worked out

A row counts where all its guards, [expression, wanted truth], hold. Kinds: see the constants. Expressions are constants
or lists ``[word, operand, ...]``; ``["k", n]`` is key n, ``["r", n]`` register n, ``["v", n]`` the element that a
quantifier looks at.
"""

from __future__ import annotations

import os
from functools import cache, cached_property
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from mbpack.facts.schema import DATA

OWN, PYTHON = 1, 2
LET, SET, REFUSE, CALL, EACH, ADD, USE, SET_BY = range(8)


class Block(Struct, frozen=True):
    """The rows of one method."""

    keys: list[str]
    registers: int
    places: list[str]
    rows: list[list[Any]]
    reads: list[list[int]]
    sets: list[list[int]]
    decides: list[int]
    wanted: list[list[int]]
    there: list[list[int]]
    by_name: list[int]


class Uses(NamedTuple):
    """What the rows of a block read and set, as bits: keys of the block first, then its registers, then what always counts."""

    reads: list[int]
    sets: list[int]
    #: Which rows can stop the start-up: OWN by themselves, PYTHON where Python cannot calculate, 0 not at all.
    decides: list[int]
    #: Registers that must hold for a row to count.
    wanted: list[int]
    #: Registers that say whether a key is not null: the register's bit and the key.
    there: list[tuple[int, int]]
    always: int
    #: The rows that run another block.
    calls: list[int]


def _bits(numbers: list[int]) -> int:
    found = 0
    for number in numbers:
        found |= 1 << number
    return found


class _Stored(Struct, frozen=True):
    start: str
    methods: dict[str, dict[str, str]]
    blocks: dict[str, msgspec.Raw]
    asked: list[str]


class Checks:
    """The table of one release."""

    def __init__(self, stored: bytes) -> None:
        self._stored = msgspec.msgpack.decode(stored, type=_Stored)
        self._blocks: dict[str, Block] = {}
        self._uses: dict[str, Uses] = {}
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

    def uses(self, name: str) -> Uses:
        """What the rows of a block read and set."""
        found = self._uses.get(name)
        if found is None:
            block = self.block(name)
            found = self._uses[name] = Uses(
                [_bits(bits) for bits in block.reads],
                [_bits(bits) for bits in block.sets],
                block.decides,
                [_bits(bits) for bits in block.wanted],
                [(1 << register, key) for register, key in block.there],
                1 << (len(block.keys) + block.registers),
                [index for index, row in enumerate(block.rows) if row[0] == CALL],
            )
        return found

    def names(self) -> list[str]:
        """All blocks."""
        return list(self._stored.blocks)

    @cached_property
    def asked(self) -> frozenset[str]:
        """All keys that some row reads or sets, as its block names them."""
        return frozenset(self._stored.asked)

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
