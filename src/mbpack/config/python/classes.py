"""Classes of the project in a followed program: their constants and methods, and the objects made of them."""

from __future__ import annotations

import ast

from msgspec import Struct, field

from mbpack.config.python.expressions import Expressions
from mbpack.config.python.values import (
    NOTHING,
    Cell,
    Class,
    Function,
    Place,
    Record,
    Symbol,
    Value,
)


class Arguments(Struct):
    """The arguments of a call: values, names with values, their places; ``more`` when some are not known.

    ``open``: names that the function does not have may be given besides.
    """

    values: list[Value] = field(default_factory=list)
    named: dict[str, Cell] = field(default_factory=dict)
    more: bool = False
    nodes: list[ast.expr | None] = field(default_factory=list)
    open: bool = False

    def get(self, index: int, *names: str) -> Value | None:
        """The argument at a position or under a name."""
        for name in names:
            if name in self.named:
                return self.named[name].value
        return self.values[index] if 0 <= index < len(self.values) else None

    @property
    def all(self) -> list[Value]:
        """Every value."""
        return [*self.values, *(cell.value for cell in self.named.values())]


class Classes(Expressions):
    """Looks into classes, and makes objects."""

    def enter(self, function: Function, arguments: Arguments) -> Value:
        """Follow a function of the project."""
        raise NotImplementedError

    def construct(self, path: str, arguments: Arguments, node: ast.Call) -> Value:
        """An object of one of upstream's classes."""
        raise NotImplementedError

    def own_method(self, owner: Value, name: str) -> bool:
        """Whether an object of a class of the project has such a method."""
        record = self.record(owner)
        return record is not None and record.kind == "instance" and isinstance(self.bound(owner, name), Function)

    def bound(self, owner: Value, name: str) -> Value:
        record = self.record(owner)
        cell = record.fields.get(("class",)) if record is not None else None
        if cell is None or not isinstance(cell.value, Class):
            return NOTHING
        found = self.class_attribute(cell.value, name)
        if isinstance(found, Function):
            return Function(found.node, found.frame, found.module, owner, found.defaults)
        return found

    def _at(self, owner: Class, node: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[tuple[str, Value], ...]:
        before, self.frame = self.frame, owner.frame
        found = self.defaults_of(node)
        self.frame = before
        return found

    def class_attribute(self, owner: Class, name: str) -> Value:
        """A method or a constant of a class of the project."""
        for statement in owner.node.body:
            if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)) and statement.name == name:
                decorators = {ast.unparse(decorator) for decorator in statement.decorator_list}
                if decorators - {"staticmethod", "classmethod"}:
                    return NOTHING
                bound = owner if "classmethod" in decorators else None
                return Function(statement, owner.frame, owner.module, bound, self._at(owner, statement))
            if isinstance(statement, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in statement.targets):
                return self.eval(statement.value)
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and statement.target.id == name:
                return self.eval(statement.value) if statement.value is not None else NOTHING
        for base in owner.bases:
            if isinstance(base, Class):
                found = self.class_attribute(base, name)
                if found is not NOTHING:
                    return found
        return NOTHING

    def instance(self, cls: Class, arguments: Arguments, node: ast.Call) -> Value:
        """An object of a class of the project: one of upstream's with more fields, a dataclass, or one with its own start."""
        self.called.add(cls.node)
        upstream = self._upstream_base(cls)
        if upstream is not None:
            made = self.construct(f"{self.module}.{cls.node.name}", arguments, node)
            held = self.record(made)
            if held is not None and any(self.class_attribute(cls, name) is not NOTHING for name in ("__init__", "__post_init__")):
                self.forget(held, "its class does more when it is made")
            return made
        start = self.class_attribute(cls, "__init__")
        place = Place(None, self.tick())
        record = Record("instance", cls=cls.node.name, fields={("class",): Cell(cls, place)})
        owner = self.new(record)
        if isinstance(start, Function):
            self.enter(Function(start.node, start.frame, start.module, owner, start.defaults), arguments)
            return owner
        if arguments.more or any(not isinstance(base, (Class, Symbol)) for base in cls.bases):
            record.opaque = "its arguments are not known"
        for name, default in self._fields(cls):
            if default is not None:
                record.fields[name] = Cell(self.eval(default), place)
        names = [name for name, _ in self._fields(cls)]
        for name, value in zip(names, arguments.values, strict=False):
            record.fields[name] = Cell(value, place)
        record.fields.update(arguments.named)
        after = self.class_attribute(cls, "__post_init__")
        if isinstance(after, Function) and any("dataclass" in ast.unparse(one) for one in cls.node.decorator_list):
            more = Arguments(more=len(after.node.args.args) > 1)
            self.enter(Function(after.node, after.frame, after.module, owner, after.defaults), more)
        return owner

    def _upstream_base(self, cls: Class) -> str | None:
        for base in cls.bases:
            if isinstance(base, Symbol) and base.path.startswith("megatron."):
                return base.path
            if isinstance(base, Class) and (found := self._upstream_base(base)) is not None:
                return found
        return None

    def _fields(self, cls: Class) -> list[tuple[str, ast.expr | None]]:
        found: dict[str, ast.expr | None] = {}
        for base in cls.bases:
            if isinstance(base, Class):
                found.update(dict(self._fields(base)))
        for statement in cls.node.body:
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                found[statement.target.id] = statement.value
        return list(found.items())


__all__ = ["Arguments", "Classes"]
