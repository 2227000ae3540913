"""``${...}`` in values: whether OmegaConf accepts the writing, and what it stands for.

The usual writings are parsed here. Rare ones (backslashes, lists and mappings as arguments) are left to OmegaConf's own
grammar, whose import costs a tenth of a second.

What a reference means is decided on the merged tree (recipe, files, overrides), as upstream's
`OmegaConf.to_container(resolve=True)` does in `process_config_with_overrides`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from msgspec import Struct

from .scalars import MISSING, Interpolation, Missing, shorten

MAX_NESTING: Final = 20
"""Deepest nesting of ``${...}`` inside ``${...}``, and longest chain of references, that is followed."""

MAX_ODD_CHARS: Final = 2000
"""Longest text handed to OmegaConf's grammar, which needs about a millisecond for a hundred characters."""

Get = Callable[[str], Any]


class Resolved(Struct, frozen=True):
    """What a text with interpolations stands for.

    kind    "value": `value` is it (`likely`: unless an environment variable that is not known here says otherwise);
            "missing-reference": it refers to a key that nobody has (upstream: InterpolationKeyError);
            "missing-value": it refers to ``???`` (upstream: InterpolationToMissingValueError);
            "missing-variable": it needs an environment variable that is not set and gives no default;
            "syntax": OmegaConf's grammar refuses it;
            "unknown": it cannot be told here.
    reason  why it is not a value, in one line.
    needs   what would have to be known: "environment", or nothing that a flag could supply.
    """

    kind: str
    value: Any = None
    likely: bool = False
    reason: str = ""
    needs: tuple[str, ...] = ()

    @property
    def unknown(self) -> bool:
        return self.kind != "value"


class _Stop(Exception):
    def __init__(self, kind: str, reason: str, needs: tuple[str, ...] = ()) -> None:
        super().__init__(reason)
        self.resolved = Resolved(kind, reason=reason, needs=needs)


class _Reference(NamedTuple):
    """``${a.b}``: `dots` leading dots, then keys."""

    dots: int
    keys: tuple[str, ...]


class _Call(NamedTuple):
    """``${name:arg,...}``; each argument is a quoted text or the parts of an unquoted one."""

    name: str
    arguments: tuple[Any, ...]


class _Quoted(NamedTuple):
    text: str


# Patterns are text and compiled when first used (`re` keeps them): most files hold no interpolation.
_LITERAL: Final = r"(?:[^$]|\$(?!\{))+"
_OPEN: Final = r"\$\{[ \t]*"
_KEY: Final = r"[A-Za-z0-9_-]+"
_PATH: Final = rf"(\.*)({_KEY}|\[{_KEY}\])((?:\.{_KEY}|\[{_KEY}\])*)[ \t]*\}}"
_NAME: Final = r"([A-Za-z_][A-Za-z0-9_-]*(?:\.[A-Za-z_][A-Za-z0-9_-]*)*)[ \t]*:[ \t]*"
_WORD: Final = r"[A-Za-z0-9_/+.%*@?|:-]+(?:[ \t]+[A-Za-z0-9_/+.%*@?|:-]+)*"
_QUOTED: Final = r"'([^'$\\]*)'|\"([^\"$\\]*)\""
_COMMA: Final = r"[ \t]*,[ \t]*"
_CLOSE: Final = r"[ \t]*\}"
_SPLIT: Final = r"[\[\].]+"

_UNSIGNED: Final = r"(?:0|[1-9](?:_?[0-9])*)"
_POINT: Final = rf"(?:{_UNSIGNED}\.|{_UNSIGNED}?\.[0-9](?:_?[0-9])*)"
_INT: Final = rf"[+-]?{_UNSIGNED}"
_FLOAT: Final = rf"[+-]?(?:(?:{_UNSIGNED}|{_POINT})[eE][+-]?[0-9](?:_?[0-9])*|{_POINT}|[Ii][Nn][Ff]|[Nn][Aa][Nn])"


def _match(pattern: str, text: str, at: int) -> re.Match[str] | None:
    return re.compile(pattern).match(text, at)


def is_usual(text: str) -> bool:
    """Whether a text with ``${`` is written in one of the usual ways, all of which OmegaConf accepts."""
    return _parse(text) is not None


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


def resolve_interpolation(text: str, at: str, get: Get, environ: Mapping[str, str] | None) -> Resolved:
    """What a text with ``${...}`` stands for when it is the value of the key `at` (a dotted path).

    `get` gives the value at a dotted path of the merged tree as written there: interpolations as Interpolation, ``???``
    as MISSING. It raises KeyError for a key that nobody has; anything else it raises passes through. `environ` is None
    where the environment of the run is not known: the default of ``${oc.env:X,default}`` is then the likely value.

    A text that is one reference takes the value and type of its target; a text around references gives a string.
    """
    return _Resolver(get, environ).resolve(text, at)


def _parse(text: str) -> list[Any] | None:
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
        keys = tuple(key for key in re.split(_SPLIT, path[2] + path[3]) if key)
        return _Reference(len(path[1]), keys), path.end()
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
    return _Call(name, tuple(arguments)), closing.end()


def _argument(text: str, at: int, depth: int) -> tuple[Any, int] | None:
    quoted = _match(_QUOTED, text, at)
    if quoted is not None:
        return _Quoted(quoted[1] if quoted[2] is None else quoted[2]), quoted.end()
    parts: list[Any] = []
    while True:
        word = _match(_WORD, text, at)
        if word is not None:
            parts.append(word.group())
            at = word.end()
        found = _interpolation(text, at, depth + 1)
        if found is None:
            return (parts, at) if parts else None
        parts.append(found[0])
        at = found[1]


