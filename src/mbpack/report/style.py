"""Colour for people at a terminal, and nothing anywhere else."""

from __future__ import annotations

import os
import sys
from typing import TextIO

from msgspec import Struct

from mbpack.report import columns

_CODES = {"error": "1;31", "warning": "1;33", "info": "1;36", "bold": "1", "dim": "2", "good": "1;32", "caret": "1;31"}


#: Columns where nothing tells the width: a pipe, a file.
_WIDTH = 80


class Style(Struct, frozen=True):
    """How text is painted: with ANSI colours or plainly, and how wide a line may be (columns)."""

    colour: bool = False
    width: int = _WIDTH

    def paint(self, kind: str, text: str) -> str:
        """Text in the colour of a kind of thing."""
        text = columns.printable(text)
        return f"\x1b[{_CODES[kind]}m{text}\x1b[0m" if self.colour and text else text

    def wrap(self, text: str, first: str, rest: str) -> list[str]:
        """Text broken at the width: the first line after one prefix, the others after another."""
        return columns.wrap(text, self.width, first, rest)


def is_terminal(stream: TextIO) -> bool:
    """Whether a stream is a terminal; one that the caller closed is none."""
    return hasattr(stream, "isatty") and stream.isatty()


def is_coloured(stream: TextIO) -> bool:
    """Colour only where the stream is a terminal that understands it: NO_COLOR switches it off, FORCE_COLOR on everywhere."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    return is_terminal(stream) and os.environ.get("TERM") != "dumb"


def style_for(stream: TextIO | None = None) -> Style:
    """How a stream is written to: in colour where :func:`is_coloured` says so, as wide as the terminal or COLUMNS, within reason."""
    stream = stream or sys.stdout
    tty = is_terminal(stream)
    colour = is_coloured(stream)
    if tty or os.environ.get("COLUMNS"):
        import shutil

        width = shutil.get_terminal_size((_WIDTH, 24)).columns
    else:
        width = _WIDTH
    return Style(colour, max(40, min(width, 120)))
