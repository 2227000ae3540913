"""How values are written: as YAML words and blocks that OmegaConf reads back as the same values, and as KEY=VALUE."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mbpack.config.scalars import Interpolation, ScalarError, resolve
from mbpack.facts.patterns import lazy

#: Words that need no quotes whatever stands around them, also inside brackets.
_PLAIN = lazy(r"[A-Za-z0-9_./+-][A-Za-z0-9_./+@-]*(?:[ :][A-Za-z0-9_./+@-]+)*\Z")
_KEY = lazy(r"[A-Za-z_][A-Za-z0-9_.-]*\Z")
_HYDRA_PLAIN = lazy(r"[A-Za-z0-9_./+-][A-Za-z0-9_./:+-]*\Z")


class Raw(str):
    """A value in the words it already has in the file: written as it stands."""

    __slots__ = ()


def word(value: Any, quote: str = "") -> str:
    """A value on one line, mappings and lists in brackets. ``quote`` is the sign that texts are put in, if any.

    Raises:
        TypeError: YAML has no word for such a value.
    """
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key_word(key)}: {word(child)}" for key, child in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(word(child) for child in value) + "]"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, str):
        return _text(value, quote)
    raise TypeError(f"{type(value).__name__} has no YAML word")


def key_word(key: Any) -> str:
    """A mapping key."""
    return key if isinstance(key, str) and _KEY.match(key) and _stays_text(key) else word(key)


def block(value: Mapping[str, Any], indent: str, step: str) -> Iterator[str]:
    """The lines of a mapping in block style, without line ends."""
    for key, child in value.items():
        if isinstance(child, Mapping) and child:
            yield f"{indent}{key_word(key)}:"
            yield from block(child, indent + step, step)
        else:
            yield f"{indent}{key_word(key)}: {word(child)}"


def override_word(value: Any) -> str:
    """A value behind the equals sign of a KEY=VALUE argument, in Hydra's grammar."""
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{override_word(child)}" for key, child in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(override_word(child) for child in value) + "]"
    if not isinstance(value, str) or isinstance(value, (Raw, Interpolation)):
        return word(value)
    from mbpack.config.interpolation_grammar import primitive

    if _HYDRA_PLAIN.match(value) and primitive(value) == value:
        return value
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _float(value: float) -> str:
    if value != value:
        return ".nan"
    if value in (float("inf"), float("-inf")):
        return ".inf" if value > 0 else "-.inf"
    return repr(value)


def _text(value: str, quote: str) -> str:
    if quote == "'" and "\n" not in value and value.isprintable():
        return "'" + value.replace("'", "''") + "'"
    if not quote and _PLAIN.match(value) and ": " not in value and _stays_text(value):
        return value
    import json  # most runs quote nothing

    return json.dumps(value, ensure_ascii=False)


def _stays_text(value: str) -> bool:
    """Whether an unquoted word is read as this text."""
    try:
        return isinstance(resolve(value), str) and value not in ("-", "?", ":", "---", "...") and not value.startswith("- ")
    except ScalarError:
        return False
