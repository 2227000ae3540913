"""Calls in a followed program: functions of the project are entered, those of Python and Megatron-Bridge are known by name."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from mbpack.config.python.classes import Arguments, Classes
from mbpack.config.python.machine import MAX_DEPTH, Ended, Shown, is_generator
from mbpack.config.python.values import (
    NONE,
    NOTHING,
    Cell,
    Class,
    Function,
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
#: Times that a function calls itself with values that are not known, and is followed.
_AGAIN = 40
#: How a value says that it comes from a call.
_RETURNED = re.compile(r"what ([\w.]{1,60})\(\) returns")
_SAFE_METHODS = ("get_", "is_", "print_", "to_", "validate", "finalize", "set_data_parallel_size", "log_", "save_")


class Calls(Classes):
    """Evaluates calls."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.returns: list[list[tuple[State, Value]]] = []
        self.loops: list[tuple[list[State], list[State]]] = []
        self.targets: list[ast.expr] = []
        self.again: Counter[ast.AST] = Counter()
        self.entered: list[ast.AST] = []  # functions that are being followed, the innermost last

    # ------------------------------------------------------------------ the call

    def _eval_call(self, node: ast.Call) -> Value:
        targets, self.targets = self.targets, []
        outer = self.module == "__main__"
        if isinstance(node.func, ast.Attribute):
            owner = self.eval(node.func.value)
            if self.forced and (forced := self.forced.get(ast.unparse(node.func))) is not None:
                owner, function = forced, forced
            elif not isinstance(owner, (Symbol, Class)) and not self.own_method(owner, node.func.attr):
                arguments = self.arguments(node)
                self._enter_site(node, outer)
                result = self.call_method(owner, node.func.attr, arguments, node)
                self._leave_site(outer)
                self.targets = targets
                return result
            else:
                function = self.get(owner, node.func.attr) if not isinstance(owner, Ref) else self.bound(owner, node.func.attr)
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

    def enter(self, function: Function, arguments: Arguments) -> Value:
        """Follow a function of the project."""
        self.called.add(function.node)
        again = function.node in self.entered and not all(map(self.is_plain, arguments.all))
        self.again[function.node] += again
        if self.depth >= MAX_DEPTH or (again and self.again[function.node] > _AGAIN):
            return self._passed_by(function, arguments)
        before = (self.frame, self.module)
        values = [function.bound, *arguments.values] if function.bound is not None else list(arguments.values)
        parent = function.frame
        local = self.new_frame(parent)
        self._bind_parameters(function, values, arguments, local)
        self.frame, self.module = local, function.module
        self.depth += 1
        self.entered.append(function.node)
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
            self.entered.pop()
            self.loops = loops
            self.frame, self.module = before

    def _passed_by(self, function: Function, arguments: Arguments) -> Value:
        """A call that is not entered any more: what the function is given, and what it names, may be changed."""
        why = "calls nested too deep"
        return Unknown(why, self.escape([function, *arguments.all], why))

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
