"""YAML text of an override: sections in order, a comment on derived lines, scalars that OmegaConf reads back unchanged."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
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
    return flow(value, ", ", ": ", _text)


def _text(text: str) -> str:
    return text if _PLAIN.match(text) and text.lower() not in _WORDS else json.dumps(text, ensure_ascii=False)


def flow(value: Any, comma: str, colon: str, write: Callable[[str], str]) -> str:
    """A plain value on one line; YAML and Hydra's overrides part their items and write their texts differently."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, (list, tuple)):
        return f"[{comma.join(flow(item, comma, colon, write) for item in value)}]"
    if isinstance(value, Mapping):
        return f"{{{comma.join(f'{key}{colon}{flow(item, comma, colon, write)}' for key, item in value.items())}}}"
    return write(str(value))


def render(lines: Iterable[Line]) -> str:
    """Lines as nested YAML; keys of one section together, in the order of their first line."""
    return "".join(_block(_tree(lines), 0))


def mapping(lines: Iterable[Line]) -> dict[str, Any]:
    """What the YAML text of lines reads back as, sections within sections."""
    return _values(_tree(lines))


def _tree(lines: Iterable[Line]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for line in lines:
        _place(tree, line)
    return tree


def _values(tree: Mapping[str, Any]) -> dict[str, Any]:
    return {key: node.value if isinstance(node, Line) else _values(node) for key, node in tree.items()}


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
