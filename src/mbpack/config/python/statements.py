"""Statements of a followed program: what names and objects hold after them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from mbpack.config.python.calls import Calls
from mbpack.config.python.machine import Condition, Ended
from mbpack.config.python.values import (
    NONE,
    NOTHING,
    Cell,
    Class,
    Function,
    Known,
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

_LOOPS = 64  #: turns of a loop that are followed one by one
_SETTLE = 6  #: turns after which a loop that nobody can count has settled, or is given up


class Statements(Calls):
    """Runs statements. Each method returns whether the program goes on behind them."""

    def block(self, body: Sequence[ast.stmt]) -> bool:
        """Statements in order."""
        for statement in body:
            self.step()
            handler = getattr(self, f"_do_{type(statement).__name__.lower()}", None)
            try:
                if handler is None:
                    self._other(statement)
                elif handler(statement) is False:
                    return False
            except Ended:
                return False
        return True

    def _other(self, statement: ast.stmt) -> None:
        """A statement that is not followed: what it names is unknown afterwards."""
        for node in ast.walk(statement):
            if isinstance(node, ast.Name):
                value = self._eval_name(node)
                self.escape([value], "changed in a statement that is not followed")
                if isinstance(node.ctx, ast.Store):
                    self.bind(node.id, NOTHING)

    # ------------------------------------------------------------------ assignments

    def _do_expr(self, node: ast.Expr) -> None:
        self.eval(node.value)

    def _do_assign(self, node: ast.Assign) -> None:
        self.targets = node.targets
        value = self.eval(node.value)
        value = self._still(node.targets, node.value, value)
        for target in node.targets:
            self.assign_to(target, value, node.value)

    def _still(self, targets: list[ast.expr], source: ast.expr, value: Value) -> Value:
        """``cfg = tweak(cfg)``: what comes back is taken for the object that went in, of which nothing is known any more."""
        if not (isinstance(value, Unknown) and value.may and isinstance(source, ast.Call) and len(targets) == 1):
            return value
        target = targets[0]
        given = [*source.args, *(keyword.value for keyword in source.keywords)]
        if isinstance(target, ast.Name) and any(isinstance(arg, ast.Name) and arg.id == target.id for arg in given):
            cell = self.find(target.id)
            if cell is not None and (record := self.record(cell.value)) is not None and record.kind == "config":
                return cell.value
        return value

    def _do_annassign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.assign_to(node.target, self.eval(node.value), node.value)

    def _do_augassign(self, node: ast.AugAssign) -> None:
        target = node.target
        loaded = ast.copy_location(_loaded(target), target)
        old, more = self.eval(loaded), self.eval(node.value)
        record = self.record(old)
        if record is not None and record.kind == "list" and isinstance(node.op, ast.Add):
            self.extend(record, more)
            return
        if record is not None and record.kind == "dict" and isinstance(node.op, ast.BitOr):
            self.update(record, more)
            return
        self.assign_to(target, self.operate(type(node.op), old, more), None)

    def assign_to(self, target: ast.expr, value: Value, node: ast.expr | None) -> None:
        """Assign a value to a target."""
        if isinstance(target, ast.Name):
            self.bind(target.id, value, self.place(node))
        elif isinstance(target, ast.Attribute):
            owner = self.eval(target.value)
            end = target.end_col_offset or 0
            key = (target.end_lineno or target.lineno, end - len(target.attr.encode()), end)
            self.write(owner, target.attr, value, self.place(node if node is not None else target, key))
        elif isinstance(target, ast.Subscript):
            self._assign_item(target, value, node)
        elif isinstance(target, (ast.Tuple, ast.List)):
            self._unpack(target.elts, value, node)
        elif isinstance(target, ast.Starred):
            self.assign_to(target.value, Unknown("", may_be(value)), None)

    def write(self, owner: Value, name: str, value: Value, place: Place) -> None:
        """Set an attribute."""
        if isinstance(owner, Symbol):
            return  # a module of somebody else's
        self.set(owner, name, value, place)

    def _assign_item(self, target: ast.Subscript, value: Value, node: ast.expr | None) -> None:
        owner = self.eval(target.value)
        if isinstance(target.slice, ast.Slice):
            for number in may_be(owner):
                self.forget(self.state.heap[number])
            return
        key = self.eval(target.slice)
        record = self.record(owner)
        if record is None:
            for number in may_be(owner):
                self.forget(self.state.heap[number])
            return
        name = key.value if isinstance(key, Known) else None
        if not isinstance(key, Known) or (record.kind == "list" and name not in record.fields):
            self.forget(record)
            return
        slice_ = target.slice
        place = (slice_.lineno, slice_.col_offset, slice_.end_col_offset or slice_.col_offset)
        self.set(owner, name, value, self.place(node if node is not None else target, place))

    def _unpack(self, targets: Sequence[ast.expr], value: Value, node: ast.expr | None) -> None:
        items = self.items_of(value)
        starred = any(isinstance(target, ast.Starred) for target in targets)
        if items is None or starred or len(items) != len(targets):
            for target in targets:
                self.assign_to(target, Unknown("", may_be(value)), None)
            return
        nodes: Sequence[ast.expr | None] = [None] * len(targets)
        if isinstance(node, (ast.Tuple, ast.List)) and len(node.elts) == len(targets):
            nodes = node.elts
        for target, item, source in zip(targets, items, nodes, strict=True):
            self.assign_to(target, item, source)

    def _do_delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                self.bind(target.id, NOTHING)
            elif isinstance(target, (ast.Attribute, ast.Subscript)):
                owner = self.eval(target.value)
                record = self.record(owner)
                key = self.eval(target.slice) if isinstance(target, ast.Subscript) else Known(target.attr)
                if record is not None and record.kind == "dict" and isinstance(key, Known) and not record.opaque:
                    record.fields.pop(key.value, None)
                else:
                    for number in may_be(owner):
                        self.forget(self.state.heap[number], "something was deleted from it")

    # ------------------------------------------------------------------ definitions

    def _do_functiondef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        value: Value = Function(node, self.frame, self.module, None, self.defaults_of(node))
        if any(not self._transparent(decorator) for decorator in node.decorator_list):
            value = Unknown("a decorated function")
        self.bind(node.name, value)

    _do_asyncfunctiondef = _do_functiondef

    def _transparent(self, decorator: ast.expr) -> bool:
        """Decorators that leave what a function does as it is."""
        name = ast.unparse(decorator).partition("(")[0].rpartition(".")[2]
        return name in ("cache", "lru_cache", "record", "wraps", "staticmethod", "no_grad", "inference_mode", "experimental_fn")

    def _do_classdef(self, node: ast.ClassDef) -> None:
        self.bind(node.name, Class(node, self.frame, self.module, tuple(self.eval(base) for base in node.bases)))

    def _do_import(self, node: ast.Import) -> None:
        for alias in node.names:
            if alias.asname:
                self.bind(alias.asname, self.imported(alias.name, 0))
            else:
                self.bind(alias.name.partition(".")[0], self.imported(alias.name.partition(".")[0], 0))

    def _do_importfrom(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        for alias in node.names:
            if alias.name == "*":
                self.import_all(module, node.level)
            else:
                self.bind(alias.asname or alias.name, self.imported_name(module, node.level, alias.name))

    def _do_global(self, node: ast.Global | ast.Nonlocal) -> None:
        for name in node.names:
            owner = self.globals[self.frame]
            if isinstance(node, ast.Nonlocal):
                frame = self.parents.get(self.frame)
                while frame is not None and name not in self.state.frames.get(frame, {}):
                    frame = self.parents.get(frame)
                owner = frame if frame is not None else owner
            self.declared[self.frame, name] = owner

    _do_nonlocal = _do_global

    def _do_pass(self, node: ast.stmt) -> None:
        pass

    def _do_assert(self, node: ast.Assert) -> None:
        self.eval(node.test)

    # ------------------------------------------------------------------ ways through

    def decide(self, test: ast.expr) -> bool | None:
        """Whether a condition holds; one that is not known is kept."""
        truth = self.truth(self.eval(test))
        text = ast.unparse(test)
        if truth is None:
            self.conditions.setdefault(text, Condition(text, test.lineno if self.module == "__main__" else 0, test))
        else:
            self.decided[text] = truth
        return truth

    def _do_if(self, node: ast.If) -> bool:
        truth = self.decide(node.test)
        if truth is not None:
            return self.block(node.body if truth else node.orelse)
        text = ast.unparse(node.test)
        return self._ways([lambda: self.block(node.body), lambda: self.block(node.orelse)], f"depends on `{text}`", text)

    def _ways(self, ways: Sequence[Callable[[], bool]], why: str, text: str = "") -> bool:
        """Several ways to go on from here, of which one is taken."""
        start, ends = self.state, []
        shown = len(self.shown)
        for way in ways:
            self.state = start.copy()
            if way():
                ends.append(self.state)
        condition = self.conditions.get(text)
        if condition is not None and (len(self.shown) > shown or len(ends) < len(ways)):
            condition.matters = True
        if not ends:
            self.state = start
            return False
        state = ends[0]
        before = self.clock
        for other in ends[1:]:
            time = self.tick()
            state = joined(state, other, why, time)
            if condition is not None and not condition.matters:
                condition.matters = _differs(state, time)
        self.state = state
        return before >= 0

    def _do_match(self, node: ast.Match) -> bool:
        self.eval(node.subject)
        ways = []
        for case in node.cases:
            for name in ast.walk(case.pattern):
                if isinstance(name, (ast.MatchAs, ast.MatchStar)) and name.name:
                    self.bind(name.name, NOTHING)
            ways.append(lambda body=case.body: self.block(body))  # type: ignore[misc]
        return self._ways([*ways, lambda: True], "depends on a match")

    def _do_try(self, node: ast.Try) -> bool:
        if not node.handlers:
            return self.block(node.body) and self.block(node.finalbody)
        if all(isinstance(statement, (ast.Import, ast.ImportFrom, ast.Pass)) for statement in node.body):
            return self.block([*node.body, *node.orelse, *node.finalbody])
        start = self.state.copy()

        def tried() -> bool:
            return self.block([*node.body, *node.orelse])

        def failed(handler: ast.ExceptHandler) -> bool:
            self.block(node.body)  # any part of it may have happened
            self.state = self._anything(start, self.state)
            if handler.name:
                self.bind(handler.name, NOTHING)
            return self.block(handler.body)

        ways = [tried, *((lambda handler=handler: failed(handler)) for handler in node.handlers)]  # type: ignore[misc]
        alive = self._ways(ways, "depends on whether something fails")
        return self.block(node.finalbody) and alive

    _do_trystar = _do_try

    def _anything(self, before: State, after: State) -> State:
        """After some of the statements between two states: what they wrote is unknown."""
        return joined(before, _marked(before, after, self.tick()), "written before something fails", self.tick())

    def _do_with(self, node: ast.With | ast.AsyncWith) -> bool:
        for item in node.items:
            value = self.eval(item.context_expr)
            if item.optional_vars is not None:
                self.assign_to(item.optional_vars, Unknown("", may_be(value)), None)
        return self.block(node.body)

    _do_asyncwith = _do_with

    def _do_return(self, node: ast.Return) -> bool:
        value = self.eval(node.value) if node.value is not None else NONE
        if self.returns:
            self.returns[-1].append((self.state, value))
        return False

    def _do_raise(self, node: ast.Raise) -> bool:
        return False

    # ------------------------------------------------------------------ loops

    def _do_for(self, node: ast.For | ast.AsyncFor) -> bool:
        values = self.eval(node.iter)
        items = self.items_of(values)
        if items is not None and len(items) <= _LOOPS:
            return self._each(node, items)
        held = frozenset(self.state.reachable([values]))

        def turn() -> bool:
            self.assign_to(node.target, Unknown("from a loop", held), None)
            return self.block(node.body)

        return self._again(turn, node.orelse, "from a loop that is not followed")

    _do_asyncfor = _do_for

    def _each(self, node: ast.For | ast.AsyncFor, items: Sequence[Value]) -> bool:
        self.loops.append(([], []))
        alive = True
        for item in items:
            self.assign_to(node.target, item, None)
            alive = self.block(node.body)
            going = [*([self.state] if alive else []), *self.loops[-1][1]]
            self.loops[-1][1].clear()
            if not going:
                alive = False
                break
            self.state, alive = self._merged(going), True
        breaks = self.loops.pop()[0]
        if alive:
            alive = self.block(node.orelse)
        ends = [*([self.state] if alive else []), *breaks]
        if ends:
            self.state = self._merged(ends)
        return bool(ends)

    def _do_while(self, node: ast.While) -> bool:
        def turn() -> bool:
            self.eval(node.test)
            return self.block(node.body)

        if self.truth(self.eval(node.test)) is False:
            return self.block(node.orelse)
        return self._again(turn, node.orelse, "from a loop that is not followed")

    def _again(self, turn: Callable[[], bool], orelse: Sequence[ast.stmt], why: str) -> bool:
        """A loop whose turns nobody can count: none, one or many of them."""
        self.loops.append(([], []))
        breaks: list[State] = []
        for number in range(_SETTLE):
            before = self.state.copy()
            alive = turn()
            ends = [*([self.state] if alive else []), *self.loops[-1][1]]
            breaks += self.loops[-1][0]
            self.loops[-1][0].clear()
            self.loops[-1][1].clear()
            after = self._merged([before, *ends], why)
            settled = not _differs_from(after, before)
            if number == _SETTLE - 1 and not settled:
                after = joined(before, _marked(before, after, self.tick()), why, self.tick())
            self.state = after
            if settled:
                break
        self.loops.pop()
        if breaks:
            self.state = self._merged([self.state, *breaks], why)
        return self.block(orelse)

    def _merged(self, states: Sequence[State], why: str = "depends on the turn of a loop") -> State:
        state = states[0]
        for other in states[1:]:
            state = joined(state, other, why, self.tick())
        return state

    def _do_break(self, node: ast.Break) -> bool:
        if self.loops:
            self.loops[-1][0].append(self.state)
        return False

    def _do_continue(self, node: ast.Continue) -> bool:
        if self.loops:
            self.loops[-1][1].append(self.state)
        return False


def _loaded(target: ast.expr) -> ast.expr:
    """The same expression, read instead of written."""
    if isinstance(target, ast.Name):
        return ast.Name(target.id, ast.Load())
    if isinstance(target, ast.Attribute):
        return ast.copy_location(ast.Attribute(target.value, target.attr, ast.Load()), target)
    if isinstance(target, ast.Subscript):
        return ast.copy_location(ast.Subscript(target.value, target.slice, ast.Load()), target)
    return target


def _differs(state: State, time: int) -> bool:
    """Whether joining at a time left something unknown in a configuration or in a name."""
    return any(
        cell.place.time == time and isinstance(cell.value, Unknown)
        for fields in (*(r.fields for r in state.heap.values()), *state.frames.values())
        for cell in fields.values()
    )


def _differs_from(after: State, before: State) -> bool:
    for number, record in after.heap.items():
        old = before.heap.get(number)
        if old is not None and (record.opaque != old.opaque or _other_cells(record.fields, old.fields)):
            return True
    return any(_other_cells(names, before.frames.get(number, {})) for number, names in after.frames.items() if number in before.frames)


def _other_cells(a: dict[object, Cell] | dict[str, Cell], b: dict[object, Cell] | dict[str, Cell]) -> bool:
    if a.keys() != b.keys():
        return True
    return any(not _alike(a[name].value, b[name].value) for name in a)  # type: ignore[index]


def _alike(a: Value, b: Value) -> bool:
    return same(a, b) or (isinstance(a, Unknown) and isinstance(b, Unknown) and a.may == b.may)


def _marked(before: State, after: State, time: int) -> State:
    """``after``, with everything unknown that was written since ``before``."""
    state = after.copy()
    for number, record in state.heap.items():
        old = before.heap.get(number)
        _mark(record.fields, old.fields if old is not None else {}, time)
    for number, names in state.frames.items():
        _mark(names, before.frames.get(number, {}), time)
    return state


def _mark(fields: dict[object, Cell] | dict[str, Cell], old: dict[object, Cell] | dict[str, Cell], time: int) -> None:
    for name, cell in list(fields.items()):
        if old.get(name) is not cell and cell.place.time:  # type: ignore[call-overload]
            fields[name] = Cell(Unknown("changed in between", may_be(cell.value)), Place(cell.place.node, time, cell.place.key))  # type: ignore[index]


__all__ = ["NONE", "Record", "Ref", "Several", "Statements"]
