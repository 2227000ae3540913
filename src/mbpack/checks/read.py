"""What a refusal of the tables is about: the keys it asks for and its condition in plain terms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from mbpack.checks.evaluate import Refusal
from mbpack.checks.render import Renderer
from mbpack.facts.checks import EACH, REFUSE, Block, Checks

_LONGEST = 200


class Reading(NamedTuple):
    """The keys of a refusal, its own condition's first, and what the condition says."""

    keys: list[str]
    condition: str
    place: str


class Asked(NamedTuple):
    """The keys that a refusal asks for, as whole paths in the names of the release."""

    keys: list[str]
    #: Those of the condition itself, without what guards it.
    own: list[str]


def asked(table: Checks, refusal: Refusal, renderer: Renderer | None = None) -> Asked:
    """The keys of a refusal, its own condition's first."""
    block = table.block(refusal.block)
    rows = _rows(block, refusal.row)
    renderer = renderer or Renderer(block, refusal.root)
    guards = [guard for one in rows for guard, _ in one[1]]
    own = [rows[-1][3]] if rows[-1][3] is not True else guards[-1:]
    nodes = [*own, *reversed(guards), *(one[3] for one in rows[:-1])]
    found = [key for node in nodes for key in keys_of(node, renderer)]
    return Asked(list(dict.fromkeys(found)), [key for node in own for key in keys_of(node, renderer)])


def read(table: Checks, refusal: Refusal, written: Callable[[str], bool]) -> Reading:
    """What a refusal says. ``keys`` are whole paths as the release spells them; ``written`` tells what the user wrote."""
    block = table.block(refusal.block)
    rows = _rows(block, refusal.row)
    row = rows[-1]
    renderer = Renderer(block, refusal.root, _LONGEST)
    if row[0] == REFUSE and not refusal.error:
        wanted = [guard for one in rows for guard in one[1]]
        if row[3] is not True:
            wanted.append([row[3], True])
        shown = [text for node, on in wanted if (text := _said(renderer, node, on, written))]
        condition = " and ".join(dict.fromkeys(shown[-3:])) or "this combination"
    else:
        condition = _said(renderer, row[3], True, written) or "a value"
    place = block.places[row[4]] or refusal.block.rpartition(".")[2]
    return Reading(asked(table, refusal, renderer).keys, condition, place)


def _said(renderer: Renderer, node: Any, on: bool, written: Callable[[str], bool]) -> str:
    """A condition in words; of several that would do, those about what the user wrote. "" where there are none for it."""
    while isinstance(node, list) and node[0] == "r" and node[1] in renderer.defined:
        node = renderer.defined[node[1]]
    parts: list[Any] = []
    if isinstance(node, list) and on:
        if node[0] == "list":
            parts = [part[1] for part in node[1:] if isinstance(part, list) and part[0] == "when"]
        elif node[0] == "or":
            parts = node[1:]
    if parts:
        named = [part for part in parts if any(map(written, keys_of(part, renderer)))] or parts
        texts = [_said(renderer, part, True, written) for part in named]
        return " or ".join(text for text in texts if text)
    text = renderer.condition(node, on)
    return "" if "$" in text or "beyond" in text else text


def _rows(block: Block, indexes: tuple[int, ...]) -> list[list[Any]]:
    """The row at a place, behind the loops it stands in."""
    rows, found = block.rows, []
    for index in indexes:
        found.append(rows[index])
        rows = rows[index][5] if rows[index][0] == EACH else []
    return found


def keys_of(node: Any, renderer: Renderer, depth: int = 8) -> list[str]:
    """The keys that an expression asks for, through registers too."""
    if not isinstance(node, list) or not node:
        return []
    if node[0] in ("k", "has", "cls", "get"):
        path = renderer.key(node[1])
        return [path] if path[:1] != "$" else []
    if node[0] == "r":
        return keys_of(renderer.defined.get(node[1]), renderer, depth - 1) if depth else []
    return [key for part in node[1:] for key in keys_of(part, renderer, depth)]
