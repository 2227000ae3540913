"""Text whose characters remember where in a script they were written, with pieces that cannot be told by reading.

An unknown piece (arithmetic, command output, the environment) stands between two control characters and is carried
along like any other text; it is never replaced by a guess. Each word of a default (``${X:-8}``) begins with a mark that names its
variable.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Union

#: Characters one value may hold; more is unknown.
MAX_VALUE = 16_384

OPEN, CLOSE, DEFAULTED = "\0", "\2", "\1"
_UNKNOWN = re.compile("\0([^\2]*)\2")
_MARK = re.compile("\1([^\1]*)\1")
_CONTROL = str.maketrans(dict.fromkeys((OPEN, CLOSE, DEFAULTED), "�"))
_WORD = re.compile(r"\S+")
_KEY_VALUE = re.compile(r"((?:\+\+?)?[A-Za-z_]\w*(?:\.[\w@/-]+)+=)")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Text(NamedTuple):
    """Characters and, for each, its offset in the script."""

    chars: str
    at: Sequence[int]

    @property
    def known(self) -> bool:
        """Whether nothing in it is unknown."""
        return OPEN not in self.chars

    @property
    def defaults(self) -> tuple[str, ...]:
        """The variables whose defaults it holds, which the environment may replace."""
        return tuple(dict.fromkeys(_MARK.findall(self.chars)))

    @property
    def bare(self) -> str:
        """The characters without the marks of defaults."""
        return _MARK.sub("", self.chars) if DEFAULTED in self.chars else self.chars

    @property
    def plain(self) -> str:
        """The characters as the command would see them; unknown pieces as ``${shell:NAME}``."""
        if OPEN not in self.chars and DEFAULTED not in self.chars:
            return self.chars
        return _UNKNOWN.sub(r"${shell:\1}", self.bare)

    def part(self, start: int, end: int | None = None) -> Text:
        """A slice."""
        return Text(self.chars[start:end], self.at[start:end])


#: What a variable holds: text, or the elements of an array.
Value = Union[Text, "list[Text]"]
EMPTY = Text("", ())


def source_text(source: str) -> Text:
    """A whole script as text; control characters that mean something here are replaced."""
    clean = source.translate(_CONTROL)
    return Text(clean, range(len(clean)))


def unknown(name: str, offset: int) -> Text:
    """An unknown piece that was written at an offset; ``name`` says what it is."""
    chars = f"{OPEN}{name if NAME.fullmatch(name) else 'value'}{CLOSE}"
    return Text(chars, (offset,) * len(chars))


def defaulted(text: Text, name: str, offset: int) -> Text:
    """A default of a variable: every word of it says so, since an expansion may split them."""
    mark = f"{DEFAULTED}{name}{DEFAULTED}"
    pieces: list[Text] = []
    end = 0
    for word in _WORD.finditer(text.chars):
        pieces += (text.part(end, word.start()), Text(mark, (text.at[word.start()],) * len(mark)))
        end = word.start()
    return joined((*pieces, text.part(end))) if pieces else Text(mark + text.chars, (offset,) * (len(mark) + len(text.chars)))


def joined(texts: Iterable[Text], separator: str = "") -> Text:
    """Texts one after the other; more than a value may hold is unknown."""
    chars: list[str] = []
    at: list[int] = []
    for text in texts:
        if chars and separator:
            chars.append(separator)
            at.append(at[-1] if at else 0)
        chars.append(text.chars)
        at.extend(text.at)
        if len(at) > MAX_VALUE:
            return unknown("long", at[0])
    return Text("".join(chars), at)


def merged(old: Value | None, new: Value | None, name: str, offset: int) -> Value:
    """What a variable holds after a block that may or may not have run: what both agree on, then what only one has.

    Of a KEY=VALUE that only one way sets, or both to different values, the key stays and the value is unknown.
    """
    if isinstance(old, list) and isinstance(new, list):
        same = 0
        while same < min(len(old), len(new)) and old[same].chars == new[same].chars:
            same += 1
        return new if same == len(old) == len(new) else [*new[:same], *_either(old[same:], new[same:], name, offset)]
    if not isinstance(old, Text) or not isinstance(new, Text):
        held = old if old is not None else new
        words = held if isinstance(held, list) else _blank_separated(held) if isinstance(held, Text) else []
        undecided = _either([unknown(name, offset)], words, name, offset)
        return undecided if isinstance(held, list) else joined(undecided, " ")
    if old.chars == new.chars:
        return new
    end = 0
    while end < min(len(old.chars), len(new.chars)) and old.chars[end] == new.chars[end]:
        end += 1
    if not (end == len(old.chars) and new.chars[end].isspace()):
        while end > 0 and not new.chars[end - 1].isspace():
            end -= 1
    head = new.part(0, end)
    rest = _either(_blank_separated(old.part(end)), _blank_separated(new.part(end)), name, offset)
    return joined((head, *rest) if head.chars.strip() else rest, " ")


def _blank_separated(text: Text) -> list[Text]:
    return [text.part(*word.span()) for word in _WORD.finditer(text.chars)]


def _either(first: Sequence[Text], second: Sequence[Text], name: str, offset: int) -> list[Text]:
    """Words of which nobody knows whether the one row or the other is there."""
    keys: dict[str, tuple[Text, list[str]]] = {}
    others = False
    for words in (first, second):
        for word in words:
            match = _KEY_VALUE.match(word.chars)
            if match is None:
                others = True
                continue
            keys.setdefault(match[1], (word, []))[1].append(word.chars)
    result = [unknown(name, offset)] if others or not keys else []
    for key, (word, written) in keys.items():
        agreed = len(written) == 2 and written[0] == written[1]
        result.append(word if agreed else joined((word.part(0, len(key)), unknown(name, offset))))
    return result


class Fields:
    """Words under construction: quoted text sticks together, unquoted expansions split at blanks."""

    def __init__(self) -> None:
        self._done: list[Text] = []
        self._chars: list[str] = []
        self._at: list[int] = []
        self._open = False

    def add(self, text: Text) -> None:
        """Text that stays in the word being built."""
        self._chars.append(text.chars)
        self._at.extend(text.at)
        self._open = True

    def split(self, text: Text) -> None:
        """Text whose blanks end words."""
        start = 0
        for index, char in enumerate(text.chars):
            if char.isspace():
                if index > start:
                    self.add(text.part(start, index))
                self.next()
                start = index + 1
        if start < len(text.chars):
            self.add(text.part(start))

    def next(self) -> None:
        """End the word being built."""
        if self._open:
            long = len(self._at) > MAX_VALUE
            self._done.append(unknown("long", self._at[0]) if long else Text("".join(self._chars), self._at))
            self._chars, self._at, self._open = [], [], False

    def all(self) -> list[Text]:
        """Every word, the last one included."""
        self.next()
        return self._done
