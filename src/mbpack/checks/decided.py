"""The check that a row of a block is for, where the row itself only works something out."""

from __future__ import annotations

from typing import Any

from mbpack.facts.checks import LET, REFUSE, Block

#: How many rows further a check may stand: that which asks for the row itself, and that which asks for what is made of it.
_NEXT, _FURTHER = 4, 6


def decided(block: Block, row: list[Any], index: int) -> str:
    """The name of the check that a row of a block guards: one of the next rows; "" for none."""
    for later in block.rows[index + 1 : index + _NEXT]:
        if later[0] == REFUSE and any(guard in (row[3], ["r", row[2]]) for guard, _ in (*later[1], (later[3], True))):
            return str(later[5])
    return ""


def decided_by_more(block: Block, index: int) -> str:
    """The name of the check that a row of a block has a part in, be it that other rows come in between; "" for none."""
    row = block.rows[index]
    if row[0] != LET:
        return ""
    registers = [["r", row[2]]]
    for later in block.rows[index + 1 : index + _FURTHER]:
        nodes = [later[3], *(guard for guard, _ in later[1])]
        if any(_holds(node, register) for node in nodes for register in registers):
            if later[0] == REFUSE:
                return str(later[5])
            if later[0] == LET:
                registers.append(["r", later[2]])
    return ""


def _holds(node: Any, part: list[Any]) -> bool:
    return bool(node == part) or (node.__class__ is list and any(_holds(inner, part) for inner in node))
