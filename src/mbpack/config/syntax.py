"""What PyYAML's errors mean, in one line each: what is wrong and how to mend it."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Any, Final

from yaml.reader import ReaderError

from .items import LINE_BREAK, Problem, Span

_CONFLICT: Final = r"(?m)^(?:<{7}|>{7})(?: .*)?$"
_QUESTION: Final = r"\?+"
_TIGHT_COLON: Final = r"[ ]*(?:- +)*[A-Za-z_][\w.-]*(:)[^\s:/]"

_BLOCK: Final = "after `|` or `>` only an indentation digit, `+` or `-` may follow: start the text on the next line"
_ESCAPE: Final = "double quotes: use single quotes, or double the backslash"
_IN_BRACKETS: Final = "inside brackets must be put in quotes"

# What the parser says (a fragment of it) and what that means, where the text around tells nothing better. The first
# fragment that occurs counts.
_MEANINGS: Final = {
    "another document": "a second document starts here (`---`), but only one is read: split the file",
    "'\\t'": "a tab cannot stand here in YAML: use spaces",
    "'%'": "a value cannot start with `%`: put it in quotes",
    "'@'": "a value cannot start with `@`: put it in quotes",
    "'`'": "a value cannot start with a backtick: put it in quotes",
    "undefined alias": "this alias (`*name`) has no anchor (`&name`) before it: write the value out",
    "duplicate anchor": "this anchor (`&name`) exists already: give it another name",
    "expected alphabetic or numeric": "`*` and `&` start an alias or an anchor: quote the value if it is meant as text",
    "document separator": "`---` or `...` inside quotes: close the quotes",
    "sequence entries are not allowed": "a list cannot start here: put each `- ` on a line of its own, below its key",
    "mapping keys are not allowed": "a key cannot start here: put it on a line of its own",
    "unknown escape character": f"an unknown escape inside {_ESCAPE}",
    "escape sequence": f"an incomplete escape inside {_ESCAPE}",
    "undefined tag handle": "an unknown tag (`!x!y`): remove it, or quote the value",
    "block scalar": _BLOCK,
    "expected chomping or indentation": _BLOCK,
    "expected the node content": "a value is missing or starts with a sign that YAML uses itself: put it in quotes",
    "expected '<document start>'": "this line does not belong to what stands above: indent it like the lines above",
    "directive": "a line starting with `%` is an instruction to the YAML parser: remove it, or quote the value",
}
_KINDS: Final = {"another document": "multi-document", "'\\t'": "tab"}
_ANYTHING: Final = "this is not YAML: check quotes, brackets and indentation around here"


def places(text: str, start: int, end: int | None = None) -> Span:
    """The Span of a stretch of text given by character offsets."""
    end = start if end is None else end
    breaks = [match.end() for match in LINE_BREAK.finditer(text, 0, end)]
    first, last = bisect_right(breaks, start), bisect_right(breaks, end)
    first_start = breaks[first - 1] if first else 0
    last_start = breaks[last - 1] if last else 0
    return Span(first + 1, start - first_start + 1, last + 1, end - last_start + 1, start, end)


def explain(error: Exception, text: str) -> Problem:
    """The problem behind an error of PyYAML's reader, scanner, parser or composer."""
    if isinstance(error, ReaderError):
        return _unreadable(error, text)
    if isinstance(error, UnicodeEncodeError):
        return _problem("a character that is no Unicode text: save the file as UTF-8", text, error.start, "encoding")
    conflict = re.search(_CONFLICT, text)
    if conflict is not None:
        return _problem("a merge conflict is left here: resolve it and delete the marks", text, conflict.start())
    mark: Any = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    opening: Any = getattr(error, "context_mark", None) or mark
    at = min(mark.index, len(text)) if mark is not None else 0
    start = min(opening.index, at) if opening is not None else at
    said = f"{getattr(error, 'context', '')} {getattr(error, 'problem', '')}"
    if (found := _from_the_text(said, text, at, start)) is not None:
        return _problem(*found)
    fragment = next((fragment for fragment in _MEANINGS if fragment in said), "")
    return _problem(_MEANINGS.get(fragment, _ANYTHING), text, at, _KINDS.get(fragment, "syntax"))


