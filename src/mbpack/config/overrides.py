"""KEY=VALUE arguments, read as upstream reads them: with Hydra's override grammar.

`parse_hydra_overrides` (all releases, `training/utils/omegaconf_utils.py`) parses the whole list first and then applies
it to the merged tree in order. Any argument that cannot be parsed or applied refuses the run. What a plain key may
change (struct mode: existing keys only, `+` adds, `++` does either, `~` deletes) depends on the recipe and is judged
by the rules; this module says what each argument asks for.

The usual arguments (a dotted key and one word) are parsed here, the others by Hydra, whose import costs a third of a
second. Both give the same; the property tests compare them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from msgspec import Struct

from mbpack.facts.patterns import lazy

from .composer import MAX_DEPTH
from .document import Document
from .interpolation_grammar import grammar_error, primitive
from .items import Item, Span, without
from .scalars import Interpolation, shorten

MAX_CHARS: Final = 5_000
MAX_BRACKETS: Final = 200
"""Longest argument read: Hydra's grammar needs a second for a few thousand characters."""

_OPERATIONS: Final = {"": "set", "+": "add", "++": "force", "~": "delete"}
_NAME: Final = r"[A-Za-z_][A-Za-z0-9_-]*"
_REFERENCE: Final = rf"\$\{{{_NAME}(?:\.{_NAME})*(?::{_NAME})?\}}"
_USUAL: Final = lazy(
    rf"(?P<sign>\+\+|\+|)(?P<key>{_NAME}(?:\.(?:{_NAME}|0|[1-9][0-9]*))*)="
    rf"(?P<value>|(?:[A-Za-z0-9_./+-]|{_REFERENCE})(?:[A-Za-z0-9_./:+-]|{_REFERENCE})*)"
)
_SIGN: Final = lazy(r"\+\+|\+|~|")


class Override(Struct, frozen=True):
    """One argument.

    op     "set" (``key=v``: the key must exist), "add" (``+key=v``: it must not, unless the value is a list or a
           mapping), "force" (``++key=v``), "delete" (``~key``, or ``~key=v`` if it holds v).
    value  what is written after the ``=``: plain values, with ``${...}`` as Interpolation (``???`` is a text here);
           ``key=`` is an empty string. `given` is False for ``~key``.
    text   the argument; `index` its position in the list; `column` (from 1) where the value starts in it.
    """

    op: str
    key: tuple[str, ...]
    value: Any
    text: str
    index: int
    column: int
    given: bool = True


class OverrideProblem(Struct, frozen=True):
    """An argument that upstream refuses. `kind`: "syntax", "sweep", "group", "interpolation" or "key"."""

    kind: str
    message: str
    text: str
    index: int
    column: int = 1


def parse_overrides(args: Sequence[str]) -> list[Override | OverrideProblem]:
    """What each argument asks for, in order. Never raises."""
    return [_bounded(_parse(text, index)) for index, text in enumerate(args)]


def _bounded(parsed: Override | OverrideProblem) -> Override | OverrideProblem:
    """An argument, whose key must not nest deeper than a file may."""
    if isinstance(parsed, OverrideProblem) or len(parsed.key) <= MAX_DEPTH:
        return parsed
    message = f"a key of more than {MAX_DEPTH} parts is not read"
    return OverrideProblem("syntax", message, parsed.text, parsed.index)


def _parse(text: str, index: int) -> Override | OverrideProblem:
    usual = _USUAL.fullmatch(text)
    if usual is None:
        return _parse_with_hydra(text, index)
    written = usual["value"]
    value: Any = Interpolation(written) if "$" in written else primitive(written)
    return Override(_OPERATIONS[usual["sign"]], tuple(usual["key"].split(".")), value, text, index, usual.start("value") + 1)


def _parse_with_hydra(text: str, index: int) -> Override | OverrideProblem:
    if len(text) > MAX_CHARS or text.count("[") + text.count("{") > MAX_BRACKETS:
        message = f"an argument of more than {MAX_CHARS} characters or {MAX_BRACKETS} brackets is not read"
        return OverrideProblem("syntax", message, text, index)
    from hydra.core.override_parser.overrides_parser import OverridesParser

    try:
        parsed = OverridesParser.create().parse_overrides([text])[0]
        value = _converted(parsed.value())
    except _BadValue as error:
        return OverrideProblem(error.kind, str(error), text, index, text.find("=") + 2)
    except Exception:  # Hydra lets errors of its grammar, of ANTLR and of its functions through
        return OverrideProblem("syntax", _diagnosis(text), text, index)
    if parsed.package is not None:
        message = f"`{shorten(text)}` names a config group (`@`), which Megatron-Bridge does not have: write KEY=VALUE"
        return OverrideProblem("group", message, text, index)
    sign = _SIGN.match(text)
    operation = _OPERATIONS[sign.group() if sign else ""]
    equals = text.find("=")
    column = equals + 2 if equals >= 0 else len(text) + 1
    key = tuple(parsed.key_or_group.split("."))
    return Override(operation, key, value, text, index, column, parsed.value_type is not None)


