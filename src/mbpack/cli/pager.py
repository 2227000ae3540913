"""Long texts at a terminal go through a pager, as git shows its own; everywhere else they are printed."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys

from mbpack.cli.output import emit
from mbpack.report.style import is_terminal


def show(text: str) -> None:
    """Print a text; one longer than the terminal through MBPACK_PAGER, PAGER, or less.

    An empty variable and TERM=dumb mean no pager. Less shows colours and stays away where the text fits (-FRX).
    """
    if not is_terminal(sys.stdout) or text.count("\n") + 1 < shutil.get_terminal_size((80, 24)).lines:
        emit(text)
        return
    command = _pager()
    if command is None or not _through(command, text):
        emit(text)


def _pager() -> list[str] | None:
    """The words of the pager's command, None where there is none."""
    if os.environ.get("TERM") == "dumb":
        return None
    named = os.environ.get("MBPACK_PAGER", os.environ.get("PAGER"))
    try:
        words = shlex.split(named) if named is not None else ["less"]
    except ValueError:  # a quote that does not close
        return None
    return words if words and shutil.which(words[0]) is not None else None


def _through(command: list[str], text: str) -> bool:
    """Whether the pager ran; a reader who leaves before the end has read enough."""
    try:
        running = subprocess.Popen(command, stdin=subprocess.PIPE, env={"LESS": "FRX", **os.environ})
    except OSError:
        return False
    try:
        running.communicate((text + "\n").encode("utf-8", "replace"))
    except KeyboardInterrupt:  # the pager's to answer
        pass
    while True:
        try:
            running.wait()
            return True
        except KeyboardInterrupt:
            continue
