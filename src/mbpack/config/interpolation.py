"""What ``${...}`` in a value stands for, as OmegaConf resolves it with the resolvers it has by itself.

What a reference means is decided on the merged tree (recipe, files, overrides), as upstream's
`OmegaConf.to_container(resolve=True)` does in `process_config_with_overrides`. Upstream registers no resolver of its own in
any release; one that a program around it registers is not known here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from msgspec import Struct

from .interpolation_grammar import (
    MAX_NESTING,
    MAX_ODD_CHARS,
    SPLIT,
    WORD,
    Quoted,
    Reference,
    grammar_error,
    is_usual,
    parse_text,
    primitive,
)
from .scalars import MISSING, Interpolation, Missing, shorten

Get = Callable[[str], Any]

#: What the readers of scripts and programs call in the place of a value that they cannot tell.
READERS = frozenset({"shell", "python"})
#: Kinds for which the start-up is certainly refused.
REFUSED = frozenset({"missing-reference", "missing-value", "missing-variable", "syntax", "resolver", "circle", "argument"})


class Resolved(Struct, frozen=True):
    """What a text with interpolations stands for.

    kind    "value": `value` is it (`likely`: unless an environment variable of `variables` says otherwise);
            "missing-reference": it refers to a key that nobody has (upstream: InterpolationKeyError);
            "missing-value": it refers to ``???`` (upstream: InterpolationToMissingValueError);
            "missing-variable": it needs an environment variable that is not set and gives no default;
            "resolver": it calls a resolver that OmegaConf does not have (upstream: UnsupportedInterpolationType);
            "circle": it refers to itself, or to what holds it (upstream: InterpolationResolutionError);
            "argument": a resolver fails on what it is given (upstream: InterpolationResolutionError);
            "syntax": OmegaConf's grammar refuses it;
            "unknown": it cannot be told here.
    reason  why it is not a value, in one line.
    needs   what would have to be known: "environment", or nothing that a flag could supply.
    text    it is not known, and it is text in any case: an environment variable always is.
    """

    kind: str
    value: Any = None
    variables: tuple[str, ...] = ()
    reason: str = ""
    needs: tuple[str, ...] = ()
    text: bool = False

    @property
    def likely(self) -> bool:
        """Whether it is the default of an environment variable that is not known here."""
        return bool(self.variables)

    @property
    def unknown(self) -> bool:
        return self.kind != "value"

    @property
    def refused(self) -> bool:
        """Whether the tree cannot be resolved because of it."""
        return self.kind in REFUSED


class _Stop(Exception):
    def __init__(self, kind: str, reason: str, needs: tuple[str, ...] = (), text: bool = False) -> None:
        super().__init__(reason)
        self.resolved = Resolved(kind, reason=reason, needs=needs, text=text)


def resolve_interpolation(
    text: str, at: str, get: Get, environ: Mapping[str, str] | None, doubted: Collection[str] = ()
) -> Resolved:
    """What a text with ``${...}`` stands for when it is the value of the key `at` (a dotted path).

    `get` gives the value at a dotted path of the merged tree as written there: interpolations as Interpolation, ``???``
    as MISSING. It raises KeyError for a key that nobody has; anything else it raises passes through. `environ` is None
    where the environment of the run is not known: the default of ``${oc.env:X,default}`` is then the likely value, but for
    variables that are `doubted`.

    A text that is one reference takes the value and type of its target; a text around references gives a string.
    """
    return _Resolver(get, environ, doubted).resolve(text, at)


class _Resolver:
    def __init__(self, get: Get, environ: Mapping[str, str] | None, doubted: Collection[str]) -> None:
        self.get = get
        self.environ = environ
        self.doubted = doubted
        self.variables: list[str] = []
        self.open: list[str] = []

    def resolve(self, text: str, at: str) -> Resolved:
        try:
            value = self._text(text, at)
        except _Stop as stop:
            return stop.resolved
        return Resolved("value", value, tuple(self.variables))

    def _text(self, text: str, at: str) -> Any:
        if at in self.open:
            raise _Stop("circle", f"`{shorten(text)}` refers to itself in a circle: {' -> '.join([*self.open, at])}")
        if len(self.open) >= MAX_NESTING:
            raise _Stop("unknown", f"`{shorten(text)}` lies at the end of a chain of more than {MAX_NESTING} references")
        parts = parse_text(text)
        self.open.append(at)
        value = self._odd(text, at) if parts is None else self._parts(parts, at)
        self.open.pop()
        return value

    def _parts(self, parts: list[Any], at: str) -> Any:
        if len(parts) == 1:
            return parts[0] if isinstance(parts[0], str) else self._part(parts[0], at)
        unknown: _Stop | None = None
        values: list[Any] = []
        for part in parts:
            try:
                values.append(part if isinstance(part, str) else self._part(part, at))
            except _Stop as stop:
                if stop.resolved.refused:
                    raise
                unknown = unknown or stop
        if unknown is not None:
            found = unknown.resolved
            raise _Stop("unknown", found.reason, found.needs, text=True)
        if any(isinstance(value, (dict, list)) and "${" in str(value) for value in values):
            raise _Stop("unknown", "a mapping or list with expressions inside a text cannot be told here", text=True)
        for value in values:
            if not isinstance(value, (str, int, float, bytes, type(None), dict, list)):
                raise _Stop("unknown", "a mapping or list inside a text cannot be told here", text=True)
        return "".join(map(str, values))

    def _part(self, part: Any, at: str) -> Any:
        if isinstance(part, Reference):
            return self._reference(part.dots, ".".join(part.keys), at)
        return self._call(part.name, [self._argument(argument, at) for argument in part.arguments], at)

    def _argument(self, argument: Any, at: str) -> Any:
        if isinstance(argument, Quoted):
            return argument.text
        if len(argument) == 1 and isinstance(argument[0], str):
            return primitive(argument[0])
        try:
            return self._parts(argument, at)
        except _Stop as stop:
            found = stop.resolved
            raise _Stop(found.kind, found.reason, found.needs) from None  # what the resolver makes of it need not be text

    def _reference(self, dots: int, path: str, at: str, whole: bool = True) -> Any:
        """The value at a path; one leading dot means beside the value at `at`, each further one a level up.

        `whole`: what a mapping or a list holds is resolved too.
        """
        if dots:
            owner = at.split(".")
            if dots > len(owner):
                raise _Stop("missing-reference", f"`{'.' * dots}{path}` leads above the top of the configuration")
            path = ".".join([*owner[: len(owner) - dots], path])
        for inside in (at, *self.open):
            if inside == path or (whole and inside.startswith(path + ".")):
                raise _Stop("circle", f"`{path}` refers to itself in a circle: it holds `{inside}`")
        value = self._held(path)
        if isinstance(value, Missing) or value == "???":  # the text, where an argument set it
            raise _Stop("missing-value", f"it refers to `{path}`, which is `???` (not given)")
        if isinstance(value, Interpolation):
            return self._text(value, path)
        return self._inside(value, path) if whole else value

    def _held(self, path: str) -> Any:
        """What the tree holds at a path, through mappings and lists that expressions stand for."""
        try:
            return self.get(path)
        except KeyError:
            owner, _, name = path.rpartition(".")
        while owner:
            try:
                value = self.get(owner)
            except KeyError:
                owner, _, more = owner.rpartition(".")
                name = f"{more}.{name}"
                continue
            if isinstance(value, Interpolation):
                found = _below(self._text(value, owner), name)
                if found is not None:
                    return found
            break
        raise _Stop("missing-reference", f"it refers to `{path}`, which does not exist")

    def _inside(self, value: Any, path: str) -> Any:
        """A mapping or list of the tree with its own expressions resolved."""
        if isinstance(value, dict):
            return {name: self._entry(child, f"{path}.{name}") for name, child in value.items()}
        if isinstance(value, list):
            return [self._entry(child, f"{path}.{index}") for index, child in enumerate(value)]
        return value

    def _entry(self, child: Any, path: str) -> Any:
        if isinstance(child, str) and "${" in child:
            return self._text(child, path)
        return self._inside(child, path)

    def _call(self, name: str, arguments: list[Any], at: str) -> Any:
        known = _RESOLVERS.get(name)
        if name in READERS:
            raise _Stop("unknown", "its value is decided where the program runs")
        if known is None:
            reason = f"`{shorten(name)}` is no resolver of OmegaConf's, and Megatron-Bridge registers none"
            raise _Stop("resolver", reason)
        fewest, most, resolver = known
        if not fewest <= len(arguments) <= most:
            wanted = f"{fewest} or {most} arguments" if most > fewest else f"{fewest} argument"
            raise _Stop("argument", f"`{name}` takes {wanted}, not {len(arguments)}")
        return resolver(self, name, arguments, at)

    def _env(self, name: str, arguments: list[Any], at: str) -> str | None:
        variable = self._key(name, arguments)
        if self.environ is not None and variable in self.environ:
            return self.environ[variable]
        if len(arguments) == 1:
            if self.environ is None:
                raise _Stop("unknown", f"it takes the environment variable {variable}", ("environment",), text=True)
            raise _Stop("missing-variable", f"the environment variable {variable} is not set and there is no default")
        if self.environ is None:
            if arguments[1] in (None, ""):  # it is there to be set
                raise _Stop("unknown", f"it takes the environment variable {variable}", ("environment",))
            if variable in self.doubted:
                raise _Stop("unknown", f"it takes the environment variable {variable}", ("environment",), text=True)
            self.variables.append(variable)
        return None if arguments[1] is None else str(arguments[1])

    def _select(self, name: str, arguments: list[Any], at: str) -> Any:
        try:
            return self._key_of_tree(name, arguments, at)
        except _Stop as stop:
            if stop.resolved.kind in {"missing-reference", "missing-value"}:
                return arguments[1] if len(arguments) > 1 else None
            raise

    def _deprecated(self, name: str, arguments: list[Any], at: str) -> Any:
        if len(arguments) > 1 and not isinstance(arguments[1], str):
            raise _Stop("argument", f"`{name}` takes a text to say, not `{shorten(str(arguments[1]))}`")
        return self._key_of_tree(name, arguments, at)

    def _keys(self, name: str, arguments: list[Any], at: str) -> list[Any]:
        held = self._key_of_tree(name, arguments, at, name.endswith("values"))
        if not isinstance(held, dict):
            if isinstance(held, (str, int, float, list, type(None))):
                raise _Stop("argument", f"`{name}` takes the path of a mapping, which `{shorten(str(arguments[0]))}` is not")
            return []  # of what the recipe holds; which keys they are matters to nobody
        return list(held if name.endswith("keys") else held.values())

    def _key_of_tree(self, name: str, arguments: list[Any], at: str, whole: bool = True) -> Any:
        path = self._key(name, arguments)
        dots = len(path) - len(path.lstrip("."))
        return self._reference(dots, ".".join(key for key in re.split(SPLIT, path) if key), at, whole)

    def _create(self, name: str, arguments: list[Any], at: str) -> Any:
        made = arguments[0]
        if made is None or isinstance(made, (dict, list)):
            return made
        if not isinstance(made, str):
            raise _Stop("argument", f"`{name}` makes a list or a mapping, not one of `{shorten(str(made))}`")
        raise _Stop("unknown", f"`{name}` of a text cannot be told here")

    def _decode(self, name: str, arguments: list[Any], at: str) -> Any:
        """``oc.decode``: a string read as a value of OmegaConf's grammar."""
        text = arguments[0]
        if text is None:
            return None
        if not isinstance(text, str):
            raise _Stop("argument", f"`{name}` reads text, not `{shorten(str(text))}`")
        if re.fullmatch(WORD, text):
            return primitive(text)
        return self._visited(text, at, {"parser_rule": "singleElement", "lexer_mode": "VALUE_MODE"}, "argument")

    @staticmethod
    def _key(name: str, arguments: list[Any]) -> str:
        if not isinstance(arguments[0], str):
            raise _Stop("argument", f"`{name}` takes a name, not `{shorten(str(arguments[0]))}`")
        return arguments[0]

    def _odd(self, text: str, at: str) -> Any:
        """A rare writing, through OmegaConf's grammar."""
        return self._visited(text, at, {}, "syntax")

    def _visited(self, text: str, at: str, rule: dict[str, str], kind: str) -> Any:
        if len(text) > MAX_ODD_CHARS:
            raise _Stop("unknown", "the text is too long to be resolved here")
        from omegaconf.errors import OmegaConfBaseException
        from omegaconf.grammar_parser import parse
        from omegaconf.grammar_visitor import GrammarVisitor

        def reference(path: str, memo: Any) -> Any:
            plain = ".".join(key for key in re.split(SPLIT, path) if key)
            return self._reference(len(path) - len(path.lstrip(".")), plain, at)

        def call(name: str, args: tuple[Any, ...], args_str: tuple[str, ...]) -> Any:
            return self._call(name, list(args), at)

        visitor = GrammarVisitor(reference, call, None)
        try:
            return visitor.visit(parse(text, **rule))
        except (OmegaConfBaseException, RecursionError):
            raise _Stop(kind, grammar_error(text) or "it cannot be resolved") from None


def _below(value: Any, path: str) -> Any:
    """What lies at a path inside a plain value; None where nothing does."""
    for name in path.split("."):
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        else:
            return None
    return value


_RESOLVERS: dict[str, tuple[int, int, Callable[[_Resolver, str, list[Any], str], Any]]] = {
    "oc.env": (1, 2, _Resolver._env),
    "oc.select": (1, 2, _Resolver._select),
    "oc.decode": (1, 1, _Resolver._decode),
    "oc.create": (1, 1, _Resolver._create),
    "oc.deprecated": (1, 2, _Resolver._deprecated),
    "oc.dict.keys": (1, 1, _Resolver._keys),
    "oc.dict.values": (1, 1, _Resolver._keys),
}

__all__ = ["MISSING", "REFUSED", "Resolved", "grammar_error", "is_usual", "primitive", "resolve_interpolation"]
