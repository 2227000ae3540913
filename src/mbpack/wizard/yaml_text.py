"""YAML text of an override: sections in order, a comment on derived lines, scalars that OmegaConf reads back unchanged."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

WIDTH = 110
_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_./+@-]*(?: [A-Za-z0-9_./+@-]+)*\Z")
_WORDS = frozenset("true false yes no on off null none y n ~ inf nan".split())


@dataclass(frozen=True, slots=True)
class Line:
    """One setting: its dotted key (canonical), its value (plain data), and why it has it; "" where nothing is to say."""

    key: str
    value: Any
    why: str = ""


def scalar(value: Any) -> str:
    """A plain value as YAML that reads back as the same value."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(scalar(item) for item in value) + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {scalar(item)}" for key, item in value.items()) + "}"
    text = str(value)
    if _PLAIN.match(text) and text.lower() not in _WORDS:
        return text
    return json.dumps(text, ensure_ascii=False)


def render(lines: Iterable[Line]) -> str:
    """Lines as nested YAML; keys of one section together, in the order of their first line."""
    tree: dict[str, Any] = {}
    for line in lines:
        _place(tree, line)
    return "".join(_block(tree, 0))


def _place(tree: dict[str, Any], line: Line) -> None:
    *owners, last = line.key.split(".")
    for owner in owners:
        node = tree.setdefault(owner, {})
        if isinstance(node, Line):
            raise ValueError(f"{line.key}: {owner} already has a value")
        tree = node
    if isinstance(line.value, Mapping) and line.value:
        branch = tree.setdefault(last, {})
        for position, (key, value) in enumerate(line.value.items()):
            _place(branch, Line(str(key), value, line.why if position == 0 else ""))
        return
    tree[last] = line


def _block(tree: Mapping[str, Any], depth: int) -> Iterable[str]:
    indent = "  " * depth
    for key, node in tree.items():
        if isinstance(node, Line):
            text = f"{indent}{key}: {scalar(node.value)}"
            if node.why and len(text) + 2 + len(node.why) + 2 > WIDTH:
                yield from (f"{indent}# {part}\n" for part in _wrap(node.why, WIDTH - len(indent) - 2))
                yield text + "\n"
            else:
                yield text + (f"  # {node.why}" if node.why else "") + "\n"
        else:
            yield f"{indent}{key}:\n"
            yield from _block(node, depth + 1)


def _wrap(text: str, width: int) -> list[str]:
    import textwrap

    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
