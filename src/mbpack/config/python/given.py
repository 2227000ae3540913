"""Values that come from outside a program: options of the command line and environment variables, and their defaults."""

from __future__ import annotations

import ast
from typing import Any, Final

from mbpack.config.python.calls import Arguments
from mbpack.config.python.commandline import Option, parse
from mbpack.config.python.library import Library
from mbpack.config.python.values import NONE, NOTHING, Cell, Known, Place, Record, Ref, Several, Symbol, Unknown, Value

_ENVIRON: Final = frozenset({"os.environ.get", "os.getenv", "os.environ.setdefault", "os.environ.pop"})
_TYPES: Final = {"builtins.int": int, "builtins.float": float, "builtins.str": str, "builtins.bool": bool}


class Given(Library):
    """Command lines and environments."""

    def default(self, name: str, value: Value) -> Value:
        """A value that somebody may replace from outside: it counts where defaults do, else it is unknown."""
        if not isinstance(value, Known):
            return value if isinstance(value, (Unknown, Symbol)) else Unknown(f"{name} may be given")
        self.used_defaults[name] = repr(value.value)
        return value if self.defaults else Unknown(f"{name} may be given")

    # ------------------------------------------------------------------ environment

    def environment(self, path: str, arguments: Arguments) -> Value | None:
        """``os.environ.get`` and the like; None for other functions."""
        if path not in _ENVIRON:
            return None
        name = arguments.get(0, "key")
        fallback = arguments.get(1, "default")
        if not isinstance(name, Known):
            return Unknown("an environment variable")
        held = self.command.environment.get(str(name.value)) if self.command is not None else None
        if held is not None:
            return Known(held)
        return self.default(f"${name.value}", fallback if fallback is not None else NONE)

    def symbol_item(self, owner: Symbol, key: Value) -> Value:
        """``os.environ["X"]``."""
        if owner.path == "os.environ" and isinstance(key, Known):
            if self.command is not None and key.value in self.command.environment:
                return Known(self.command.environment[key.value])
            return Unknown(f"the environment variable {key.value}")
        return Symbol(owner.path) if owner.path.startswith("typing") else NOTHING

    # ------------------------------------------------------------------ argparse

    def parser(self, node: ast.AST) -> Ref:
        """``argparse.ArgumentParser()``."""
        return self.new(Record("parser"))

    def parser_method(self, owner: Ref, record: Record, name: str, arguments: Arguments) -> Value:
        """A method of a parser of arguments."""
        if name == "add_argument":
            self._add_argument(record, arguments)
            return NOTHING
        if name in ("add_argument_group", "add_mutually_exclusive_group"):
            return owner
        if name == "set_defaults":
            for key, cell in arguments.named.items():
                record.fields[key] = Cell(self.default(f"--{key}", cell.value), cell.place)
            record.opaque = record.opaque or ("set_defaults" if arguments.more else "")
            return NONE
        if name in ("parse_args", "parse_known_args"):
            if self.command is not None and not arguments.all and not record.opaque:
                return self._parsed(owner, record, name == "parse_known_args")
            known = arguments.values and self.items_of(arguments.values[0]) == []
            namespace = self.new(Record("namespace", fields=dict(record.fields), opaque=record.opaque))
            rest = self.make_list([]) if known else NOTHING
            return Several((namespace, rest)) if name == "parse_known_args" else namespace
        if name in ("add_subparsers", "add_parser"):
            record.opaque = "a parser with commands"
            return NOTHING
        return NOTHING

    def _add_argument(self, record: Record, arguments: Arguments) -> None:
        flags: list[str] = []
        for value in arguments.values:
            if not isinstance(value, Known) or not isinstance(value.value, str):
                record.opaque = "an option whose name is not known"
                return
            flags.append(value.value)
        if arguments.more or not flags:
            record.opaque = "an option that is not known"
            return
        long = next((flag for flag in flags if flag.startswith("--")), flags[0])
        dest = arguments.get(-1, "dest")
        name = dest.value if isinstance(dest, Known) else long.lstrip("-").replace("-", "_")
        self._describe(record, str(name), flags, arguments)
        node = arguments.named["default"].place.node if "default" in arguments.named else None
        record.fields[str(name)] = Cell(self._option(long, arguments), Place(node, self.tick()))

    def _option(self, flag: str, arguments: Arguments) -> Value:
        required = arguments.get(-1, "required")
        if not flag.startswith("-") or (required is not None and self.truth(required) is not False):
            return Unknown(f"{flag} must be given")
        action = arguments.get(-1, "action")
        kind = action.value if isinstance(action, Known) else None
        default = arguments.get(-1, "default")
        if default is None:
            default = {"store_true": Known(False), "store_false": Known(True)}.get(kind or "", NONE)
        if isinstance(default, Ref):
            return Unknown(f"{flag} may be given")
        return self.default(flag, self._typed(default, arguments.get(-1, "type")))

    @staticmethod
    def _typed(default: Value, kind: Value | None) -> Value:
        """A default that is a text goes through the option's type, as argparse does it."""
        if not isinstance(default, Known) or not isinstance(default.value, str) or kind is None:
            return default
        work: Any = _TYPES.get(kind.path) if isinstance(kind, Symbol) else None
        if work is None:
            return NOTHING
        try:
            return Known(work(default.value))
        except ValueError:
            return NOTHING

    # ------------------------------------------------------------------ a command that is known

    def _describe(self, record: Record, name: str, flags: list[str], arguments: Arguments) -> None:
        """Keep what an option takes, for a command line that is known."""
        named = {key: cell.value for key, cell in arguments.named.items()}
        default = named.get("default")
        action = named.get("action")
        if isinstance(action, Symbol):
            kind = action.name
        else:
            kind = str(action.value) if isinstance(action, Known) else "" if action is None else "?"
        if default is None:
            default = {"store_true": Known(False), "store_false": Known(True)}.get(kind, NONE)
        required = named.get("required")
        option = Option(
            name=name,
            flags=tuple(flags),
            action=kind,
            kind=named.get("type"),
            many=named.get("nargs"),
            constant=named.get("const", NONE),
            default=NOTHING if isinstance(default, Ref) else self._typed(default, named.get("type")),
            required=required is not None and self.truth(required) is not False,
        )
        self.options.setdefault(record.time, []).append(option)

    def _parsed(self, owner: Ref, record: Record, rest: bool) -> Value:
        """The arguments of the command that starts the program, as argparse reads them."""
        assert self.command is not None
        parsed = parse(self.options.get(record.time, []), self.command.arguments)
        place = Place(None, self.tick())
        fields: dict[Any, Cell] = {}
        for option in self.options.get(record.time, []):
            value = parsed.values.get(option.name)
            if parsed.lost or (value is None and option.required):
                value = Unknown(f"{option.flags[0]} is not known")
            elif value is None:
                value = option.default
            elif isinstance(value, list):
                value = self.make_list([self._converted(option, word) for word in value])
            elif isinstance(value, str):
                value = self._converted(option, value)
            fields[option.name] = Cell(value, place)
        fields = {**{name: cell for name, cell in record.fields.items() if name not in fields}, **fields}
        namespace = self.new(Record("namespace", fields=fields, opaque=record.opaque))
        if not rest:
            return namespace
        words = None if parsed.lost or None in parsed.rest else [Known(word) for word in parsed.rest]
        return Several((namespace, self.make_list(words) if words is not None else NOTHING))

    def _converted(self, option: Option, word: str | None) -> Value:
        return NOTHING if word is None else self._typed(Known(word), option.kind)


__all__ = ["Given"]
