"""A reader that follows recipe functions through the sources of a Megatron-Bridge.

What a recipe gets from elsewhere stays unknown: the Hugging Face configuration of a model, the GPU, the time.
"""

from __future__ import annotations

import ast
from typing import Final

from mbpack.config.python.calls import Arguments
from mbpack.config.python.machine import SETTINGS
from mbpack.config.python.values import (
    NONE,
    NOTHING,
    Cell,
    Function,
    Known,
    Place,
    Record,
    Ref,
    Several,
    Symbol,
    Unknown,
    Value,
    may_be,
)
from mbpack.learn.recipes.conversions import left_alone
from mbpack.learn.recipes.objects import SUPER, Objects

#: The working directory: any path that begins at the root is read as "some absolute path".
_HERE: Final = "/working-directory"
_CONVERSIONS: Final = ("to_megatron_provider", "get_model_config", "to_megatron_config")
_PATHS: Final = ("pathlib.Path", "pathlib.PurePath", "pathlib.PosixPath")
#: Why a converted model is not known but for what the recipe sets.
CONVERTED: Final = "made from a Hugging Face configuration"
_SPEAKING: Final = frozenset({"info", "debug", "warning", "error", "exception", "critical", "log", "print"})


class Machine(Objects):
    """Follows one recipe."""

    hf_id: str | None = None

    def call_symbol(self, function: Symbol, arguments: Arguments, node: ast.Call) -> Value:
        """Call something that is no function of the sources, or a class."""
        path, name = function.path, function.name
        if path == "builtins.super":
            return self.super_of(arguments)
        if path == "builtins.isinstance" and len(arguments.values) == 2:
            kinds = self.items_of(arguments.values[1]) or [arguments.values[1]]
            verdict = self.is_instance(arguments.values[0], kinds)
            return NOTHING if verdict is None else Known(verdict)
        if name in ("from_hf_pretrained", "from_hf_config") and "Bridge" in path:
            given = arguments.get(0, "path", "model_id")
            if name == "from_hf_pretrained" and isinstance(given, Known):
                self.hf_id = str(given.value)
            return self.new(Record("bridge"))
        if path.startswith("transformers.") and name == "from_pretrained":
            given = arguments.get(0, "pretrained_model_name_or_path")
            if isinstance(given, Known) and "AutoConfig" in path:
                self.hf_id = str(given.value)
            return Unknown("a Hugging Face configuration")
        if path in ("builtins.object.__setattr__", "object.__setattr__") and len(arguments.values) == 3:
            owner, key, value = arguments.values
            if isinstance(key, Known):
                self.set(owner, key.value, value, self.place(None))
                return NONE
        found = self._environment(path, arguments)
        if found is None and path in _PATHS:
            found = self.new(Record("path", fields={"text": Cell(arguments.get(0) or Known("."), Place(None, 0))}))
        if found is None and path == "functools.partial":
            found = self.new(Record("partial", fields={"func": Cell(arguments.get(0) or NOTHING, Place(None, 0))}))
        if found is None and path == "dataclasses.replace":
            found = self._remade(arguments, node)
        if found is None:
            found = self.python_function(path, arguments, node)
        if found is not None:
            return found
        if path.startswith("megatron."):
            return self._upstream(function, arguments, node)
        return self.lost(arguments, node, path)

    def enter(self, function: Function, arguments: Arguments) -> Value:
        """Follow a function; precisions by name are the functions of that name, which a decorator lists."""
        if function.name == "get_mixed_precision_config" and arguments.values and isinstance(arguments.values[0], Known):
            named = self.symbol(f"{function.module}.{str(arguments.values[0].value).replace('-', '_')}")
            if isinstance(named, Function):
                return self.enter(named, Arguments())
        return super().enter(function, arguments)

    def _environment(self, path: str, arguments: Arguments) -> Value | None:
        if path in ("os.getcwd", "pathlib.Path.cwd", "os.path.abspath", "os.path.expanduser", "tempfile.gettempdir"):
            return Known(_HERE)
        if path in ("os.environ.get", "os.getenv"):
            return arguments.get(1, "default") or NONE
        return None

    def symbol_item(self, owner: Symbol, key: Value) -> Value:
        """``Literal[...]`` and the like stay what they are; ``os.environ[...]`` is not known."""
        return NOTHING

    def _upstream(self, function: Symbol, arguments: Arguments, node: ast.Call) -> Value:
        if self.class_at(function) is not None:
            return self.construct(function.path, arguments, node)
        owner = self.class_at(function.path.rpartition(".")[0])
        first = arguments.values[0] if arguments.values else NOTHING
        rest = Arguments(arguments.values[1:], arguments.named, arguments.more, arguments.nodes[1:])
        made = self.class_of(first)
        if function.name == "__init__" and owner is not None and made is not None and isinstance(first, Ref):
            self.initialise(first, made, owner.mro, rest)
            return NONE
        found = self.method(owner, function.name) if owner is not None else None
        if found is None or owner is None:
            return self.lost(arguments, node, function.path)
        names = {ast.unparse(decorator) for decorator in found[1].decorator_list}
        if names & {"classmethod", "staticmethod"}:
            return self.enter_method(found, Symbol(owner.path), arguments)
        if not arguments.values:
            return self.lost(arguments, node, function.path)
        return self.enter_method(found, first, rest)

    def _remade(self, arguments: Arguments, node: ast.Call) -> Value | None:
        """``dataclasses.replace``: the constructor gets the fields of the object."""
        first = arguments.values[0] if arguments.values else NOTHING
        cls, record = self.class_of(first), self.record(first)
        if cls is None or record is None or record.opaque or arguments.more:
            return None
        fields = {name: Cell(value, self.place(None)) for name, value in self.written(record)}
        return self.construct(cls.path, Arguments(named={**fields, **arguments.named}), node)

    def _lazily(self, owner: Ref, record: Record, name: str) -> Value:
        """A field that nobody wrote; of a converted model only what no conversion touches is known."""
        if record.kind == "object" and record.opaque == CONVERTED:
            entry = left_alone(self.reader).get(name, ())
            if len(entry) > 1 and (entry[1] is None or isinstance(entry[1], (bool, int, float))):
                return Known(entry[1])
        return super()._lazily(owner, record, name)

    # ------------------------------------------------------------------ methods

    def call_method(self, owner: Value, name: str, arguments: Arguments, node: ast.Call) -> Value:
        """Call a method of a value."""
        if isinstance(owner, Known):
            return self.text_method(owner.value, name, arguments)
        record = self.record(owner)
        if name in _SPEAKING and (record is None or record.kind != "object"):
            return NONE
        if record is None or not isinstance(owner, Ref):
            if isinstance(owner, Several):
                return NOTHING
            arguments.values.append(owner)
            return self.lost(arguments, node, ast.unparse(node.func))
        if record.kind == SUPER:
            return self.call_super(record, name, arguments, node)
        if record.kind in ("list", "dict"):
            return self.container_method(owner, record, name, arguments, node)
        if record.kind == "bridge":
            return self.new(Record("object", opaque=CONVERTED)) if name in _CONVERSIONS else NOTHING
        cls = self.class_of(owner)
        found = self.method(cls, name) if cls is not None else None
        if found is not None:
            return self.enter_method(found, owner, arguments)
        cell = record.fields.get(name)
        if cell is not None and isinstance(cell.value, (Function, Symbol)):
            return self.call(cell.value, arguments, node)
        if record.kind in SETTINGS and record.opaque == CONVERTED and name in ("finalize", "provide"):
            return NOTHING
        arguments.values.append(owner)
        return self.lost(arguments, node, ast.unparse(node.func))

    def has(self, owner: Value, name: str) -> bool | None:
        """Whether a value has an attribute, None where that is not known."""
        cls, record = self.class_of(owner), self.record(owner)
        if cls is None or record is None or record.opaque:
            return super().has(owner, name)
        if name in record.fields or name in cls.fields or self.method(cls, name) is not None:
            return True
        return None if cls.foreign else False


__all__ = ["CONVERTED", "Machine", "may_be"]
