"""A configuration that can be shown to strangers: keys and numbers stay, what names a person or a place goes.

Nothing is guessed from how a value looks: a text stays only where a release of Megatron-Bridge holds that very text (an enum's
member, a recipe, a class), a key only where a release has it or it is a slip of one. Everything else becomes a mark such as
``<path 2>``; equal texts get equal marks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Any

from mbpack.config.document import MISSING, Document, Interpolation, Item
from mbpack.facts.field_names import names_in
from mbpack.facts.public_words import is_public, is_public_class, is_public_key
from mbpack.facts.sections import SECTION_NAMES

#: Names of keys whose values are never shown, numbers neither.
_SECRET = re.compile(r"api_?key|secret|passw|credential|auth|(^|_)token$|access_?key|private|cookie|account|(^|_)user(name)?$")
#: A number that is no identifier of anything: at most twelve digits (token counts reach 10^12).
_NUMBER = re.compile(r"[+-]?\d{1,12}(\.\d{1,12})?([eE][+-]?\d{1,3})?$|[+-]?\.(inf|nan)$")
_REFERENCE = re.compile(r"\$\{\.{0,9}([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)\}$")
#: Deepest nesting, and longest list, that are shown.
_DEPTH, _ITEMS = 20, 40


class Redactor:
    """Marks for what is hidden, the same for the same text all through one report."""

    def __init__(self) -> None:
        self._marks: dict[tuple[str, str], str] = {}
        self._counts: dict[str, int] = {}

    def mark(self, kind: str, text: str) -> str:
        """The mark of a hidden text: its kind and a number."""
        if (kind, text) not in self._marks:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._marks[kind, text] = f"<{kind} {self._counts[kind]}>"
        return self._marks[kind, text]

    def key(self, name: object) -> str:
        """A key, or a mark where no release has it and it is no slip of one that a release has."""
        if isinstance(name, int):  # YAML makes numbers and booleans of keys too
            return str(name) if len(str(name)) <= 6 else self.mark("key", str(name))
        text = str(name)
        return text if is_public_key(text) or _is_slip(text) else self.mark("key", text)

    def path(self, dotted: str) -> str:
        """A dotted key, each part of it by itself."""
        return ".".join(self.key(part) for part in dotted.split(".")) if dotted else ""

    def value(self, value: Any, secret: bool = False) -> str:
        """A scalar as YAML, or a mark."""
        if value is None or isinstance(value, bool):
            return "null" if value is None else str(value).lower()
        if value is MISSING:
            return "???"
        if isinstance(value, (int, float)):
            text = str(value)
            return text if not secret and len(re.sub(r"\D", "", text)) <= 17 and abs(value) < 1e13 else self.mark("number", text)
        if isinstance(value, Interpolation):
            return self._reference(str(value))
        if isinstance(value, bytes):
            return self.mark("bytes", repr(value))
        text = str(value)
        if secret and text:
            return self.mark("secret", text)
        if _NUMBER.match(text) or text in ("true", "false", "null", "None", "True", "False"):
            return f'"{text}"'
        if is_public(text) or is_public_class(text):
            return (
                text if re.fullmatch(r"[A-Za-z_][\w./-]*", text) else f'"{text}"' if '"' not in text else self.mark("text", text)
            )
        return self.mark(_kind(text), text)

    def _reference(self, text: str) -> str:
        match = _REFERENCE.match(text)
        return text if match and all(is_public_key(part) for part in match[1].split(".")) else self.mark("interpolation", text)


def _kind(text: str) -> str:
    if "://" in text:
        return "url"
    if "/" in text or "\\" in text or text.startswith("~"):
        return "path"
    return "text"


def _is_slip(text: str) -> bool:
    """Whether a key is a known one with a letter or two wrong: too little room to hide anything in."""
    if not text.isidentifier() or not 6 <= len(text) <= 60:
        return False
    known = SECTION_NAMES.union(*(names_in(section) for section in SECTION_NAMES))
    near = (name for name in known if abs(len(name) - len(text)) <= 1 and name[:2] == text[:2])
    return any(_differing(name, text) <= 2 for name in near)


def _differing(one: str, other: str) -> int:
    """Letters of either text that are not in their longest common blocks, the larger number of both."""
    same = sum(block.size for block in SequenceMatcher(None, one, other, autojunk=False).get_matching_blocks())
    return max(len(one), len(other)) - same


def redacted(document: Document, redactor: Redactor) -> list[str]:
    """The lines of a document as YAML, comments left out."""
    if document.root is None:
        return ["# cannot be read as a mapping"]
    return list(_mapping(document.root.value, redactor, 0, False)) or ["{}"]


def _mapping(mapping: dict[Any, Item], redactor: Redactor, depth: int, secret: bool) -> Iterator[str]:
    for name, item in mapping.items():
        hidden = secret or bool(_SECRET.search(str(name).lower()))
        lead = "  " * depth + redactor.key(name) + ":"
        yield from _entry(lead, item, redactor, depth, hidden)


def _entry(lead: str, item: Item, redactor: Redactor, depth: int, secret: bool) -> Iterator[str]:
    value = item.value
    if isinstance(value, (dict, list)) and depth >= _DEPTH:
        yield f"{lead} <nested deeper>"
    elif isinstance(value, dict) and value:
        yield lead
        yield from _mapping(value, redactor, depth + 1, secret)
    elif isinstance(value, list) and value:
        yield lead
        for one in value[:_ITEMS]:
            yield from _entry("  " * (depth + 1) + "-", one, redactor, depth + 1, secret)
        if len(value) > _ITEMS:
            yield "  " * (depth + 1) + f"# {len(value) - _ITEMS} more"
    else:
        yield f"{lead} {'{}' if isinstance(value, dict) else '[]' if isinstance(value, list) else redactor.value(value, secret)}"
