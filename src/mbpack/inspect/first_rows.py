"""The first rows of a JSONL file: what columns they have and who speaks in them."""

from __future__ import annotations

import os
from typing import Any

from mbpack.config.evidence import CONVERSATIONS, Row

#: Rows and bytes that are looked at.
MOST_ROWS, MOST_BYTES = 20, 1 << 18


def first_rows(path: str) -> tuple[Row, ...]:
    """The first rows of a file; none where it cannot be read or is of another kind."""
    try:
        size = os.path.getsize(path)
        with open(path, "rb") as file:
            head = file.read(MOST_BYTES)
    except OSError:
        return ()
    if head[:4] in (b"PAR1", b"\x93NUM") or b"\0" in head:
        return ()
    lines = head.split(b"\n")
    if size > len(head):
        lines = lines[:-1]  # the last one may be cut
    found = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            found.append(_row(number, line))
        if len(found) == MOST_ROWS:
            break
    return tuple(found)


def _row(number: int, line: bytes) -> Row:
    import json

    try:
        held = json.loads(line)
    except (ValueError, RecursionError):
        return Row(number, problem="no JSON")
    if not isinstance(held, dict):
        return Row(number, problem="no JSON object")
    columns = tuple(name for name, value in held.items() if value is not None)
    return Row(number, columns, _roles(held))


def _roles(row: dict[str, Any]) -> tuple[str, ...]:
    turns: list[Any] = next((row[name] for name in CONVERSATIONS if isinstance(row.get(name), list)), [])
    spoken = (turn.get("role", turn.get("from")) for turn in turns if isinstance(turn, dict))
    return tuple(dict.fromkeys(role for role in spoken if isinstance(role, str)))
