"""What PyYAML's errors mean, in one line each: what is wrong and how to mend it."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Any, Final

from yaml.reader import ReaderError

from .items import Problem, Span

_BREAK: Final = re.compile("\r\n|[\n\r\x85\u2028\u2029]")

# (fragment of the parser's problem text, kind, message). The first that occurs counts.
_MEANINGS: Final[tuple[tuple[str, str, str], ...]] = (
    ("another document", "multi-document", "a second document starts here (`---`), but only one is read: split the file"),
    ("'\\t'", "tab", "a tab cannot stand here in YAML: use spaces"),
    ("'%'", "syntax", "a value cannot start with `%`: put it in quotes"),
    ("'@'", "syntax", "a value cannot start with `@`: put it in quotes"),
    ("'`'", "syntax", "a value cannot start with a backtick: put it in quotes"),
    ("mapping values are not allowed", "syntax", "a second `: ` in one line, or a wrong indentation: quote the value, or indent it as its neighbours"),
    ("undefined alias", "syntax", "this alias (`*name`) has no anchor (`&name`) before it: write the value out"),
    ("duplicate anchor", "syntax", "this anchor (`&name`) exists already: give it another name"),
    ("expected alphabetic or numeric", "syntax", "`*` and `&` start an alias or an anchor here: quote the value if it is meant as text"),
    ("expected <block end>, but found '-'", "syntax", "a list item where a key is expected: check the indentation"),
    ("expected <block end>", "syntax", "the indentation fits none of the lines above, or a quote or bracket is wrong: align it with its neighbours"),
    ("could not find expected ':'", "syntax", "a key without `: ` after it: add the colon and a space, or fix the quotes or brackets above"),
    ("unexpected end of stream", "syntax", "the file ends inside quotes: close them"),
    ("document separator", "syntax", "`---` or `...` inside quotes: close the quotes"),
    ("expected ',' or '", "syntax", "a bracket is not closed, or a comma is missing: `[a, b]`, `{a: 1, b: 2}`"),
    ("sequence entries are not allowed", "syntax", "a list cannot start here: put each `- ` on a line of its own, indented below its key"),
    ("mapping keys are not allowed", "syntax", "a key cannot start here: put it on a line of its own"),
    ("unknown escape character", "syntax", "an unknown escape (`\\x`) inside double quotes: use single quotes, or double the backslash"),
    ("escape sequence", "syntax", "an incomplete escape inside double quotes: use single quotes, or double the backslash"),
    ("undefined tag handle", "syntax", "an unknown tag (`!x!y`): remove it, or quote the value"),
    ("block scalar", "syntax", "after `|` or `>` only an indentation digit, `+` or `-` may follow: start the text on the next line"),
    ("expected chomping or indentation", "syntax", "after `|` or `>` only an indentation digit, `+` or `-` may follow: start the text on the next line"),
    ("expected the node content", "syntax", "a value is missing or starts with a sign that YAML uses itself: put it in quotes"),
    ("expected '<document start>'", "syntax", "text after the end of the document, or a line that is indented less than the first: check the indentation"),
    ("directive", "syntax", "a line starting with `%` is an instruction to the YAML parser: remove it, or quote the value"),
)  # fmt: skip


def places(text: str, start: int, end: int | None = None) -> Span:
    """The Span of a stretch of text given by character offsets."""
    end = start if end is None else end
    breaks = [match.end() for match in _BREAK.finditer(text, 0, end)]
    first, last = bisect_right(breaks, start), bisect_right(breaks, end)
    first_start = breaks[first - 1] if first else 0
    last_start = breaks[last - 1] if last else 0
    return Span(first + 1, start - first_start + 1, last + 1, end - last_start + 1, start, end)


def explain(error: Exception, text: str) -> Problem:
    """The problem behind an error of PyYAML's reader, scanner, parser or composer."""
    if isinstance(error, ReaderError):
        return _unreadable(error, text)
    if isinstance(error, UnicodeEncodeError):
        return Problem("encoding", "a character that is no Unicode text: save the file as UTF-8", places(text, error.start), True)
    mark: Any = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    at = min(mark.index, len(text)) if mark is not None else 0
    problem = f"{getattr(error, 'context', '')} {getattr(error, 'problem', '')}"
    for fragment, kind, message in _MEANINGS:
        if fragment in problem:
            return Problem(kind, message, _visible(text, at), True)
    return Problem("syntax", "this is not YAML: check quotes, brackets and indentation around here", _visible(text, at), True)


def _unreadable(error: ReaderError, text: str) -> Problem:
    at = error.position if isinstance(error.position, int) else 0
    character = text[at : at + 1] or "\0"
    if character == "\0":
        message = "a NUL byte: the file is not text, or it was saved as UTF-16; save it as UTF-8"
    else:
        message = f"the control character U+{ord(character):04X} cannot stand in YAML: delete it"
    return Problem("encoding", message, places(text, at, min(at + 1, len(text))), True)


def _visible(text: str, at: int) -> Span:
    """One character wide where there is one, so that a caret can be drawn."""
    wide = at < len(text) and text[at] not in "\r\n\x85\u2028\u2029"
    return places(text, at, at + 1 if wide else at)
