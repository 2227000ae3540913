"""What each row of a block reads and sets, worked out once when a table is made."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mbpack.facts.checks import ADD, CALL, EACH, LET, OWN, PYTHON, REFUSE, SET, SET_BY

#: Words that work out an answer for every operand.
_SAFE = frozenset("k r v not and or if == != is isa cls has get list tuple dict env gpus fails open sym member when".split()) | {
    "is not"
}


def uses(keys: list[str], registers: int, rows: list[list[Any]]) -> dict[str, Any]:
    """What the rows of a block read and set, as numbers of bits: keys of the block first, then its registers."""
    first = len(keys)
    always = 1 << (first + registers)
    named = by_name(keys, rows)
    names = sum(1 << number for number in named)
    found = [_use(row, first, always, names) for row in rows]
    wanted: list[int] = []
    there: list[list[int]] = []
    for row in rows:
        wanted.append(sum(1 << (first + guard[1]) for guard, on in row[1] if on and guard.__class__ is list and guard[0] == "r"))
        test = row[3]
        if row[0] == LET and not row[1] and test.__class__ is list and test[0] == "is not" and test[2] is None:
            if test[1].__class__ is list and test[1][0] == "k":
                there.append([first + row[2], test[1][1]])
    return {
        "reads": [_numbers(use[0]) for use in found],
        "sets": [_numbers(use[1]) for use in found],
        "decides": [use[2] for use in found],
        "wanted": [_numbers(bits) for bits in wanted],
        "there": there,
        "by_name": named,
    }


def _numbers(bits: int) -> list[int]:
    """The bits that are set."""
    return [number for number in range(bits.bit_length()) if bits >> number & 1]


def by_name(keys: list[str], rows: list[list[Any]]) -> list[int]:
    """The keys that a row may set whose name is worked out: those that the block spells as texts."""
    if not any(row[0] == SET_BY or (row[0] == EACH and any(inner[0] == SET_BY for inner in row[5])) for row in rows):
        return []
    spelled: set[str] = set()
    _texts(rows, spelled)
    return [number for number, key in enumerate(keys) if key.rpartition(".")[2] in spelled]


def _texts(node: Any, found: set[str]) -> None:
    if node.__class__ is list:
        for part in node:
            _texts(part, found)
    elif isinstance(node, str):
        found.add(node)


def _use(row: list[Any], first: int, always: int, names: int) -> tuple[int, int, int]:
    reads, safe = _reads(row[3], first, always)
    for guard, _ in row[1]:
        reads |= _reads(guard, first, always)[0]
    kind, sets = row[0], 0
    if kind in (LET, ADD):
        sets = 1 << (first + row[2])
        reads |= sets if kind == ADD else 0
    elif kind == SET:
        sets = 1 << row[2]
    elif kind == SET_BY:
        sets = names
    elif kind == CALL:
        reads |= always
    elif kind == EACH:
        for inner in row[5]:
            more, too, _ = _use(inner, first, always, names)
            reads, sets = reads | more, sets | too
    return reads, sets, OWN if kind in (REFUSE, EACH) else 0 if safe else PYTHON


def _reads(node: Any, first: int, always: int) -> tuple[int, bool]:
    if node.__class__ is not list:
        return 0, True
    head = node[0]
    if head == "k":
        return 1 << node[1], True
    if head == "r":
        return 1 << (first + node[1]), True
    reads, safe = 0, head in _SAFE
    parts: Iterable[Any] = node[1:]
    if head in ("cls", "has", "get"):
        reads = 1 << node[1]
        parts = node[2:] if head == "get" else ()
    elif head == "dict":
        parts = [part for pair in node[1:] for part in pair]
    for part in parts:
        more, inner = _reads(part, first, always)
        reads, safe = reads | more, safe and inner
    return reads, safe
