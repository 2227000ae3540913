"""The pytest commands a checkout's own packing skill publishes."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

_ENDS = {"&&", "||", ";", "|", "\\"}


class Published(Struct, frozen=True):
    """One test file of a published command, and where it stands."""

    source: str
    line: int
    path: str
    keyword: str


def published(root: Path) -> Iterator[Published]:
    """The commands in the packing skills below `skills`, one entry for every test file they name."""
    for skill in sorted(root.glob("skills/**/SKILL.md")):
        if "packing" not in skill.parent.name:
            continue
        try:
            lines = skill.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            continue
        for number, line in enumerate(lines, 1):
            for path, keyword in _call(line):
                yield Published(skill.relative_to(root).as_posix(), number, path, keyword)


def _call(line: str) -> Iterator[tuple[str, str]]:
    """Files and `-k` expression of a pytest call on one line; nothing where there is none."""
    if "pytest" not in line:
        return
    try:
        words = shlex.split(line.rstrip().removesuffix("\\"))
    except ValueError:
        return
    if "pytest" not in words:
        return
    paths: list[str] = []
    keyword = ""
    rest = iter(words[words.index("pytest") + 1 :])
    for word in rest:
        if word in _ENDS:
            break
        if word == "-k":
            keyword = next(rest, "")
        elif word.endswith(".py") and not word.startswith("-"):
            paths.append(word)
    yield from ((path, keyword) for path in paths)
