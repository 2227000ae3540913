"""pytest's `-k` expressions, evaluated without pytest.

An expression combines words with `and`, `or`, `not` and parentheses; a word is true for a test when it is part of any
of the test's names (module, classes, function with its parameters, markers), in any case.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

Names = frozenset[str]
Match = Callable[[Names], bool]
_TOKEN = re.compile(r"\s*(?:(?P<sign>[()])|(?P<word>(?::?[\w:+\-./\\\[\]]+)+))")


class KeywordError(ValueError):
    """The expression cannot be read; the message says where."""


def matcher(expression: str) -> Match:
    """The test for one `-k` expression; an empty one matches everything.

    Raises:
        KeywordError: pytest would refuse the expression.
    """
    if not expression.strip():
        return lambda names: True
    parser = _Parser(expression)
    found = parser.either()
    if parser.left:
        raise KeywordError(f"-k {expression!r}: `{parser.left[0]}` is not expected there")
    return found


def names_of(parts: Iterable[str]) -> Names:
    """The names of a test as the matcher wants them."""
    return frozenset(part.lower() for part in parts)


class _Parser:
    def __init__(self, expression: str) -> None:
        self.expression = expression
        self.left: list[str] = []
        position, text = 0, expression.rstrip()
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                raise KeywordError(f"-k {expression!r}: `{text[position:].strip()[0]}` is not allowed (column {position + 1})")
            self.left.append(match["sign"] or match["word"])
            position = match.end()

    def _take(self, word: str) -> bool:
        if self.left and self.left[0] == word:
            self.left.pop(0)
            return True
        return False

    def either(self) -> Match:
        first = self._both()
        while self._take("or"):
            first = _or(first, self._both())
        return first

    def _both(self) -> Match:
        first = self._single()
        while self._take("and"):
            first = _and(first, self._single())
        return first

    def _single(self) -> Match:
        if self._take("not"):
            inner = self._single()
            return lambda names: not inner(names)
        if self._take("("):
            inside = self.either()
            if not self._take(")"):
                raise KeywordError(f"-k {self.expression!r}: a parenthesis is not closed")
            return inside
        if not self.left or self.left[0] in (")", "and", "or"):
            raise KeywordError(f"-k {self.expression!r}: a word is missing")
        word = self.left.pop(0).lower()
        return lambda names: any(word in name for name in names)


def _or(first: Match, second: Match) -> Match:
    return lambda names: first(names) or second(names)


def _and(first: Match, second: Match) -> Match:
    return lambda names: first(names) and second(names)
