"""A command line as argparse reads it, as far as words are known."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from msgspec import Struct, field

from mbpack.config.python.values import Known, Unknown, Value


def options_of(node: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, ast.expr]:
    """The defaults that click's decorators and typer's markers give the parameters of a function, as they are written."""
    found: dict[str, ast.expr] = {}
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func).rpartition(".")[2] == "option":
            flags = [word.value for word in decorator.args if isinstance(word, ast.Constant) and isinstance(word.value, str)]
            long = next((flag for flag in flags if flag.startswith("--")), "")
            name = next((flag for flag in flags if not flag.startswith("-")), long.partition("/")[0][2:].replace("-", "_"))
            named = {keyword.arg: keyword.value for keyword in decorator.keywords}
            if "default" in named or "is_flag" in named:
                found[name] = named.get("default", ast.Constant(False, lineno=decorator.lineno, col_offset=0))
    spec = node.args
    positional = [*spec.posonlyargs, *spec.args]
    held = [*zip(positional[len(positional) - len(spec.defaults) :], spec.defaults, strict=True)]
    held += [(name, default) for name, default in zip(spec.kwonlyargs, spec.kw_defaults, strict=True) if default is not None]
    for parameter, default in held:
        if isinstance(default, ast.Call) and ast.unparse(default.func).rpartition(".")[2] in ("Option", "Argument"):
            named = {keyword.arg: keyword.value for keyword in default.keywords}
            given = default.args[0] if default.args else named.get("default")
            if given is not None and not (isinstance(given, ast.Constant) and given.value is Ellipsis):
                found[parameter.arg] = given
    return found


class Option(Struct, frozen=True):
    """An option or positional argument of a program's parser."""

    name: str
    flags: tuple[str, ...]
    action: str
    kind: Value | None
    many: Value | None
    constant: Value
    default: Value
    required: bool

    @property
    def positional(self) -> bool:
        """Whether it has no flag."""
        return not self.flags[0].startswith("-")

    @property
    def takes(self) -> int | str | None:
        """How many words it takes: a number, "+", "*" or "?"; None where that is not known."""
        if self.action in ("store_true", "store_false", "store_const", "count", "help", "version", "BooleanOptionalAction"):
            return 0
        if self.action not in ("", "store", "append", "extend"):
            return None
        if self.many is None:
            return 1
        return self.many.value if isinstance(self.many, Known) and isinstance(self.many.value, (int, str)) else None


class Parsed(Struct):
    """What a command line gives: words (or a value) by the name of their option, and the words that belong to none.

    ``lost``: a word that is not known stands where an option could be, so that nothing is certain.
    """

    values: dict[str, Value | str | list[str | None] | None] = field(default_factory=dict)
    rest: list[str | None] = field(default_factory=list)
    lost: bool = False


def parse(options: Sequence[Option], words: Sequence[str | None]) -> Parsed:
    """Read a command line."""
    parsed = Parsed()
    positional = [option for option in options if option.positional]
    index = 0
    while index < len(words):
        word = words[index]
        index += 1
        if word is None:
            parsed.lost = True
            return parsed
        if not word.startswith("-") or word == "-" or _is_number(word):
            if positional and positional[0].takes == 1:
                parsed.values[positional.pop(0).name] = word
            elif positional:
                parsed.lost = True
                return parsed
            else:
                parsed.rest.append(word)
            continue
        flag, equals, value = word.partition("=")
        option, negated = _named(options, flag)
        if option is None and word[1:2] != "-" and (option := _named(options, word[:2])[0]) is not None:  # -k7
            if option.takes != 1:
                parsed.lost = True
                return parsed
            equals, value = "=", word[2:]
        if word == "--":
            parsed.lost = True
            return parsed
        if option is None:
            parsed.rest.append(word)
            continue
        taken: list[str | None] | None = [value]
        if not equals:
            taken, index = _words(option, words, index)
        if taken is None:
            parsed.lost = True
            return parsed
        _store(parsed, option, taken, negated)
    return parsed


def _store(parsed: Parsed, option: Option, taken: list[str | None], negated: bool) -> None:
    constants = {"store_true": Known(True), "store_false": Known(False), "store_const": option.constant}
    if option.action in constants:
        parsed.values[option.name] = constants[option.action]
    elif option.action == "BooleanOptionalAction":
        parsed.values[option.name] = Known(not negated)
    elif option.action in ("append", "extend"):
        held = parsed.values.get(option.name)
        parsed.values[option.name] = [*(held if isinstance(held, list) else []), *taken]
    elif option.takes == 1 or (option.takes == "?" and taken):
        parsed.values[option.name] = taken[0] if taken[0] is not None else Unknown(f"{option.flags[0]} is given")
    elif option.takes == "?":
        parsed.values[option.name] = option.constant
    elif option.takes == 0:
        parsed.values[option.name] = Unknown(f"{option.flags[0]} is given")
    else:
        parsed.values[option.name] = taken


def _named(options: Sequence[Option], flag: str) -> tuple[Option | None, bool]:
    """The option of a flag, written out or shortened; and whether it is the negative form."""
    for option in options:
        if flag in option.flags:
            return option, False
        if option.action == "BooleanOptionalAction" and flag in [f"--no-{name[2:]}" for name in option.flags]:
            return option, True
    near = [option for option in options if flag.startswith("--") and any(name.startswith(flag) for name in option.flags)]
    return (near[0], False) if len(near) == 1 else (None, False)


def _words(option: Option, words: Sequence[str | None], index: int) -> tuple[list[str | None] | None, int]:
    """The words that an option takes from a position on, and where the next one stands; None where that is not known."""
    takes = option.takes
    if takes is None:
        return None, index
    if isinstance(takes, int):
        return (list(words[index : index + takes]), index + takes) if index + takes <= len(words) else (None, index)
    found: list[str | None] = []
    while index < len(words) and not (takes == "?" and found):
        word = words[index]
        if word is None:
            return None, index
        if word.startswith("-") and not _is_number(word):
            break
        found.append(word)
        index += 1
    return found, index


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
