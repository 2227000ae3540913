"""Putting what a file's verdict depends on into the file, as a ``# mbpack:`` comment."""

from __future__ import annotations

import re
from collections.abc import Mapping

from mbpack.config.document import Document, parse

_DIRECTIVE = re.compile(r"[ \t]*#[ \t]*mbpack[ \t]*:(?![ \t]*ignore\[)[ \t]*(.*?)[ \t]*(\r?)$")


def with_context(document: Document, given: Mapping[str, object]) -> str:
    """The text of a document whose first ``# mbpack:`` comment says what is given, beside what it says already.

    A file without one gets it as its first line; every other byte stays. ``given`` is name -> value, such as ``recipe``.
    """
    lines = document.text.split("\n")
    for number, _ in document.comments():
        match = _DIRECTIVE.match(lines[number - 1])
        if match is not None:
            held = dict(word.split("=", 1) for word in match[1].split() if "=" in word)
            lines[number - 1] = comment(held | dict(given)) + match[2]
            return "\n".join(lines)
    return comment(given) + document.newline + document.text


def comment(values: Mapping[str, object]) -> str:
    """The comment that says these values."""
    return "# mbpack: " + " ".join(f"{name}={value}" for name, value in values.items())


def readable(document: Document, text: str) -> bool:
    """Whether a text is read as the document's values."""
    again = parse(text, document.path)
    return again.root is not None and document.root is not None and again.root.plain == document.root.plain
