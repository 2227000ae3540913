"""The last question, and what is said to somebody who leaves without a file."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from mbpack.wizard import prompt, screen
from mbpack.wizard.answers import KINDS, YES_NO, flag

WRITE, LEAVE, AGAIN = "write", "leave", "again"
_YES, _NO = ("y", "yes"), ("n", "no")


def confirm(path: str, exists: bool, first: bool) -> str:
    """Ask whether to write: ``WRITE``, ``LEAVE``, or ``AGAIN`` to go back to the last question.

    Only y, yes and Enter write, and Enter only where no other file is lost; whatever else is typed asks again.

    Raises:
        KeyboardInterrupt, EOFError: Ctrl-C, Ctrl-D.
    """
    width = prompt.width()
    while True:
        reply = prompt.ask_line("Write it (y/n)", "no" if exists else "yes")
        word = reply.strip(" \t").lower()
        if reply == "":
            return LEAVE if exists else WRITE
        if word in _YES:
            return WRITE
        if word in _NO:
            return LEAVE
        if word == "?":
            prompt.say(screen.wrapped(_help(path, exists), width, "  "))
        elif word == "b" and not first:
            return AGAIN
        elif word == "b":
            prompt.say(screen.refused("there is no question to go back to", width))
        else:
            prompt.say(screen.refused(f"{reply!r} is neither yes nor no", width))


def _help(path: str, exists: bool) -> str:
    lost = f" What {path} holds now is replaced, without a copy." if exists else ""
    return (
        f"y writes {path} as shown above.{lost} n leaves and writes nothing; your answers are then shown as a command."
        " b goes back to the last question."
    )


def resume(answers: Mapping[str, Any], path: str) -> list[str]:
    """How to go on with the answers given so far; nothing where there are none."""
    if not answers:
        return []
    words = ["mbpack", "init"]
    for name in KINDS:
        if name in answers:
            words += _flag(name, answers[name])
    stem = path.rpartition(".")[0] if "." in path.rpartition("/")[2] else path
    return [
        "Your answers, to go on from here:",
        f"  {shlex.join(words)}",
        f"With --save-answers {shlex.quote(f'{stem}.answers.yaml')} they are kept in a file, which --answers reads again.",
    ]


def _flag(name: str, value: Any) -> list[str]:
    if KINDS[name].kind == YES_NO:
        return [flag(name) if value else f"--no-{name.replace('_', '-')}"]
    return [flag(name), "none" if value is None else str(value)]
