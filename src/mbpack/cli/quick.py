"""Reads a well-formed call without typer, whose import takes longer than checking a file.

The options are those that a command declares for typer: here the declarations are read by a stand-in. Whatever is not plainly
well-formed (help, an unknown or shortened option, a value that is none) is left to typer, which says what is wrong.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any


def arguments_of(function: Callable[..., Any], words: Sequence[str]) -> dict[str, Any] | None:
    """The arguments of a command from the words after its name; None where typer must read them."""
    options, rest = _declared(function)
    found: dict[str, Any] = {}
    plain: list[str] = []
    waiting = iter(words)
    for word in waiting:
        if not word.startswith("-") or word == "-":
            plain.append(word)
            continue
        name, equals, text = word.partition("=")
        if name not in options:
            return None
        parameter, kind, value = options[name]
        if kind is bool:
            if equals:
                return None
            found[parameter] = value
            continue
        if not equals:
            text = next(waiting, "-")
        if text.startswith("-") and not equals:
            return None
        if kind is int:
            if not (text.isascii() and text.isdigit() and len(text) < 20):
                return None
            found[parameter] = int(text)
        else:
            found[parameter] = text
    if plain:
        if rest is None:
            return None
        found[rest] = plain
    return found


def _declared(function: Callable[..., Any]) -> tuple[dict[str, tuple[str, type, bool]], str | None]:
    """Option -> (parameter, kind, value of a flag), and the parameter that takes all other words."""
    names = {**vars(sys.modules[function.__module__]), "typer": SimpleNamespace(Option=_option, Argument=_argument)}
    options: dict[str, tuple[str, type, bool]] = {}
    rest = None
    for parameter, written in function.__annotations__.items():
        if parameter == "return":
            continue
        declared = eval(written, names)  # our own source, as typer evaluates it
        kind, spelled = declared.__origin__, declared.__metadata__[0]
        if spelled is None:
            rest = parameter
            continue
        for name in spelled or (f"--{parameter.replace('_', '-')}",):
            for at, one in enumerate(name.split("/")):
                options[one] = (parameter, _KINDS[str(kind)], at == 0)
    return options, rest


_KINDS = {"<class 'bool'>": bool, "<class 'int'>": int, "int | None": int, "<class 'str'>": str, "str | None": str}


def _option(*names: str, **_: Any) -> tuple[str, ...]:
    return names


def _argument(**_: Any) -> None:
    return None
