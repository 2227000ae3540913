"""Python programs that a launch script starts: files beside it, and programs written into the script itself."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from msgspec import Struct

#: A here-document: what its line says before and after the mark, the word that ends it, and whether the shell leaves it as it is.
_HERE = re.compile(r"""<<(-?)[ \t]*(?:'([A-Za-z_]\w*)'|"([A-Za-z_]\w*)"|([A-Za-z_]\w*))""")
_INTO = re.compile(r"(?:>\s*|\btee\s+(?:-\w+\s+)*)[\"']?([\w./${}-]+\.py)\b")
#: ``read -r -d '' NAME`` and ``NAME=$(cat`` in front of a here-document.
_HELD = re.compile(r"""(?:^|[\s;(])(?:read\s+(?:-\w+\s+(?:''|"")?\s*)*([A-Za-z_]\w*)\s*$|([A-Za-z_]\w*)="?\$\(\s*cat\s*$)""")
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))")
_PYTHON = re.compile(r"\bpython[\d.]*\b|\btorchrun\b|\btorch\.distributed\.run\b")


class Here(Struct, frozen=True):
    """A program in a here-document: the line of its command, the file it is written into ("" where it is run), and its text.

    ``file`` is ``$NAME`` where a variable of that name takes it.

    The text begins with empty lines, so that its lines are those of the script.
    """

    line: int
    file: str
    text: str


def programs_in(source: str, variables: Mapping[str, str]) -> Iterator[Here]:
    """The Python programs in a script's here-documents; one with shell variables whose values are not known is left out."""
    lines = source.split("\n")
    index = 0
    while index < len(lines):
        match = _HERE.search(lines[index].split("#")[0] if lines[index].lstrip().startswith("#") else lines[index])
        if match is None:
            index += 1
            continue
        end = match[2] or match[3] or match[4]
        last = next((i for i in range(index + 1, len(lines)) if lines[i].strip(" \t\r" if match[1] else "\r") == end), None)
        if last is None:
            return
        command = _logical(lines, index)
        into = _INTO.search(command)
        held = _HELD.search(lines[index][: match.start()])
        body = [line.lstrip("\t") if match[1] else line for line in lines[index + 1 : last]]
        if into is not None or held is not None or _PYTHON.search(command):
            written = "\n".join(body)
            text = _filled(written, variables) if match[4] else written
            if text is not None:
                file = into[1].rpartition("/")[2] if into else f"${held[1] or held[2]}" if held else ""
                yield Here(index + 1, file, "\n" * (index + 1) + text + "\n")
        index = last + 1


def _logical(lines: list[str], index: int) -> str:
    """The command line that a line ends, continued ones before it included."""
    first = index
    while first > 0 and lines[first - 1].rstrip().endswith("\\"):
        first -= 1
    return " ".join(line.rstrip("\\ ") for line in lines[first : index + 1])


def _filled(text: str, variables: Mapping[str, str]) -> str | None:
    """A text with its shell variables put in; None where one is not known, or where the shell does more than that."""
    names = {match[1] or match[2] for match in _VARIABLE.finditer(text)}
    rest = _VARIABLE.sub("", text)
    if not names <= variables.keys() or "$" in rest or "`" in rest:
        return None
    return _VARIABLE.sub(lambda match: variables[match[1] or match[2]], text)
