"""Calls in a followed program: functions of the project are entered, those of Python and Megatron-Bridge are known by name."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from mbpack.config.python.expressions import Expressions
from mbpack.config.python.machine import MAX_DEPTH, Ended, Shown, is_generator
from mbpack.config.python.values import (
    NONE,
    NOTHING,
    Cell,
    Class,
    Function,
    Place,
    Record,
    Ref,
    Several,
    State,
    Symbol,
    Unknown,
    Value,
    joined,
    may_be,
    same,
)

#: Functions that hand a configuration to Megatron-Bridge.
LAUNCHERS = frozenset({"finetune", "pretrain"})
#: How a value says that it comes from a call.
_RETURNED = re.compile(r"what ([\w.]{1,60})\(\) returns")
_SAFE_METHODS = ("get_", "is_", "print_", "to_", "validate", "finalize", "set_data_parallel_size", "log_", "save_")


class Arguments(Struct):
    """The arguments of a call: values, names with values, their places; ``more`` when some are not known.

    ``open``: names that the function does not have may be given besides.
    """

    values: list[Value] = field(default_factory=list)
    named: dict[str, Cell] = field(default_factory=dict)
    more: bool = False
    nodes: list[ast.expr] = field(default_factory=list)
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


class Calls(Expressions):
    """Evaluates calls."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.returns: list[list[tuple[State, Value]]] = []
        self.loops: list[tuple[list[State], list[State]]] = []
        self.targets: list[ast.expr] = []
        self.step_module: str | None = None

    # ------------------------------------------------------------------ the call

    def _eval_call(self, node: ast.Call) -> Value:
        targets, self.targets = self.targets, []
        outer = self.module == "__main__"
        if isinstance(node.func, ast.Attribute):
            owner = self.eval(node.func.value)
            if self.forced and (forced := self.forced.get(ast.unparse(node.func))) is not None:
                owner, function = forced, forced
            elif not isinstance(owner, (Symbol, Class)) and not self._own_method(owner, node.func.attr):
                arguments = self.arguments(node)
                self._enter_site(node, outer)
                result = self.call_method(owner, node.func.attr, arguments, node)
                self._leave_site(outer)
                self.targets = targets
                return result
            else:
                function = self.get(owner, node.func.attr) if not isinstance(owner, Ref) else self._bound(owner, node.func.attr)
        else:
            function = self.eval(node.func)
        arguments = self.arguments(node)
        self._enter_site(node, outer)
        result = self.call(function, arguments, node)
        self._leave_site(outer)
        self.targets = targets
        return result

    def _enter_site(self, node: ast.Call, outer: bool) -> None:
        if outer:
            self.sites.append(node)

    def _leave_site(self, outer: bool) -> None:
        if outer:
            self.sites.pop()

    def arguments(self, node: ast.Call) -> Arguments:
        """Evaluate the arguments of a call."""
        found = Arguments()
        for child in node.args:
            value = self.eval(child)
            if isinstance(child, ast.Starred):
                items = self.items_of(value)
                found.more = found.more or items is None
                found.values += items or []
                found.nodes += [child] * len(items or [])
                if items is None:
                    found.values.append(Unknown("", may_be(value)))
                    found.nodes.append(child)
            else:
                found.values.append(value)
                found.nodes.append(child)
        for keyword in node.keywords:
            value = self.eval(keyword.value)
            if keyword.arg is not None:
                key = (keyword.lineno, keyword.col_offset, keyword.col_offset + len(keyword.arg.encode()))
                found.named[keyword.arg] = Cell(value, self.place(keyword.value, key))
                continue
            record = self.record(value)
            if record is None or record.kind != "dict" or record.opaque:
                found.more = True
                found.values.append(Unknown("", may_be(value)))
                continue
            found.named.update({name: cell for name, cell in record.fields.items() if isinstance(name, str)})
        return found

    def call(self, function: Value, arguments: Arguments, node: ast.Call) -> Value:
        """Call something."""
        if isinstance(function, Function):
            return self.enter(function, arguments)
        if isinstance(function, Class):
            return self.instance(function, arguments, node)
        if isinstance(function, Symbol):
            return self.call_symbol(function, arguments, node)
        return self.lost(arguments, node, ast.unparse(node.func))

    def lost(self, arguments: Arguments, node: ast.AST, what: str) -> Value:
        """A call that cannot be followed: what it was given may be changed, and what it returns is not known."""
        self._given_away(arguments, node, what)
        found = self.escape(arguments.all, f"given to {what[:60]}, which is not followed")
        if found and any(self.state.heap[number].kind in ("config", "part") for number in found):
            self.note(f"{what[:60]}()", node)
        elif what in self.makers:
            return self.new(Record("config", opaque=f"made by {what[:60]}(), which is not followed"))
        return Unknown(f"what {what[:60]}() returns", found)

    def block(self, body: Sequence[ast.stmt]) -> bool:
        """Run statements in order; whether the program goes on behind them."""
        raise NotImplementedError

    def _given_away(self, arguments: Arguments, node: ast.AST, what: str) -> None:
        """Where a whole configuration goes to a function that is not followed, it is kept as it is until then."""
        for value in arguments.all:
            record = self.record(value)
            if isinstance(value, Ref) and record is not None and record.kind == "config" and not record.opaque:
                line = self.sites[0].lineno if self.sites else getattr(node, "lineno", 0)
                self.away.setdefault(value.id, Shown(value.id, self.state.copy(), what.rpartition(".")[2][:60], line, False))

    def call_symbol(self, function: Symbol, arguments: Arguments, node: ast.Call) -> Value:
        """Call something from outside the project."""
        raise NotImplementedError

    def call_method(self, owner: Value, name: str, arguments: Arguments, node: ast.Call) -> Value:
        """Call a method of a value."""
        raise NotImplementedError

    # ------------------------------------------------------------------ functions of the project

    def _own_method(self, owner: Value, name: str) -> bool:
        """Whether an object of a class of the project has such a method."""
        record = self.record(owner)
        return record is not None and record.kind == "instance" and isinstance(self._bound(owner, name), Function)

    def _bound(self, owner: Value, name: str) -> Value:
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

    def construct(self, path: str, arguments: Arguments, node: ast.Call) -> Value:
        """An object of one of upstream's classes."""
        raise NotImplementedError

    def enter(self, function: Function, arguments: Arguments) -> Value:
        """Follow a function of the project."""
        self.called.add(function.node)
        if self.depth >= MAX_DEPTH:
            found = self.escape(arguments.all, "calls nested too deep")
            return Unknown("calls nested too deep", found)
        before = (self.frame, self.module)
        values = [function.bound, *arguments.values] if function.bound is not None else list(arguments.values)
        parent = function.frame
        local = self.new_frame(parent)
        self._bind_parameters(function, values, arguments, local)
        self.frame, self.module = local, function.module
        self.depth += 1
        loops, self.loops = self.loops, []
        try:
            if isinstance(function.node, ast.Lambda):
                return self.eval(function.node.body)
            if is_generator(function.node):
                found = self.escape(arguments.all, "given to a generator")
                return Unknown("what a generator yields", found)
            return self._body(function.node)
        finally:
            self.depth -= 1
            self.loops = loops
            self.frame, self.module = before

    def _body(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Value:
        self.returns.append([])
        alive = self.block(node.body)
        ends = self.returns.pop()
        if alive:
            ends.append((self.state, NONE))
        if not ends:
            raise Ended
        state, value = ends[0]
        for other, returned in ends[1:]:
            state = joined(state, other, "depends on which way a function ends", self.tick())
            if not same(value, returned):
                value = Unknown("depends on which way a function ends", may_be(value) | may_be(returned))
        self.state = state
        return value

    def defaults_of(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> tuple[tuple[str, Value], ...]:
        """The defaults of parameters, worked out where the function is defined."""
        spec = node.args
        positional = [*spec.posonlyargs, *spec.args]
        found = list(zip(positional[len(positional) - len(spec.defaults) :], spec.defaults, strict=True))
        found += [(name, given) for name, given in zip(spec.kwonlyargs, spec.kw_defaults, strict=True) if given is not None]
        return tuple((parameter.arg, self.eval(default)) for parameter, default in found)

    def _bind_parameters(self, function: Function, values: Sequence[Value], arguments: Arguments, frame: int) -> None:
        spec = function.node.args
        named, defaults = dict(arguments.named), dict(function.defaults)
        names = self.state.names(frame)
        positional = [*spec.posonlyargs, *spec.args]
        nodes: list[ast.expr | None] = [None] * (len(values) - len(arguments.values))
        nodes += arguments.nodes
        for index, parameter in enumerate([*positional, *spec.kwonlyargs]):
            if index < len(values) and index < len(positional):
                node = nodes[index] if index < len(nodes) else None
                cell = Cell(values[index], self.place(node))
            elif parameter.arg in named:
                cell = named.pop(parameter.arg)
            elif arguments.more:
                cell = Cell(Unknown("an argument that is not known"), self.place(None))
            elif parameter.arg in defaults:
                cell = Cell(defaults[parameter.arg], self.place(None))
            else:
                cell = Cell(self.parameter(function, parameter), self.place(None))
            names[parameter.arg] = cell
        if spec.vararg is not None:
            rest = NOTHING if arguments.more else Several(tuple(values[len(positional) :]))
            names[spec.vararg.arg] = Cell(rest, self.place(None))
        if spec.kwarg is not None:
            opaque = "arguments that are not known" if arguments.more or arguments.open else ""
            record = Record("dict", fields=named, opaque=opaque)
            names[spec.kwarg.arg] = Cell(self.new(record), self.place(None))

    def parameter(self, function: Function, parameter: ast.arg) -> Value:
        """A parameter that nobody gives."""
        return Unknown(f"the parameter {parameter.arg}")

    # ------------------------------------------------------------------ containers

    def extend(self, record: Record, more: Value) -> None:
        """``list.extend``."""
        items = self.items_of(more)
        if items is None or record.opaque:
            self.forget(record, "extended by something that is not known")
            return
        for item in items:
            record.fields[len(record.fields)] = Cell(item, self.place(None))

    def update(self, record: Record, more: Value) -> None:
        """``dict.update``."""
        other = self.record(more)
        if other is None or other.kind != "dict" or other.opaque:
            self.forget(record, "updated by something that is not known")
            return
        record.fields.update(other.fields)

    # ------------------------------------------------------------------ modules

    def imported(self, module: str, level: int) -> Value:
        """``import module``."""
        return Symbol(module)

    def imported_name(self, module: str, level: int, name: str) -> Value:
        """``from module import name``."""
        return Symbol(f"{module}.{name}")

    def import_all(self, module: str, level: int) -> None:
        """``from module import *``."""

    # ------------------------------------------------------------------ what is shown

    def _ask_for(self, value: Value) -> None:
        """What starts a training was returned by a function that is not followed: that one makes configurations."""
        found = _RETURNED.fullmatch(value.why) if isinstance(value, Unknown) and not value.may else None
        if found is not None:
            self.asked_makers.add(found[1])

    def show(self, how: str, value: Value, node: ast.AST, launched: bool, step: str | None = None) -> None:
        """A configuration is handed over."""
        record = self.record(value)
        if record is None or record.kind != "config":
            if launched:
                self.note(f"what {how}() is given", node)
                self._ask_for(value)
            return
        assert isinstance(value, Ref)
        line = node.lineno if isinstance(node, (ast.expr, ast.stmt)) else 0
        site = self.sites[0] if self.sites else None
        if self.module != "__main__" and site is not None:
            line = site.lineno
        entry = Shown(value.id, self.state.copy(), how, line, launched, step)
        self.shown = [other for other in self.shown if (other.config, other.how, other.line) != (value.id, how, line)]
        self.shown.append(entry)


def safe_method(name: str) -> bool:
    """Whether a method of a configuration leaves it as it is, or does what the start-up does anyway."""
    return name.startswith(_SAFE_METHODS)


__all__ = ["LAUNCHERS", "Arguments", "Calls", "Mapping", "safe_method"]
