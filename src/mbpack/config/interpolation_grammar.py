"""How ``${...}`` is written: the usual writings are parsed here, rare ones are left to OmegaConf's own grammar.

Rare are backslashes, and lists and mappings as arguments. OmegaConf's import costs a tenth of a second.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final, NamedTuple

from .scalars import shorten

MAX_NESTING: Final = 20
"""Deepest nesting of ``${...}`` inside ``${...}``, and longest chain of references, that is followed."""

MAX_ODD_CHARS: Final = 2000
"""Longest text handed to OmegaConf's grammar, which needs about a millisecond for a hundred characters."""


class Reference(NamedTuple):
    """``${a.b}``: `dots` leading dots, then keys."""

    dots: int
    keys: tuple[str, ...]


class Call(NamedTuple):
    """``${name:arg,...}``; each argument is a quoted text or the parts of an unquoted one."""

    name: str
    arguments: tuple[Any, ...]


class Quoted(NamedTuple):
    text: str


# Patterns are text and compiled when first used (`re` keeps them): most files hold no interpolation.
_LITERAL: Final = r"(?:[^$]|\$(?!\{))+"
_OPEN: Final = r"\$\{[ \t]*"
_KEY: Final = r"[A-Za-z0-9_-]+"
_PATH: Final = rf"(\.*)({_KEY}|\[{_KEY}\])((?:\.{_KEY}|\[{_KEY}\])*)[ \t]*\}}"
_NAME: Final = r"([A-Za-z_][A-Za-z0-9_-]*(?:\.[A-Za-z_][A-Za-z0-9_-]*)*)[ \t]*:[ \t]*"
WORD: Final = r"[A-Za-z0-9_/+.%*@?|:-]+(?:[ \t]+[A-Za-z0-9_/+.%*@?|:-]+)*"
_QUOTED: Final = r"'([^'$\\]*)'|\"([^\"$\\]*)\""
_COMMA: Final = r"[ \t]*,[ \t]*"
_CLOSE: Final = r"[ \t]*\}"
SPLIT: Final = r"[\[\].]+"

_UNSIGNED: Final = r"(?:0|[1-9](?:_?[0-9])*)"
_POINT: Final = rf"(?:{_UNSIGNED}\.|{_UNSIGNED}?\.[0-9](?:_?[0-9])*)"
_INT: Final = rf"[+-]?{_UNSIGNED}"
_FLOAT: Final = rf"[+-]?(?:(?:{_UNSIGNED}|{_POINT})[eE][+-]?[0-9](?:_?[0-9])*|{_POINT}|[Ii][Nn][Ff]|[Nn][Aa][Nn])"


def _match(pattern: str, text: str, at: int) -> re.Match[str] | None:
    return re.compile(pattern).match(text, at)


def is_usual(text: str) -> bool:
    """Whether a text with ``${`` is written in one of the usual ways, all of which OmegaConf accepts."""
    return parse_text(text) is not None


@lru_cache(maxsize=1024)
def grammar_error(text: str) -> str | None:
    """Why OmegaConf refuses this text (which holds ``${``) when it loads it, in one line; None if it accepts it."""
    if is_usual(text) or len(text) > MAX_ODD_CHARS:
        return None
    from omegaconf.errors import GrammarParseError
    from omegaconf.grammar_parser import SIMPLE_INTERPOLATION_PATTERN, parse

    if SIMPLE_INTERPOLATION_PATTERN.match(text):  # upstream's short cut lets a few through that its grammar would not
        return None
    try:
        parse(text)
    except GrammarParseError:
        return f"`{shorten(text)}` is not a valid interpolation: close it with `}}`, or write `\\${{` for a plain `${{`"
    except RecursionError:
        return "interpolations are nested too deep to be read"
    return None


def parse_text(text: str) -> list[Any] | None:
    """The parts of a text, or None where the writing is rare."""
    if "\\" in text:
        return None
    parts: list[Any] = []
    at = 0
    while at < len(text):
        literal = _match(_LITERAL, text, at)
        if literal is not None:
            parts.append(literal.group())
            at = literal.end()
            continue
        found = _interpolation(text, at, 0)
        if found is None:
            return None
        parts.append(found[0])
        at = found[1]
    return parts


def _interpolation(text: str, at: int, depth: int) -> tuple[Any, int] | None:
    opening = _match(_OPEN, text, at)
    if opening is None or depth > MAX_NESTING:
        return None
    at = opening.end()
    path = _match(_PATH, text, at)
    if path is not None:
        keys = tuple(key for key in re.split(SPLIT, path[2] + path[3]) if key)
        return Reference(len(path[1]), keys), path.end()
    name = _match(_NAME, text, at)
    if name is None:
        return None
    return _arguments(text, name[1], name.end(), depth)


def _arguments(text: str, name: str, at: int, depth: int) -> tuple[Any, int] | None:
    arguments: list[Any] = []
    closing = _match(_CLOSE, text, at)
    while closing is None:
        found = _argument(text, at, depth)
        if found is None:
            return None
        arguments.append(found[0])
        at = found[1]
        closing = _match(_CLOSE, text, at)
        if closing is None:
            comma = _match(_COMMA, text, at)
            if comma is None:
                return None
            at = comma.end()
            if _match(_CLOSE, text, at):  # an empty last argument: rare and deprecated
                return None
    return Call(name, tuple(arguments)), closing.end()


def _argument(text: str, at: int, depth: int) -> tuple[Any, int] | None:
    quoted = _match(_QUOTED, text, at)
    if quoted is not None:
        return Quoted(quoted[1] if quoted[2] is None else quoted[2]), quoted.end()
    parts: list[Any] = []
    while True:
        word = _match(WORD, text, at)
        if word is not None:
            parts.append(word.group())
            at = word.end()
        found = _interpolation(text, at, depth + 1)
        if found is None:
            return (parts, at) if parts else None
        parts.append(found[0])
        at = found[1]


def primitive(word: str) -> Any:
    """An unquoted argument in OmegaConf's grammar: null, booleans, integers, floats, else text."""
    lowered = word.lower()
    if lowered in {"true", "false"}:
        return lowered == "true"
    if lowered == "null":
        return None
    if re.fullmatch(_INT, word):
        return int(word)
    return float(word) if re.fullmatch(_FLOAT, word) else word
