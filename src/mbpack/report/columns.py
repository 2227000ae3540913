"""Text on a terminal: what may be printed, how many columns it takes, and where lines break."""

from __future__ import annotations

import re

#: What would move the cursor, change colours or turn the writing direction, and what no encoding can hold.
_UNPRINTABLE = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]"

#: Longest word and longest paragraph shown whole (characters): a value can be a whole file.
_LONGEST_WORD, _LONGEST_TEXT = 200, 1500


def printable(text: str) -> str:
    """Text from a file or a command line, safe to print: one character for each character; a tab is one space."""
    if text.isascii() and text.isprintable():
        return text
    return re.sub(_UNPRINTABLE, "\ufffd", text.replace("\t", " "))  # compiled only where a text needs it


def columns(text: str) -> int:
    """The columns a text takes: two for East Asian wide characters and emoji, none for combining marks."""
    if text.isascii():
        return len(text)
    from unicodedata import category, east_asian_width

    return sum(0 if category(sign) in ("Mn", "Me", "Cf") else 2 if east_asian_width(sign) in "WF" else 1 for sign in text)


def head(text: str, room: int) -> str:
    """As much of the beginning as fits a number of columns."""
    if text.isascii():
        return text[: max(0, room)]
    taken = 0
    for index, sign in enumerate(text):
        taken += columns(sign)
        if taken > room:
            return text[:index]
    return text


def tail(text: str, room: int) -> str:
    """As much of the end as fits a number of columns."""
    if text.isascii():
        return text[max(0, len(text) - max(0, room)) :]
    taken = 0
    for index in range(len(text) - 1, -1, -1):
        taken += columns(text[index])
        if taken > room:
            return text[index + 1 :]
    return text


def clip(text: str, room: int) -> str:
    """Text in at most so many columns, with an ellipsis where something is left out."""
    return text if columns(text) <= room else head(text, room - 1) + "…"


def wrap(text: str, width: int, first: str = "", rest: str = "") -> list[str]:
    """Lines of at most ``width`` columns, broken between words; a word too long for a line is cut.

    The first line starts with one prefix, the others with another. Very long words and texts lose their middle.
    """
    words = [_shortened(word, _LONGEST_WORD) for word in _shortened(printable(text.replace("\n", " ")), _LONGEST_TEXT).split()]
    return flow(words, width, first, rest, " ")


def flow(items: list[str], width: int, first: str, rest: str, gap: str) -> list[str]:
    """Items in lines of at most ``width`` columns, with a gap between two of a line."""
    lines: list[str] = []
    line, empty = first, True
    for item in items:
        if not empty and columns(line) + len(gap) + columns(item) > width:
            lines.append(line)
            line, empty = rest, True
        while empty and item and columns(line) + columns(item) > width:
            part = _part(item, max(8, width - columns(line)))
            lines.append(line + part)
            line, item = rest, item[len(part) :].lstrip()
        line += item if empty else gap + item
        empty = empty and not item
    lines.append(line)
    return [line.rstrip() for line in lines]


def _part(item: str, room: int) -> str:
    """The beginning of an item that fits, up to a space where it has one."""
    part = head(item, room) or item[:1]
    space = part.rfind(" ")
    return part[:space] if space > 0 and len(part) < len(item) else part


def _shortened(text: str, longest: int) -> str:
    if len(text) <= longest:
        return text
    return f"{text[: longest * 2 // 3]}…{text[-longest // 4 :]}"
