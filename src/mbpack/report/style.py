"""Colour for people at a terminal, and nothing anywhere else."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from dataclasses import dataclass
from typing import TextIO

_CODES = {"error": "1;31", "warning": "1;33", "info": "1;36", "bold": "1", "dim": "2", "good": "1;32", "caret": "1;31"}


@dataclass(frozen=True, slots=True)
class Style:
    """How text is painted: with ANSI colours or plainly, and how wide a line may be (columns)."""

    colour: bool = False
    width: int = 100

    def paint(self, kind: str, text: str) -> str:
        """Text in the colour of a kind of thing."""
        return f"\x1b[{_CODES[kind]}m{text}\x1b[0m" if self.colour and text else text

    def wrap(self, text: str, first: str, rest: str) -> list[str]:
        """Text broken at the width: the first line after one prefix, the others after another."""
        return textwrap.wrap(
            text, self.width, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
        ) or [first.rstrip()]


def style_for(stream: TextIO | None = None) -> Style:
    """Colour only where the stream is a terminal that understands it; NO_COLOR and TERM=dumb switch it off."""
    stream = stream or sys.stdout
    tty = hasattr(stream, "isatty") and stream.isatty()
    colour = tty and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    width = shutil.get_terminal_size((100, 24)).columns if tty else 100
    return Style(colour, max(60, min(width, 120)))
