"""What an unquoted YAML word means to OmegaConf.

OmegaConf (2.3) reads YAML with a loader of its own: PyYAML's YAML 1.1 rules, plus a float form without a dot (``2e-5``,
``8e3``), minus timestamps (a date stays a string). Those rules are written here once; their source is
`omegaconf._utils.get_yaml_loader`, and the property tests compare every shape of word with it.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from typing import Any, Final

from mbpack.facts.patterns import lazy

MAX_NUMBER_DIGITS: Final = 4300
"""Longest integer in decimal digits. Python (3.11 and later) refuses to read or print longer ones."""

_MAX_INT_BITS: Final = 14283  # the largest integer of 4300 decimal digits has 14284 bits
_MAX_SEXAGESIMAL_PARTS: Final = 200


class ScalarError(ValueError):
    """The loader refuses this word; the text says why and how to mend it, in one line."""


class Missing:
    """The type of `MISSING`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "???"

    def __reduce__(self) -> str:
        return "MISSING"


MISSING: Final = Missing()
"""The value of ``???``: nothing was given here, whatever the recipe has stays."""


class Interpolation(str):
    """A string that holds ``${...}`` (raw text, unresolved)."""

    __slots__ = ()


_WORDS: Final[dict[str, bool | None]] = {
    **dict.fromkeys(("~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"), True),
    **dict.fromkeys(("false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"), False),
}
_WORD_STARTS: Final = frozenset(word[0] for word in _WORDS)
_NUMBER_STARTS: Final = frozenset("+-.0123456789")
_RESERVED: Final = frozenset(("=", "<<", "!", "&", "*"))
_BOOLS: Final = {word.lower(): value for word, value in _WORDS.items() if value is not None}

# One pattern for the three float and int resolvers of the loader. They do not overlap, so their order does not matter.
_NUMBER: Final = lazy(
    r"""
    (?P<int>
        [-+]? (?: 0b[01_]+ | 0[0-7_]+ | 0x[0-9a-fA-F_]+ | 0 | [1-9][0-9_]* (?: (?: :[0-5]?[0-9] )+ )? )
    )\Z
    |
    (?:
        [-+]? [0-9][0-9_]* \. [0-9_]* (?: [eE][-+][0-9]+ )?
      | \. [0-9][0-9_]* (?: [eE][-+][0-9]+ )?
      | [-+]? [0-9][0-9_]* (?: :[0-5]?[0-9] )+ \. [0-9_]*
      | [-+]? \. (?: inf | Inf | INF )
      | \. (?: nan | NaN | NAN )
      | [-+]? [0-9]+ (?: _[0-9]+ )* (?: \.[0-9_]* )? [eE][-+]?[0-9]+
    )\Z
    """,
    re.VERBOSE,
)
_PLAIN_INT: Final = lazy(r"[-+]?(?:0|[1-9][0-9]{0,17})\Z")


def resolve(text: str) -> Any:
    """The value of an unquoted word: None, bool, int, float or the text itself.

    ``???`` and ``${...}`` are returned as text here; the document gives them their own types.
    Raises ScalarError where the loader fails on a word that it took for a number (``0x_``) or for ``=`` and ``<<``.
    """
    if not text:
        return None
    first = text[0]
    if first in _NUMBER_STARTS:
        if _PLAIN_INT.match(text):
            return int(text)
        match = _NUMBER.match(text)
        if match is None:
            return text
        return read_float(text) if match["int"] is None else read_int(text)
    if first in _WORD_STARTS:
        return _WORDS.get(text, text)
    if text in _RESERVED:
        raise ScalarError(f"`{text}` has a meaning of its own in YAML and cannot be a value: put it in quotes")
    return text


def read_int(text: str) -> int:
    """An integer in any of YAML 1.1's writings: decimal, 0b, 0 (octal), 0x, sexagesimal; underscores do not count."""
    digits = text.replace("_", "")
    negative = digits.startswith("-")
    if digits[:1] in {"+", "-"}:
        digits = digits[1:]
    try:
        value = _magnitude(digits)
    except ScalarError:
        raise
    except ValueError:
        raise _not_a(text, "an integer") from None
    if value.bit_length() > _MAX_INT_BITS:
        raise ScalarError(f"an integer of more than {MAX_NUMBER_DIGITS} digits cannot be read: shorten it")
    return -value if negative else value


