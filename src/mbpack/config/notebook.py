"""Notebooks as programs and shell scripts: their cells, each line where it stands in the file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from msgspec import Struct

#: Where the lines of a cell begin: a list over several lines, or a text on this one.
_SOURCE = re.compile(r'\s*"source": (?:(\[)\s*$|"(?!"))')
_SHELL = re.compile(r"%%(?:bash|sh|script\s+(?:bash|sh))\b")
#: Magics in front of a cell that is Python all the same.
_PYTHON = re.compile(r"%%(?:capture|time|timeit|prun)\b")
_GIVEN = re.compile(r"(\s*[A-Za-z_]\w*\s*=\s*)[!%]")


class NotebookError(ValueError):
    """A notebook that cannot be read line by line; the message is one line."""


class Cells(Struct, frozen=True):
    """The cells of a notebook: ``program`` those in Python, ``script`` those for the shell and lines that begin with ``!``.

    Both have the lines of the file; what belongs to the other, and everything around the cells, is left empty.
    """

    program: str
    script: str


def read_cells(text: str) -> Cells:
    """The cells of a notebook as the tools of Jupyter save it, each line of a cell on a line of its own.

    Raises:
        NotebookError: it is no notebook, or is saved in another shape.
    """
    try:
        cells = json.loads(text)["cells"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise NotebookError("not a notebook that can be read") from None
    lines = text.splitlines()
    program, script = [""] * len(lines), [""] * len(lines)
    places = _places(lines)
    for cell in cells:
        source = cell.get("source") if isinstance(cell, dict) else None
        if not source:
            continue
        start = next((place for place in places if _begins(lines, place, source)), None)
        code = cell.get("cell_type") == "code"
        held = source.splitlines() if isinstance(source, str) else source
        if start is None or (code and isinstance(source, str) and len(held) > 1):
            raise NotebookError("its cells are not saved line by line; `jupyter nbconvert --to script` makes a program of it")
        if code:
            _put([str(line).rstrip("\n") for line in held], start, program, script)
    return Cells("\n".join(program) + "\n", "\n".join(script) + "\n")


def _places(lines: list[str]) -> Iterator[int]:
    """Where the lines of each cell begin, from 0."""
    for number, line in enumerate(lines):
        if found := _SOURCE.match(line):
            yield number + bool(found[1])


def _begins(lines: list[str], place: int, source: str | list[str]) -> bool:
    """Whether a cell begins at a line: anything else may be called `source` too."""
    if isinstance(source, str):
        return json.dumps(source)[:40] in lines[place] or json.dumps(source, ensure_ascii=False)[:40] in lines[place]
    try:
        return bool(place < len(lines) and json.loads(lines[place].strip().removesuffix(",")) == source[0])
    except ValueError:
        return False


def _put(source: list[str], start: int, program: list[str], script: list[str]) -> None:
    head = next((line for line in source if line.strip()), "")
    if head.startswith("%%") and not _PYTHON.match(head):
        if _SHELL.match(head):
            for offset, line in enumerate(source):
                script[start + offset] = "" if line.startswith("%%") else line
        return
    command = ""  # a line for the shell goes on in the next one
    for offset, line in enumerate(source):
        bare = line.lstrip()
        if command or bare.startswith("!"):
            script[start + offset] = bare[not command :]
            program[start + offset] = "" if command else line[: len(line) - len(bare)] + "pass"
            command = "!" if bare.endswith("\\") else ""
        elif bare.startswith(("%", "?")):
            program[start + offset] = line[: len(line) - len(bare)] + "pass"
        elif given := _GIVEN.match(line):
            program[start + offset] = given[1] + "get_ipython()"
        else:
            program[start + offset] = line
