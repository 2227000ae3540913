"""Unified diffs that patch(1) applies and reverses, whatever line ends and encoding a file has."""

from __future__ import annotations

from difflib import unified_diff


def unified(path: str, before: bytes, after: bytes) -> bytes:
    """The difference of two contents of a file; empty where there is none."""
    name = path + ("\t" if any(sign.isspace() for sign in path) else "")
    lines = unified_diff(_lines(before), _lines(after), name, name, lineterm="")
    out: list[str] = []
    for number, line in enumerate(lines):
        if number < 2 or line.startswith("@@"):
            out.append(line + "\n")
        elif line.endswith("\n"):
            out.append(line)
        else:
            out.append(line + "\n\\ No newline at end of file\n")
    return "".join(out).encode("utf-8", "surrogateescape")


def painted(diff: bytes) -> bytes:
    """A difference in the colours that git gives it; as it is where it is empty."""
    return b"".join(_painted(line) for line in diff.splitlines(keepends=True))


def _painted(line: bytes) -> bytes:
    code = next((code for sign, code in _COLOURS if line.startswith(sign)), None)
    text = line.rstrip(b"\r\n")
    return b"\x1b[%sm%s\x1b[0m%s" % (code, text, line[len(text) :]) if code is not None and text else line


#: What a line of a difference begins with -> its colour, the first that fits.
_COLOURS = ((b"+++", b"1"), (b"---", b"1"), (b"@@", b"36"), (b"+", b"32"), (b"-", b"31"))


def _lines(data: bytes) -> list[str]:
    """Lines as patch(1) counts them: only a line feed ends one."""
    parts = data.decode("utf-8", "surrogateescape").split("\n")
    lines = [part + "\n" for part in parts[:-1]]
    return [*lines, parts[-1]] if parts[-1] else lines