class _BadValue(Exception):
    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def _converted(value: Any) -> Any:
    """Hydra's value with interpolations marked."""
    if isinstance(value, dict):
        if None in value:
            raise _BadValue("key", "a mapping cannot have null as a key: write a name before the colon")
        return {key: _converted(child) for key, child in value.items()}
    if isinstance(value, list):
        return [_converted(child) for child in value]
    if isinstance(value, str):
        if "${" not in value:  # `???` too: as an argument it is taken as the text it is
            return value
        reason = grammar_error(value)
        if reason is not None:
            raise _BadValue("interpolation", reason)
        return Interpolation(value)
    if value is None or isinstance(value, (bool, int, float)):
        return value
    message = "several values at once (a sweep) cannot be set in one run: give one, or write a list as key=[1,2]"
    raise _BadValue("sweep", message)


def _diagnosis(text: str) -> str:
    """Why an argument is no override, and how to write it."""
    shown = shorten(text)
    if text.startswith("-"):
        return f"`{shown}` is an option, not KEY=VALUE: it is for the launcher"
    if "=" not in text:
        return f"`{shown}` is not KEY=VALUE: write the value behind an equals sign"
    key, _, value = text.partition("=")
    if not re.fullmatch(rf"(?:\+\+?|~)?{_NAME}(?:\.(?:{_NAME}|[0-9]+))*", key):
        return f"`{shorten(key)}` is not a key: write names joined by dots, without spaces or brackets"
    if re.fullmatch(r"[A-Za-z_]\w*\(.*\)", value):
        return f"`{shorten(value)}` is read as a function call that fails: put the value in quotes inside the argument"
    return f"`{shorten(value)}` cannot be read as a value: put it in quotes inside the argument, '{shorten(key)}=\"...\"'"


def as_document(parsed: Iterable[Override | OverrideProblem], path: str | None = None) -> Document:
    """The arguments as one configuration: each argument is a line of its text, later ones win.

    Mappings merge, lists replace, as upstream's `OmegaConf.update(merge=True)` does. A deletion takes back what the arguments
    before it set; it is named in `Document.deleted`, as is a mapping over a value that an argument set. Arguments with a problem
    are left out.
    """
    overrides = list(parsed)
    starts: list[int] = []
    at = 0
    for override in overrides:
        starts.append(at)
        at += len(override.text) + 1
    text = "\n".join(override.text for override in overrides)
    root = Item({}, Span(1, 1, 1, 1, 0, 0))
    deleted: list[tuple[str, ...]] = []
    for number, (start, override) in enumerate(zip(starts, overrides, strict=True), start=1):
        if not isinstance(override, Override):
            continue
        if override.op == "delete":
            root = without(root, override.key)
            deleted.append(override.key)
        else:
            _place(root, override, number, start, deleted)
    return Document(path, text, root, deleted=tuple(deleted))


def whole(document: Document, override: Override) -> Item | None:
    """An argument as an item of the document that :func:`as_document` made of it; one that deletes has no other place."""
    lines, line, length = document.text.split("\n"), override.index, len(override.text)
    if line >= len(lines) or lines[line] != override.text:
        return None  # a script
    start = sum(len(text) + 1 for text in lines[:line])
    span = Span(line + 1, 1, line + 1, length + 1, start, start + length)
    return Item(_items(override.value, span), span)


def _place(root: Item, override: Override, line: int, start: int, lost: list[tuple[str, ...]]) -> None:
    """Write an argument into the mapping; ``lost`` takes the keys at which a mapping replaces what an argument before set."""

    def span(first: int, last: int) -> Span:
        return Span(line, first + 1, line, last + 1, start + first, start + last)

    first = override.text.find("=") + 1
    keys = list(_key_spans(override, span))
    item = root
    for depth, (name, key) in enumerate(zip(override.key[:-1], keys, strict=False), start=1):
        child = item.value.get(name)
        if child is None or not isinstance(child.value, dict):
            if child is not None:
                lost.append(override.key[:depth])
            child = Item({}, span(0, len(override.text)), key)
            item.value[name] = child
        item = child
    written = Item(_items(override.value, span(first, len(override.text))), span(first, len(override.text)), keys[-1])
    written.quoted = isinstance(override.value, str) and override.text[first : first + 1] in {"'", '"'}
    old = item.value.get(override.key[-1])
    if old is not None and isinstance(old.value, dict) and isinstance(written.value, dict):
        _merge(old, written, override.key, lost)
    else:
        if old is not None and isinstance(written.value, dict):
            lost.append(override.key)
        item.value[override.key[-1]] = written


def _key_spans(override: Override, span: Any) -> Iterator[Span]:
    sign = _SIGN.match(override.text)
    at = sign.end() if sign else 0
    for name in override.key:
        yield span(at, at + len(name))
        at += len(name) + 1


def _items(value: Any, span: Span) -> Any:
    if isinstance(value, dict):
        return {key: Item(_items(child, span), span, span, flow=True) for key, child in value.items()}
    if isinstance(value, list):
        return [Item(_items(child, span), span, flow=True) for child in value]
    return value


def _merge(old: Item, new: Item, path: tuple[str, ...], lost: list[tuple[str, ...]]) -> None:
    for key, child in new.value.items():
        before = old.value.get(key)
        if before is not None and isinstance(before.value, dict) and isinstance(child.value, dict):
            _merge(before, child, (*path, str(key)), lost)
        else:
            if before is not None and isinstance(child.value, dict):
                lost.append((*path, str(key)))
            old.value[key] = child