class _Resolver:
    def __init__(self, get: Get, environ: Mapping[str, str] | None) -> None:
        self.get = get
        self.environ = environ
        self.likely = False
        self.open: list[str] = []

    def resolve(self, text: str, at: str) -> Resolved:
        try:
            value = self._text(text, at)
        except _Stop as stop:
            return stop.resolved
        return Resolved("value", value, self.likely)

    def _text(self, text: str, at: str) -> Any:
        if at in self.open:
            raise _Stop("unknown", f"`{text}` refers to itself in a circle: {' -> '.join([*self.open, at])}")
        if len(self.open) >= MAX_NESTING:
            raise _Stop("unknown", f"`{text}` lies at the end of a chain of more than {MAX_NESTING} references")
        parts = _parse(text)
        self.open.append(at)
        value = self._odd(text, at) if parts is None else self._parts(parts, at)
        self.open.pop()
        return value

    def _parts(self, parts: list[Any], at: str) -> Any:
        values = [part if isinstance(part, str) else self._part(part, at) for part in parts]
        if len(values) == 1:
            return values[0]
        for value in values:
            if not isinstance(value, (str, int, float, bytes, type(None))):
                raise _Stop("unknown", "a mapping or list inside a text cannot be told here")
        return "".join(map(str, values))

    def _part(self, part: Any, at: str) -> Any:
        if isinstance(part, _Reference):
            return self._reference(part.dots, ".".join(part.keys), at)
        return self._call(part.name, [self._value(argument, at) for argument in part.arguments], at)

    def _value(self, argument: Any, at: str) -> Any:
        if isinstance(argument, _Quoted):
            return argument.text
        if len(argument) == 1 and isinstance(argument[0], str):
            return primitive(argument[0])
        return self._parts(argument, at)

    def _reference(self, dots: int, path: str, at: str) -> Any:
        """The value at a path; one leading dot means beside the value at `at`, each further one a level up."""
        if dots:
            owner = at.split(".")
            if dots > len(owner):
                raise _Stop("missing-reference", f"`{'.' * dots}{path}` leads above the top of the configuration")
            path = ".".join([*owner[: len(owner) - dots], path])
        if at == path or at.startswith(path + "."):
            raise _Stop("unknown", f"`{path}` refers to itself in a circle: it holds `{at}`")
        try:
            value = self.get(path)
        except KeyError:
            raise _Stop("missing-reference", f"it refers to `{path}`, which does not exist") from None
        if isinstance(value, Missing) or value == "???":  # the text, where an argument set it
            raise _Stop("missing-value", f"it refers to `{path}`, which is `???` (not given)")
        return self._text(value, path) if isinstance(value, Interpolation) else value

    def _call(self, name: str, arguments: list[Any], at: str) -> Any:
        if name == "oc.env" and 1 <= len(arguments) <= 2:
            return self._env(*arguments)
        if name == "oc.select" and 1 <= len(arguments) <= 2 and isinstance(arguments[0], str):
            return self._select(at, *arguments)
        if name == "oc.decode" and len(arguments) == 1:
            return self._decode(arguments[0], at)
        raise _Stop("unknown", f"what the resolver `{name}` gives is decided where the run starts")

    def _env(self, variable: Any, *default: Any) -> str | None:
        name = str(variable)
        if self.environ is not None and name in self.environ:
            return self.environ[name]
        if not default:
            if self.environ is None:
                raise _Stop("unknown", f"it takes the environment variable {name}", ("environment",))
            raise _Stop("missing-variable", f"the environment variable {name} is not set and there is no default")
        self.likely = self.likely or self.environ is None
        return None if default[0] is None else str(default[0])

    def _select(self, at: str, path: str, *default: Any) -> Any:
        dots = len(path) - len(path.lstrip("."))
        try:
            return self._reference(dots, path[dots:], at)
        except _Stop as stop:
            if stop.resolved.kind in {"missing-reference", "missing-value"}:
                return default[0] if default else None
            raise

    def _decode(self, text: Any, at: str) -> Any:
        """``oc.decode``: a string read as a value of OmegaConf's grammar."""
        if text is None:
            return None
        if not isinstance(text, str) or not re.fullmatch(_WORD, text):
            raise _Stop("unknown", "`oc.decode` of this text cannot be told here")
        return primitive(text)

    def _odd(self, text: str, at: str) -> Any:
        """A rare writing, through OmegaConf's grammar."""
        if len(text) > MAX_ODD_CHARS:
            raise _Stop("unknown", "the text is too long to be resolved here")
        from omegaconf.errors import OmegaConfBaseException
        from omegaconf.grammar_parser import parse
        from omegaconf.grammar_visitor import GrammarVisitor

        def reference(path: str, memo: Any) -> Any:
            plain = ".".join(key for key in re.split(_SPLIT, path) if key)
            return self._reference(len(path) - len(path.lstrip(".")), plain, at)

        def call(name: str, args: tuple[Any, ...], args_str: tuple[str, ...]) -> Any:
            return self._call(name, list(args), at)

        visitor = GrammarVisitor(reference, call, None)
        try:
            return visitor.visit(parse(text))
        except (OmegaConfBaseException, RecursionError):
            raise _Stop("syntax", grammar_error(text) or "it cannot be resolved") from None


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


__all__ = ["MISSING", "Resolved", "grammar_error", "is_usual", "resolve_interpolation"]
