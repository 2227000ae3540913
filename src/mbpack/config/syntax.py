"""What PyYAML's errors mean, in one line each: what is wrong and how to mend it."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Any, Final

from yaml.reader import ReaderError

from .items import Problem, Span

_BREAK: Final = re.compile("\r\n|[\n\r\x85\u2028\u2029]")

_INDENT: Final = "indent it as its neighbours"
_BLOCK: Final = "after `|` or `>` only an indentation digit, `+` or `-` may follow: start the text on the next line"
_ESCAPE: Final = "double quotes: use single quotes, or double the backslash"

# What the parser says (a fragment of it) and what that means. The first fragment that occurs counts.
_MEANINGS: Final = {
    "another document": "a second document starts here (`---`), but only one is read: split the file",
    "'\\t'": "a tab cannot stand here in YAML: use spaces",
    "'%'": "a value cannot start with `%`: put it in quotes",
    "'@'": "a value cannot start with `@`: put it in quotes",
    "'`'": "a value cannot start with a backtick: put it in quotes",
    "mapping values are not allowed": f"a second `: ` in a line, or a wrong indentation: quote the value, or {_INDENT}",
    "undefined alias": "this alias (`*name`) has no anchor (`&name`) before it: write the value out",
    "duplicate anchor": "this anchor (`&name`) exists already: give it another name",
    "expected alphabetic or numeric": "`*` and `&` start an alias or an anchor: quote the value if it is meant as text",
    "found '-'": f"a list item where a key is expected: {_INDENT}",
    "expected <block end>": f"the indentation fits no line above, or a quote or bracket is wrong: {_INDENT}",
    "could not find expected ':'": "a key without `: ` after it: add the colon, or fix the quotes or brackets above",
    "unexpected end of stream": "the file ends inside quotes: close them",
    "document separator": "`---` or `...` inside quotes: close the quotes",
    "expected ',' or '": "a bracket is not closed, or a comma is missing: `[a, b]`, `{a: 1, b: 2}`",
    "sequence entries are not allowed": "a list cannot start here: put each `- ` on a line of its own, below its key",
    "mapping keys are not allowed": "a key cannot start here: put it on a line of its own",
    "unknown escape character": f"an unknown escape inside {_ESCAPE}",
    "escape sequence": f"an incomplete escape inside {_ESCAPE}",
    "undefined tag handle": "an unknown tag (`!x!y`): remove it, or quote the value",
    "block scalar": _BLOCK,
    "expected chomping or indentation": _BLOCK,
    "expected the node content": "a value is missing or starts with a sign that YAML uses itself: put it in quotes",
    "expected '<document start>'": f"a line that is indented less than the first, or text after `...`: {_INDENT}",
    "directive": "a line starting with `%` is an instruction to the YAML parser: remove it, or quote the value",
}
_KINDS: Final = {"another document": "multi-document", "'\\t'": "tab"}
_ANYTHING: Final = "this is not YAML: check quotes, brackets and indentation around here"


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
        message = "a character that is no Unicode text: save the file as UTF-8"
        return Problem("encoding", message, _visible(text, error.start), True)
    mark: Any = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    at = min(mark.index, len(text)) if mark is not None else 0
    said = f"{getattr(error, 'context', '')} {getattr(error, 'problem', '')}"
    fragment = next((fragment for fragment in _MEANINGS if fragment in said), "")
    message = _MEANINGS.get(fragment, _ANYTHING)
    return Problem(_KINDS.get(fragment, "syntax"), message, _visible(text, at), True)


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
