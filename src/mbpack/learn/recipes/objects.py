"""Objects of upstream's own classes in a followed recipe: how they are made, what they default to, and their methods."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

from mbpack.config.python.calls import Arguments
from mbpack.config.python.library import Library
from mbpack.config.python.statements import Statements
from mbpack.config.python.values import NONE, NOTHING, Cell, Function, Known, Place, Record, Ref, Symbol, Unknown, Value
from mbpack.learn.lists.fields import Class, Reader
from mbpack.learn.lists.tree import Defined, Foreign, Meaning, Module

_T = TypeVar("_T")
#: Kind of the record behind ``super()``.
SUPER = "super"
_OWN = ("property", "cached_property")


class Objects(Statements, Library):
    """Classes, their objects and their methods. ``tree`` are the sources, ``reader`` their classes."""

    def __init__(self, reader: Reader) -> None:
        super().__init__(defaults=True)
        self.reader, self.tree = reader, reader.tree
        self.frames: dict[str, int] = {}  # of modules
        self.of_frame: dict[int, Module] = {}
        self.owners: list[tuple[Class, Value]] = []  # of the methods that are being followed
        self.asked: set[tuple[str, str]] = set()  # names of modules that are being worked out

    # ------------------------------------------------------------------ names of modules

    def frame_of(self, module: Module) -> int:
        """The frame that holds the names of a module."""
        if module.name not in self.frames:
            self.frames[module.name] = self.new_frame(None)
            self.of_frame[self.frames[module.name]] = module
        return self.frames[module.name]

    def find(self, name: str) -> Cell | None:
        """What a name holds; names of a module are worked out when they are asked for."""
        found = super().find(name)
        module = self.of_frame.get(self.globals.get(self.frame, self.frame))
        if found is not None or module is None:
            return found
        meant = module.resolve(name)
        return Cell(self.meant(meant), Place(None, 0)) if meant is not None else None

    def meant(self, found: Meaning) -> Value:
        """What something of a module is worth."""
        if isinstance(found, Foreign):
            return Symbol(found.dotted)
        module, node = found.module, found.node
        if isinstance(node, ast.ClassDef):
            return Symbol(found.dotted)
        frame = self.frame_of(module)
        if isinstance(node, ast.FunctionDef):
            function = node
            if not self._there(frame, lambda: all(map(self._transparent, function.decorator_list))):
                return Symbol(found.dotted)
            return Function(node, frame, module.name, None, self._there(frame, lambda: self.defaults_of(function)))
        if not isinstance(node, ast.expr) or "." in found.name or (module.name, found.name) in self.asked:
            return Symbol(found.dotted)
        self.asked.add((module.name, found.name))
        try:
            value = self._there(frame, partial(self.eval, node), module.name)
        finally:
            self.asked.discard((module.name, found.name))
        self.state.names(frame)[found.name] = Cell(value, Place(None, 0))
        return value

    def _transparent(self, decorator: ast.expr) -> bool:
        """Decorators that give back the function they are given."""
        if super()._transparent(decorator):
            return True
        module = self.of_frame.get(self.globals.get(self.frame, self.frame))
        found = module.meaning(decorator) if module is not None else None
        if not isinstance(found, Defined) or not isinstance(found.node, ast.FunctionDef) or not found.node.args.args:
            return False
        last = found.node.body[-1]
        return isinstance(last, ast.Return) and getattr(last.value, "id", "") == found.node.args.args[0].arg

    def _there(self, frame: int, work: Callable[[], _T], module: str = "") -> _T:
        """Something worked out among the names of another frame."""
        before, self.frame, self.module = (self.frame, self.module), frame, module or self.module
        try:
            return work()
        finally:
            self.frame, self.module = before

    def imported_name(self, module: str, level: int, name: str) -> Value:
        """An import inside a function."""
        here = self.of_frame.get(self.globals.get(self.frame, self.frame))
        base = here._absolute(module or None, level) if here is not None and level else module
        return self.symbol(f"{base}.{name}")

    def symbol(self, dotted: str) -> Value:
        """What a dotted name is worth."""
        return self.meant(self.tree.look_up(dotted))

    def get(self, owner: Value, name: str) -> Value:
        """The attribute of a value."""
        if isinstance(owner, Symbol):
            if owner.path.startswith("megatron.") and self.class_at(owner) is None:
                return self.symbol(f"{owner.path}.{name}")
            return self._class_value(owner, name)
        record = self.record(owner)
        if record is not None and record.kind == SUPER:
            return Unknown("super()")
        return super().get(owner, name)

    def _class_value(self, owner: Symbol, name: str) -> Value:
        """An attribute of a class: a constant of its body; a member of an enumeration or a method stays a name."""
        cls = self.class_at(owner)
        if cls is not None and name == "__dataclass_fields__":
            return self.make_dict({field: Known(field) for field in cls.fields})
        for base in cls.mro if cls is not None else ():
            for node in base.node.body:
                if isinstance(node, ast.AnnAssign) and getattr(node.target, "id", "") == name and node.value is not None:
                    return self._there(self.frame_of(base.found.module), partial(self.eval, node.value))
        return Symbol(f"{owner.path}.{name}")

    # ------------------------------------------------------------------ classes

    def class_at(self, value: Value | str | None) -> Class | None:
        """The class behind a name or a value."""
        path = value.path if isinstance(value, Symbol) else value
        return self.reader.at(path) if isinstance(path, str) and path.startswith("megatron.") else None

    def class_of(self, value: Value) -> Class | None:
        """The class of an object."""
        record = self.record(value)
        return self.class_at(record.cls) if record is not None and record.kind in ("object", "config") else None

    def method(self, cls: Class, name: str, after: Class | None = None) -> tuple[Class, ast.FunctionDef] | None:
        """The method that an object of a class has; ``after`` looks behind that class, as ``super()`` does."""
        for one in cls.mro if after is None else _behind(cls, after):
            for node in one.node.body:
                if isinstance(node, ast.FunctionDef) and node.name == name:
                    return one, node
        return None

    def enter_method(self, found: tuple[Class, ast.FunctionDef], owner: Value, arguments: Arguments) -> Value:
        """Follow a method of an object."""
        cls, node = found
        module = cls.found.module
        frame = self.frame_of(module)
        names = {ast.unparse(decorator).rpartition(".")[2] for decorator in node.decorator_list}
        bound: Value | None = owner
        if "staticmethod" in names:
            bound = None
        elif "classmethod" in names:
            record = self.record(owner)
            bound = Symbol(record.cls) if record is not None and record.cls else owner
        defaults = self._there(frame, lambda: self.defaults_of(node))
        self.owners.append((cls, owner))
        try:
            return self.enter(Function(node, frame, module.name, bound, defaults), arguments)
        finally:
            self.owners.pop()

    # ------------------------------------------------------------------ making objects

    def construct(self, path: str, arguments: Arguments, node: ast.Call) -> Value:
        """An object of one of upstream's classes."""
        cls = self.class_at(path)
        if cls is None:
            return self.lost(arguments, node, path)
        container = cls.node.name == "ConfigContainer"
        owner = self.new(Record("config" if container else "object", cls=cls.path, recipe="" if container else None))
        self.initialise(owner, cls, cls.mro, arguments)
        return owner

    def initialise(self, owner: Ref, cls: Class, order: list[Class], arguments: Arguments) -> None:
        """``__init__``: the first in an order of classes that is written, or that a dataclass has."""
        record = self.record(owner)
        assert record is not None
        for one in order:
            own = next((n for n in one.node.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"), None)
            if own is not None:
                self.enter_method((one, own), owner, arguments)
                return
            if one.is_dataclass:
                self._as_dataclass(owner, record, one, cls, arguments)
                return
        if cls.foreign and (arguments.all or arguments.more):
            record.opaque = "made by a class of another library"

    def _as_dataclass(self, owner: Ref, record: Record, one: Class, cls: Class, arguments: Arguments) -> None:
        names = [name for name, entry in one.fields.items() if len(entry) < 3]
        if arguments.more or len(arguments.values) > len(names):
            record.opaque = "made with arguments that are not known"
            return
        given = {name: Cell(value, self.place(None)) for name, value in zip(names, arguments.values, strict=False)}
        given.update(arguments.named)
        if self.method(cls, "__setattr__") is not None:  # which sees every field, in order
            given = {name: given.get(name) or Cell(self.default_of(cls, name), self.place(None)) for name in names}
        for name, cell in given.items():
            self.write(owner, name, cell.value, self.place(None))
        found = self.method(cls, "__post_init__")
        if found is not None:
            self.enter_method(found, owner, Arguments())

    def _lazily(self, owner: Ref, record: Record, name: str) -> Value:
        """A field that nobody wrote: what its class gives it."""
        cls = self.class_at(record.cls) if record.kind in ("object", "config") and not record.opaque else None
        if cls is None:
            return self.part(owner, record, name)
        found = self.method(cls, name)
        if found is not None:
            if any(ast.unparse(decorator).endswith(_OWN) for decorator in found[1].decorator_list):
                return self.enter_method(found, owner, Arguments())
            return Unknown("a method")
        value = self.default_of(cls, name)
        if isinstance(value, Ref):
            record.fields[name] = Cell(value, Place(None, 0))
        return value

    def default_of(self, cls: Class, name: str) -> Value:
        """What a class gives to a field, or has under a name."""
        for one in cls.mro:
            for node in one.node.body:
                if isinstance(node, ast.AnnAssign) and getattr(node.target, "id", "") == name and node.value is not None:
                    return self._there(self.frame_of(one.found.module), partial(self._made, node.value))
                if isinstance(node, ast.Assign) and any(getattr(target, "id", "") == name for target in node.targets):
                    return self._there(self.frame_of(one.found.module), partial(self.eval, node.value))
        return Unknown(f"{name} has no default")

    def _made(self, default: ast.expr) -> Value:
        called = default.func if isinstance(default, ast.Call) else None
        if called is None or getattr(called, "id", getattr(called, "attr", "")) != "field":
            return self.eval(default)
        assert isinstance(default, ast.Call)
        for keyword in default.keywords:
            if keyword.arg == "default":
                return self.eval(keyword.value)
            if keyword.arg == "default_factory":
                call = ast.copy_location(ast.Call(keyword.value, [], []), default)
                return self.eval(call)
        return Unknown("a field without a default")

    def write(self, owner: Value, name: str, value: Value, place: Place) -> None:
        """Set an attribute, through the class's own ``__setattr__`` where it has one."""
        cls = self.class_of(owner)
        found = self.method(cls, "__setattr__") if cls is not None else None
        if found is not None:
            self.enter_method(found, owner, Arguments(values=[Known(name), value]))
            return
        setter = self._setter(cls, name) if cls is not None else None
        if setter is not None:
            self.enter_method(setter, owner, Arguments(values=[value]))
            return
        super().write(owner, name, value, place)

    def _setter(self, cls: Class, name: str) -> tuple[Class, ast.FunctionDef] | None:
        for one in cls.mro:
            for node in one.node.body:
                if isinstance(node, ast.FunctionDef) and node.name == name:
                    if any(ast.unparse(decorator) == f"{name}.setter" for decorator in node.decorator_list):
                        return one, node
        return None

    def _setattr(self, arguments: Arguments, node: ast.Call) -> Value:
        """``setattr`` goes the way of an assignment."""
        owner, name, value = arguments.get(0), arguments.get(1), arguments.get(2)
        if isinstance(name, Known) and isinstance(name.value, str) and owner is not None and value is not None:
            if self.class_of(owner) is not None:
                self.write(owner, name.value, value, self.place(None))
                return NONE
        return super()._setattr(arguments, node)

    # ------------------------------------------------------------------ expressions of upstream's own code

    def _eval_dictcomp(self, node: ast.DictComp) -> Value:
        """A mapping over known elements with one loop."""
        pair = ast.copy_location(ast.Tuple([node.key, node.value], ast.Load()), node)
        pairs = self.items_of(self._comprehension(ast.copy_location(ast.ListComp(pair, node.generators), node)))
        entries = [self.items_of(one) or [] for one in pairs or ()]
        if pairs is None or any(len(entry) != 2 or not isinstance(entry[0], Known) for entry in entries):
            return self.new(Record("dict", opaque="a comprehension"))
        return self.make_dict({key.value: value for key, value in entries if isinstance(key, Known)})

    # ------------------------------------------------------------------ calls of methods

    def super_of(self, arguments: Arguments) -> Value:
        """``super()``."""
        if not self.owners:
            return NOTHING
        cls, owner = self.owners[-1]
        cls = self.class_at(arguments.get(0)) or cls
        return self.new(Record(SUPER, cls=cls.path, fields={"self": Cell(owner, Place(None, 0))}))

    def call_super(self, record: Record, name: str, arguments: Arguments, node: ast.Call) -> Value:
        """``super().name(...)``."""
        owner, after = record.fields["self"].value, self.class_at(record.cls)
        cls = self.class_of(owner)
        if cls is None or after is None or not isinstance(owner, Ref):
            return self.lost(Arguments([*arguments.all, owner]), node, f"super().{name}")
        if name == "__init__":
            self.initialise(owner, cls, _behind(cls, after), arguments)
            return NONE
        found = self.method(cls, name, after)
        if found is not None:
            return self.enter_method(found, owner, arguments)
        if name == "__setattr__" and len(arguments.values) == 2 and isinstance(arguments.values[0], Known):
            self.set(owner, arguments.values[0].value, arguments.values[1], self.place(None))
        return NONE

    def is_instance(self, value: Value, kinds: list[Value]) -> bool | None:
        """Whether a value is an object of one of some classes, None where that is not known."""
        verdicts = [self._is_one(value, kind) for kind in kinds]
        return True if True in verdicts else None if None in verdicts else False

    def _is_one(self, value: Value, kind: Value) -> bool | None:
        if not isinstance(kind, Symbol):
            return None
        plain = {"builtins.str": str, "builtins.int": int, "builtins.float": float, "builtins.bool": bool}.get(kind.path)
        if isinstance(value, Known):
            return isinstance(value.value, plain) if plain is not None else None if kind.path.startswith("builtins.") else False
        record = self.record(value)
        if record is not None and record.kind in ("list", "dict"):
            return kind.path in (f"builtins.{record.kind}", "collections.abc.Mapping" if record.kind == "dict" else "")
        cls = self.class_of(value)
        if cls is None:
            return None
        target = self.class_at(kind)
        if target is None:
            return False if plain is not None or kind.path in ("builtins.list", "builtins.dict", "builtins.tuple") else None
        return any(one.path == target.path for one in cls.mro)

    def written(self, record: Record) -> Iterator[tuple[str, Value]]:
        """The attributes of an object that somebody wrote or that hold an object."""
        for name, cell in record.fields.items():
            if isinstance(name, str):
                yield name, cell.value


def _behind(cls: Class, after: Class) -> list[Class]:
    """The classes that come after one in the order of another."""
    paths = [one.path for one in cls.mro]
    return cls.mro[paths.index(after.path) + 1 :] if after.path in paths else []


__all__ = ["SUPER", "Defined", "Objects"]
