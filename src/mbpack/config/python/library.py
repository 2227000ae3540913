"""What calls of Python's own functions and methods do in a followed program."""

from __future__ import annotations

import ast
import math
import os.path
from collections.abc import Callable, Mapping
from typing import Any, Final

from mbpack.config.python.calls import Arguments
from mbpack.config.python.functional import Functional
from mbpack.config.python.machine import SETTINGS, Ended
from mbpack.config.python.values import NONE, NOTHING, Cell, Known, Record, Ref, Several, Symbol, Unknown, Value, may_be

#: Functions of constants that are worked out, by their dotted names.
PURE: Final[Mapping[str, Callable[..., Any]]] = {
    **{
        f"builtins.{f.__name__}": f
        for f in (int, float, str, bool, max, min, len, round, abs, sum, sorted, tuple, list, any, all)
    },
    **{f"builtins.{f.__name__}": f for f in (set, divmod, repr)},
    **{f"math.{name}": getattr(math, name) for name in ("ceil", "floor", "prod", "lcm", "gcd", "sqrt", "log2", "inf")},
    "os.path.join": os.path.join,
    "os.path.basename": os.path.basename,
    "os.path.dirname": os.path.dirname,
}
_CLASSES: Final = {f"builtins.{kind.__name__}": kind for kind in (int, float, str, bool, bytes, dict, list, tuple, set)}
#: Functions that change nothing they are given, by how their dotted names begin.
_HARMLESS: Final = (
    *("builtins.print", "logging", "warnings.", "torch.distributed.", "torch.cuda.", "torch.manual_seed", "os.makedirs"),
    *("json.dump", "yaml.dump", "pprint", "rich.", "builtins.isinstance", "builtins.issubclass", "builtins.type", "builtins.id"),
    *("builtins.callable", "inspect.", "os.path.", "time.", "random.", "numpy.random", "builtins.repr", "wandb.", "mlflow."),
    *("megatron.bridge.utils.common_utils.", "dataclasses.asdict", "dataclasses.fields", "dataclasses.is_dataclass"),
)
_ENDING: Final = frozenset({"sys.exit", "os._exit", "builtins.exit", "builtins.quit"})
_TEXT: Final = frozenset(
    (
        *(
            "lower",
            "upper",
            "strip",
            "lstrip",
            "rstrip",
            "split",
            "rsplit",
            "replace",
            "startswith",
            "endswith",
            "join",
            "format",
        ),
        *("title", "capitalize", "removeprefix", "removesuffix", "partition", "rpartition", "find", "count", "isdigit"),
        *("splitlines", "casefold", "zfill", "encode", "index"),
    )
)


