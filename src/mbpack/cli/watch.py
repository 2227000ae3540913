"""`mbpack doctor --watch`: the same call again whenever one of its files changes, until Ctrl-C."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mbpack.cli import inputs
from mbpack.cli.session import warn
from mbpack.report.style import is_terminal

#: Seconds between two looks at the files; an editor's write is seen at once, and a look costs less than a millisecond a file.
PAUSE = 0.3

Stamps = dict[str, tuple[int, int] | None]


def again_and_again(command: Callable[..., int], given: Mapping[str, Any]) -> int:
    """Run a command, and again after each change of a file that it reads or that a folder of its arguments gains or loses.

    Ctrl-C ends it with the exit code of the last run.
    """
    arguments = {**given, "watch": False}
    words = list(arguments["files"] or [])
    refused = next((flag for flag in ("fix", "unsafe_fixes", "write_context", "write_baseline") if arguments[flag]), None)
    if refused is not None or "-" in words:
        warn(f"--watch only looks at files: leave out {'-' if refused is None else '--' + refused.replace('_', '-')}")
        return 2
    code = 0
    try:
        while True:
            inputs.watched = {str(folder / "pyproject.toml") for folder in (Path.cwd(), *Path.cwd().parents)}
            if is_terminal(sys.stdout):
                print("\x1b[2J\x1b[H", end="")
            warn("checking")  # what an editor's problem matcher takes for the beginning
            code = command(**arguments)
            sys.stdout.flush()
            seen = frozenset(inputs.watched)
            before = _stamps(words, seen)
            here = sum(stamp is not None for stamp in before.values())
            warn(f"watching {here} file{'' if here == 1 else 's'}; Ctrl-C ends")
            while _stamps(words, seen) == before:
                time.sleep(PAUSE)
    except KeyboardInterrupt:
        return code
    finally:
        inputs.watched = None


def _stamps(words: list[str], seen: frozenset[str]) -> Stamps:
    """When each file was written last, and its size; None for one that is not there."""
    try:
        named = {path for path, _ in inputs.split_arguments(words).paths}
    except inputs.InputError:
        named = set()
    return {path: _stamp(path) for path in sorted(named | seen)}


def _stamp(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_size