def _magnitude(digits: str) -> int:
    if digits.startswith("0b"):
        return int(digits[2:], 2)
    if digits.startswith("0x"):
        return int(digits[2:], 16)
    if digits.startswith("0"):
        return int(digits, 8)
    if ":" in digits:
        parts = digits.split(":")
        if len(parts) > _MAX_SEXAGESIMAL_PARTS:
            raise ScalarError(f"a number of more than {_MAX_SEXAGESIMAL_PARTS} parts cannot be read: put it in quotes")
        value = 0
        for part in parts:
            value = value * 60 + _decimal(part)
        return value
    return _decimal(digits)


def _decimal(digits: str) -> int:
    if len(digits) > MAX_NUMBER_DIGITS:
        raise ScalarError(f"an integer of more than {MAX_NUMBER_DIGITS} digits cannot be read: shorten it")
    return int(digits)


def read_float(text: str) -> float:
    """A float in any of YAML 1.1's writings, ``.inf`` and sexagesimal included."""
    digits = text.replace("_", "").lower()
    sign = -1.0 if digits.startswith("-") else 1.0
    if digits[:1] in {"+", "-"}:
        digits = digits[1:]
    if digits == ".inf":
        return sign * float("inf")
    if digits == ".nan":
        return float("nan")
    try:
        if ":" not in digits:
            return sign * float(digits)
        parts = digits.split(":")
        if len(parts) > _MAX_SEXAGESIMAL_PARTS:
            raise ScalarError(f"a number of more than {_MAX_SEXAGESIMAL_PARTS} parts cannot be read: put it in quotes")
        value, base = 0.0, 1
        for part in reversed(parts):  # from the right with a growing base, as the loader does: the rounding is the same
            value += float(part) * base
            base *= 60
        return sign * value
    except ScalarError:
        raise
    except (ValueError, OverflowError):
        raise _not_a(text, "a number") from None


def _read_bool(text: str) -> bool:
    try:
        return _BOOLS[text.lower()]
    except KeyError:
        raise ScalarError(f"`{shorten(text)}` is tagged as a boolean: write true or false") from None


def _read_binary(text: str) -> bytes:
    try:
        return base64.decodebytes(text.encode("ascii"))
    except (UnicodeEncodeError, binascii.Error):
        raise ScalarError("a !!binary value must be base64 text") from None


_TAG_PREFIX: Final = "tag:yaml.org,2002:"
_TAGGED: Final[dict[str, Callable[[str], Any]]] = {
    _TAG_PREFIX + "null": lambda text: None,
    _TAG_PREFIX + "bool": _read_bool,
    _TAG_PREFIX + "int": read_int,
    _TAG_PREFIX + "float": read_float,
    _TAG_PREFIX + "binary": _read_binary,
    _TAG_PREFIX + "str": str,
}


def resolve_tagged(tag: str, text: str) -> Any:
    """The value of a word with an explicit tag (the long form, ``tag:yaml.org,2002:int``).

    Raises ScalarError for a tag the loader does not know, and for text that does not fit the tag.
    """
    try:
        read = _TAGGED[tag]
    except KeyError:
        raise ScalarError(f"the tag `{shorten(short_tag(tag))}` is not read here: write a plain value") from None
    return read(text)


def short_tag(tag: str) -> str:
    """A tag as it is written in a file: ``!!int`` for ``tag:yaml.org,2002:int``."""
    return "!!" + tag[len(_TAG_PREFIX) :] if tag.startswith(_TAG_PREFIX) else tag


def _not_a(text: str, what: str) -> ScalarError:
    return ScalarError(f"`{shorten(text)}` looks like {what} but is not one: correct it or put it in quotes")


def shorten(text: str) -> str:
    """A text for use in a message of one line."""
    text = text if text.isprintable() else ascii(text)[1:-1]
    return text if len(text) <= 40 else text[:37] + "..."
