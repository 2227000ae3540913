"""The last prompt, below the review, and what is said to somebody who leaves without a file."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any, NamedTuple

from mbpack.wizard import prompt, screen
from mbpack.wizard.answers import KINDS, YES_NO, flag, written

WRITE, LEAVE, AGAIN, FILE, CHANGE, EXPLAIN = "write", "leave", "again", "file", "change", "explain"
_YES, _NO = ("y", "yes"), ("n", "no")
_LINE = re.compile(r"(\d{1,3})(?:\s*[= ]\s*(\S.*))?\Z")
_EXPLAIN = re.compile(r"\?\s*(\d{1,3})|(\d{1,3})\s*\?")


class Wish(NamedTuple):
    """What is to be done: a word of this module; with ``CHANGE`` and ``EXPLAIN`` a line, perhaps with its new value."""

    what: str
    line: int = 0
    value: str | None = None


def confirm(path: str, exists: bool, first: bool, lines: int, same: bool = False) -> Wish:
    """Ask whether to write, or which line to change.

    Only y, yes and Enter write, and Enter only where no other file is lost; whatever else is typed asks again. ``same``: the
    file is already what would be written.

    Raises:
        KeyboardInterrupt, EOFError: Ctrl-C, Ctrl-D.
    """
    width = prompt.width()
    while True:
        reply = prompt.ask_line("Write it (y/n), or change a line (its number)", "no" if exists else "yes")
        word = reply.strip(" \t").lower()
        numbered, asked = _LINE.match(reply.strip(" \t")), _EXPLAIN.fullmatch(word)
        if reply == "":
            return Wish(LEAVE if exists and not same else WRITE)
        if word in _YES:
            return Wish(WRITE)
        if word in _NO:
            return Wish(LEAVE)
        if word == "f":
            return Wish(FILE)
        number = int(numbered[1] if numbered else (asked[1] or asked[2]) if asked else 0)
        if (numbered or asked) and not 1 <= number <= lines:
            prompt.say(screen.refused(f"there is no line {number}: the lines are 1 to {lines}", width))
        elif numbered:
            return Wish(CHANGE, number, numbered[2])
        elif asked:
            return Wish(EXPLAIN, number)
        elif word == "?":
            prompt.say(screen.wrapped(_help(path, exists), width, "  "))
        elif word == "b" and not first:
            return Wish(AGAIN)
        elif word == "b":
            prompt.say(screen.refused("there is no question to go back to", width))
        else:
            prompt.say(screen.refused(f"{reply!r} is neither yes nor no nor the number of a line", width))


def _help(path: str, exists: bool) -> str:
    lost = f" What {path} holds now is replaced, without a copy." if exists else ""
    return (
        f"y writes {path}.{lost} n leaves and writes nothing; your answers are then shown as a command."
        " A number asks for that line anew, and what depends on it follows; `9 4` sets line 9 to 4 at once. `? 9` explains line"
        " 9, f shows the file, b goes back to the last question."
    )


def resume(answers: Mapping[str, Any], path: str, kept: bool = False) -> list[str]:
    """How to go on with the answers given so far; nothing where there are none. ``kept``: the next session offers them."""
    if not written(answers):
        return []
    words = ["mbpack", "init"]
    for name in written(answers):
        words += _flag(name, answers[name])
    stem = path.rpartition(".")[0] if "." in path.rpartition("/")[2] else path
    again = ["`mbpack init` offers them again; as flags:"] if kept else ["To go on from here:"]
    return [
        f"Your answers are {'kept' if kept else 'not lost'}. {again[0]}",
        f"  {shlex.join(words)}",
        f"With --save-answers {shlex.quote(f'{stem}.answers.yaml')} they are kept in a file, which --answers reads again.",
    ]


def _flag(name: str, value: Any) -> list[str]:
    if KINDS[name].kind == YES_NO:
        return [flag(name) if value else f"--no-{name.replace('_', '-')}"]
    return [flag(name), "none" if value is None else str(value)]