def _from_the_text(said: str, text: str, at: int, start: int) -> tuple[str, str, int] | None:
    """What the text around an error tells about it. `start` is where the construct in question begins."""
    before = text[_line_start(text, at) : at]
    if "mapping values are not allowed" in said:
        return _second_colon(text, at, before)
    if "could not find expected ':'" in said:
        if (tight := re.compile(_TIGHT_COLON).match(text, _line_start(text, start))) is not None:
            return "a space is missing behind this colon: `key: value`", text, tight.start(1)
        return "this line has no `key: value`: add the colon and a space, or fix the quotes above", text, start
    if "unexpected end of stream" in said:
        return "the quote that opens here is never closed: close it", text, start
    if "expected ',' or '" in said or "flow" in said:
        if text.startswith("{", at) and text.startswith("$", at - 1):
            return f"`${{...}}` {_IN_BRACKETS}", text, at - 1
        first = at - len(before) + len(before.rstrip("?"))
        if (question := re.compile(_QUESTION).match(text, first)) is not None:
            return f"`{question.group()[:3]}` {_IN_BRACKETS}", text, first
        if "expected ',' or '" in said:
            line = places(text, at).line
            message = f"the bracket that opens here is not closed before line {line}, or a comma is missing"
            return f"{message}: write `[a, b]` or `{{a: 1}}`", text, start
    if "expected <block end>" in said:
        return _stray(text, at, before)
    return None


def _second_colon(text: str, at: int, before: str) -> tuple[str, str, int]:
    if ": " in before:
        return "a second `: ` in one line: put the value in quotes", text, at
    above = text[: at - len(before)].rstrip()
    start = _line_start(text, len(above))
    if (tight := re.compile(_TIGHT_COLON).match(text, start)) is not None:
        return "a space is missing behind this colon: `key: value`", text, tight.start(1)
    line = places(text, start).line
    message = f"a key cannot stand below line {line}, which holds a value or is no `key:`: check that line and the indentation"
    return message, text, at - len(before.lstrip())


def _stray(text: str, at: int, before: str) -> tuple[str, str, int]:
    if text[at : at + 1] in {"]", "}"}:
        return "a closing bracket without an opening one: delete it", text, at
    if before.rstrip()[-1:] in {"'", '"'}:
        return "text behind a closing quote: put the whole value in quotes (`''` is a quote inside single quotes)", text, at
    if before.rstrip()[-1:] in {"]", "}"}:
        return "text behind a closing bracket: put the whole value in quotes", text, at
    if text.startswith("- ", at):
        return "a list item among keys: indent it below the key it belongs to, or delete the dash", text, at
    return "the indentation of this line fits none of the lines above: indent it like its neighbours", text, at


def _line_start(text: str, at: int) -> int:
    return max(text.rfind("\n", 0, at), text.rfind("\r", 0, at)) + 1


def _unreadable(error: ReaderError, text: str) -> Problem:
    at = error.position if isinstance(error.position, int) else 0
    character = text[at : at + 1] or "\0"
    if character == "\0":
        message = "a NUL byte: the file is not text, or it was saved as UTF-16; save it as UTF-8"
    else:
        message = f"the control character U+{ord(character):04X} cannot stand in YAML: delete it"
    return _problem(message, text, at, "encoding")


def _problem(message: str, text: str, at: int, kind: str = "syntax") -> Problem:
    """A fatal problem, one character wide where there is one, so that a caret can be drawn."""
    wide = at < len(text) and text[at] not in "\r\n\x85\u2028\u2029"
    return Problem(kind, message, places(text, at, at + 1 if wide else at), True)