class Library(Functional):
    """Python's own functions."""

    def python_function(self, path: str, arguments: Arguments, node: ast.Call) -> Value | None:
        """The value of a call of a function of Python's; None where it is another one."""
        if path in _ENDING:
            raise Ended
        if path in ("builtins.setattr", "builtins.delattr"):
            return self._setattr(arguments, node)
        if path == "builtins.getattr":
            return self._getattr(arguments)
        if path == "builtins.hasattr":
            return self._hasattr(arguments)
        if path == "builtins.isinstance" and len(arguments.values) == 2:
            there = self._is_of(arguments.values[0], arguments.values[1])
            return NOTHING if there is None else Known(there)
        if path == "functools.partial":
            return self.partial(arguments)
        if path == "functools.reduce":
            return self.reduce(arguments, node)
        if path == "copy.deepcopy":
            return self._copied(arguments)
        if path == "builtins.super":
            own = self.find("self")
            return Unknown("super()", may_be(own.value) if own is not None else frozenset())
        if path == "builtins.exec":
            return self._executed()
        if path == "copy.copy":
            if any((held := self.record(value)) and held.kind in SETTINGS for value in arguments.all):
                self.escape(arguments.all, "copied by copy.copy(), which shares its parts")
            return Unknown("a copy that shares its parts", frozenset(self.state.reachable(arguments.all)))
        if path == "dataclasses.replace":
            return self._replaced(arguments)
        if path in ("typing.cast",):
            return arguments.get(1, "val") or NOTHING
        if path == "builtins.dict":
            return self._dict(arguments)
        if path in ("builtins.list", "builtins.tuple", "builtins.set") and len(arguments.values) == 1:
            items = self.items_of(arguments.values[0])
            return self.make_list(items) if items is not None else Unknown("", may_be(arguments.values[0]))
        if path in ("builtins.list", "builtins.set") and not arguments.all:
            return self.make_list([])
        if path in ("builtins.range", "builtins.enumerate", "builtins.zip", "builtins.reversed"):
            return self._iterated(path.rpartition(".")[2], arguments)
        work = PURE.get(path)
        if work is not None and callable(work):
            return self._worked_out(work, arguments)
        if path == "builtins.vars" and (held := self.record(arguments.get(0) or NOTHING)) and held.kind == "namespace":
            return self.new(Record("dict", fields=dict(held.fields), opaque=held.opaque))
        if path == "builtins.vars" and len(arguments.values) == 1:
            return self.get(arguments.values[0], "__dict__")
        if path == "types.SimpleNamespace":
            return self.new(Record("namespace", fields=dict(arguments.named)))
        if path.startswith(_HARMLESS):
            return Unknown("", frozenset())
        return None

    def _is_of(self, value: Value, kind: Value) -> bool | None:
        """Whether a constant, list or dictionary is of one of Python's own classes; None for everything else."""
        kinds = kind.items if isinstance(kind, Several) else (kind,)
        names = [one.path for one in kinds if isinstance(one, Symbol)]
        if len(names) < len(kinds) or not set(names) <= _CLASSES.keys():
            return None
        record = self.record(value)
        if isinstance(value, Known):
            return isinstance(value.value, tuple(_CLASSES[name] for name in names))
        if isinstance(value, Several):
            return "builtins.tuple" in names
        if record is not None and record.kind == "dict":
            return "builtins.dict" in names
        if record is not None and record.kind == "list" and not {"builtins.list", "builtins.set", "builtins.tuple"} & set(names):
            return False  # sets and some tuples are kept as lists: which one it is nobody knows
        return None

    def _executed(self) -> Value:
        """``exec``: objects may be changed, and names may have got another value."""
        for number in (self.frame, self.globals[self.frame]):
            for name, cell in list(self.state.frames[number].items()):
                self.escape([cell.value], "changed where it cannot be followed")
                if isinstance(cell.value, (Known, Several)):
                    self.state.names(number)[name] = Cell(Unknown("written by exec()"), cell.place)
        return NONE

    def _worked_out(self, work: Callable[..., Any], arguments: Arguments) -> Value:
        try:
            values = [self.plain(value) for value in arguments.values]
            named = {name: self.plain(cell.value) for name, cell in arguments.named.items()}
            if arguments.more or any(isinstance(value, (str, list)) and len(value) > 10_000 for value in values):
                return NOTHING
            return self.of(work(*values, **named))
        except Exception:  # whatever a function says to arguments that do not suit it
            return Unknown(next((v.why for v in arguments.all if isinstance(v, Unknown) and v.why), ""))

    def _iterated(self, name: str, arguments: Arguments) -> Value:
        if name == "range":
            try:
                turns = range(*(self.plain(value) for value in arguments.values))
            except (ValueError, TypeError):
                return NOTHING
            return self.of(turns) if len(turns) <= 1000 else NOTHING
        lists = [self.items_of(value) for value in arguments.values]
        known = [items for items in lists if items is not None]
        if len(known) < len(lists) or arguments.named:
            return Unknown("", frozenset(number for value in arguments.values for number in may_be(value)))
        if name == "reversed":
            return self.make_list(known[0][::-1]) if known else NOTHING
        pairs = zip(*known, strict=False) if name == "zip" else ((Known(index), item) for index, item in enumerate(known[0]))
        return self.make_list([Several(tuple(pair)) for pair in pairs])

    def _dict(self, arguments: Arguments) -> Value:
        record = Record("dict")
        owner = self.new(record)
        for value in arguments.values:
            self.update(record, value)
        record.fields.update(arguments.named)
        if arguments.more:
            self.forget(record, "made of arguments that are not known")
        return owner

    # ------------------------------------------------------------------ attributes by name

    def _setattr(self, arguments: Arguments, node: ast.Call) -> Value:
        owner, name = arguments.get(0), arguments.get(1)
        value = arguments.get(2)
        if owner is None or name is None or value is None:
            for number in may_be(owner) if owner is not None else ():
                self.forget(self.state.own(number))
            return NONE
        if isinstance(name, Known) and isinstance(name.value, str):
            source = arguments.nodes[2] if len(arguments.nodes) > 2 else None
            at = arguments.nodes[1] if len(arguments.nodes) > 1 else None
            key = (at.lineno, at.col_offset, at.end_col_offset or at.col_offset) if at is not None else None
            self.set(owner, name.value, value, self.place(source, key))
        else:
            for number in may_be(owner):
                self.forget(self.state.own(number), "setattr with a name that is not known")
            self.note("setattr()", node)
        return NONE

    def _getattr(self, arguments: Arguments) -> Value:
        owner, name = arguments.get(0), arguments.get(1)
        if owner is None or not isinstance(name, Known) or not isinstance(name.value, str):
            return Unknown("getattr with a name that is not known", frozenset(self.state.reachable(arguments.all)))
        record, fallback = self.record(owner), arguments.get(2)
        if fallback is not None and not isinstance(owner, Symbol):
            if record is None:
                return Unknown("", frozenset(self.state.reachable([owner, fallback])))
            if name.value not in record.fields:
                there = self.has(owner, name.value)
                if there is False:
                    return fallback
                if there is None:
                    return Unknown("getattr with a default", frozenset(self.state.reachable([owner, fallback])))
        return self.get(owner, name.value)

    def _hasattr(self, arguments: Arguments) -> Value:
        owner, name = arguments.get(0), arguments.get(1)
        if owner is None or not isinstance(name, Known) or not isinstance(name.value, str):
            return NOTHING
        there = self.has(owner, name.value)
        return NOTHING if there is None else Known(there)

    def has(self, owner: Value, name: str) -> bool | None:
        """Whether a value has an attribute, None where that is not known."""
        record = self.record(owner)
        if record is None:
            return None
        cell = record.fields.get(name)
        if cell is not None and cell.place.time:
            return True if not isinstance(cell.value, Unknown) else None
        if record.kind in ("namespace",):
            return None if record.opaque else name in record.fields
        if record.kind not in SETTINGS or not isinstance(owner, Ref):
            return None
        held = self.looked_up(owner.id, name)
        return held if isinstance(held, bool) else None if held is None else True

    def _copied(self, arguments: Arguments) -> Value:
        value = arguments.get(0, "x")
        if not isinstance(value, Ref):
            return value if isinstance(value, Known) else Unknown("", may_be(value) if value is not None else frozenset())
        return self._copy_of(value, {})

    def _copy_of(self, value: Value, seen: dict[int, Ref]) -> Value:
        if not isinstance(value, Ref):
            return value
        if value.id in seen:
            return seen[value.id]
        record = self.state.heap[value.id].copy()
        self.ids += 1
        made = seen[value.id] = Ref(self.ids)
        self.state.put(made.id, record)
        if record.home is not None and record.home[0] in seen:
            record.home = (seen[record.home[0]].id, record.home[1])
            self.parts[record.home[0], record.home[1][0]] = made.id
        for name, cell in list(record.fields.items()):
            record.fields[name] = Cell(self._copy_of(cell.value, seen), cell.place)
        return made

    def _replaced(self, arguments: Arguments) -> Value:
        made = self._copied(Arguments(arguments.values[:1]))
        record = self.record(made)
        if record is None:
            return Unknown("", frozenset(self.state.reachable(arguments.all)))
        if arguments.more:
            self.forget(record)
        record.fields.update(arguments.named)
        return made

    # ------------------------------------------------------------------ methods

    def text_method(self, text: Any, name: str, arguments: Arguments) -> Value:
        """A method of a constant."""
        if not isinstance(text, (str, bytes)) or name not in _TEXT:
            return NOTHING
        method = getattr(text, name, None)
        return self._worked_out(method, arguments) if method is not None else NOTHING

    def container_method(self, owner: Ref, record: Record, name: str, arguments: Arguments, node: ast.Call) -> Value:
        """A method of a list or dictionary."""
        handler = getattr(self, f"_{record.kind}_{name}", None)
        if handler is None:
            if name not in ("index", "count", "copy"):
                self.forget(record, f".{name}() is not followed")
            return Unknown("", frozenset(self.state.reachable([owner, *arguments.all])) if name == "copy" else frozenset())
        value: Value = handler(owner, record, arguments)
        return value

    def _list_append(self, owner: Ref, record: Record, arguments: Arguments) -> Value:
        if record.opaque or arguments.more or len(arguments.values) != 1:
            self.forget(record)
        else:
            record.fields[len(record.fields)] = Cell(arguments.values[0], self.place(arguments.nodes[0]))
        return NONE

    def _list_extend(self, owner: Ref, record: Record, arguments: Arguments) -> Value:
        self.extend(record, arguments.values[0] if arguments.values else NOTHING)
        return NONE

    def _dict_get(self, owner: Ref, record: Record, arguments: Arguments) -> Value:
        key, fallback = arguments.get(0), arguments.get(1) or NONE
        if isinstance(key, Known):
            cell = record.fields.get(key.value)
            if cell is not None:
                return cell.value
            if not record.opaque:
                return fallback
        return Unknown("", frozenset(self.state.reachable([owner, fallback])))

    def _dict_pop(self, owner: Ref, record: Record, arguments: Arguments) -> Value:
        value = self._dict_get(owner, record, arguments)
        key = arguments.get(0)
        if isinstance(key, Known) and not record.opaque:
            record.fields.pop(key.value, None)
        else:
            self.forget(record)
        return value

    def _dict_setdefault(self, owner: Ref, record: Record, arguments: Arguments) -> Value:
        key, fallback = arguments.get(0), arguments.get(1) or NONE
        if not isinstance(key, Known) or record.opaque:
            self.forget(record)
            return Unknown("", frozenset(self.state.reachable([owner, fallback])))
        if key.value not in record.fields:
            record.fields[key.value] = Cell(fallback, self.place(arguments.nodes[1] if len(arguments.nodes) > 1 else None))
        return record.fields[key.value].value

    def _dict_update(self, owner: Ref, record: Record, arguments: Arguments) -> Value:
        for value in arguments.values:
            self.update(record, value)
        record.fields.update(arguments.named)
        if arguments.more:
            self.forget(record)
        return NONE

    def _dict_items(self, owner: Ref, record: Record, arguments: Arguments) -> Value:
        if record.opaque:
            return Unknown("", frozenset(self.state.reachable([owner])))
        return self.make_list([Several((_key(name), cell.value)) for name, cell in record.fields.items()])

    def _dict_keys(self, owner: Ref, record: Record, arguments: Arguments) -> Value:
        return NOTHING if record.opaque else self.make_list([_key(name) for name in record.fields])

    def _dict_values(self, owner: Ref, record: Record, arguments: Arguments) -> Value:
        if record.opaque:
            return Unknown("", frozenset(self.state.reachable([owner])))
        return self.make_list([cell.value for cell in record.fields.values()])

    def _dict_copy(self, owner: Ref, record: Record, arguments: Arguments) -> Value:
        return self.new(Record("dict", fields=dict(record.fields), opaque=record.opaque))


def _key(name: Any) -> Value:
    return name if isinstance(name, Symbol) else Known(name)


__all__ = ["Library"]
