"""The ways through a followed program: branches, loops and what may fail."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mbpack.config.python.calls import Calls
from mbpack.config.python.machine import SETTINGS, Condition
from mbpack.config.python.values import NONE, NOTHING, Cell, Place, Ref, State, Unknown, Value, joined, may_be, same

_LOOPS = 64  #: turns of a loop that are followed one by one
_SETTLE = 6  #: turns after which a loop that nobody can count has settled, or is given up


class Flow(Calls):
    """Statements that hold others. Each method returns whether the program goes on behind them."""

    def decide(self, test: ast.expr) -> bool | None:
        """Whether a condition holds; one that is not known is kept."""
        value = self.eval(test)
        truth = self.truth(value)
        text = ast.unparse(test)
        self.tested[text] = value
        if truth is None:
            self.conditions.setdefault(text, Condition(text, test.lineno if self.module == "__main__" else 0, test))
        else:
            self.decided[text] = truth
        return truth

    def _do_if(self, node: ast.If) -> bool:
        truth = self.decide(node.test)
        text = ast.unparse(node.test)
        if truth and self.defaults and _refuses(node.body) and (asked := _asked_for(node.test)):
            for place in asked:  # with its default the program says that it must be given: so it is
                if not self._is_setting(place):
                    self.assign_to(place, Unknown(f"`{text}` ends the program"), None)
            return self.block(node.orelse)
        if truth is not None:
            return self.block(node.body if truth else node.orelse)
        return self._ways([lambda: self.block(node.body), lambda: self.block(node.orelse)], f"depends on `{text}`", text)

    def _is_setting(self, place: ast.expr) -> bool:
        """Whether a place belongs to the configuration itself."""
        record = self.record(self.eval(place.value)) if isinstance(place, ast.Attribute) else None
        return record is not None and record.kind in SETTINGS

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
            ways.append(lambda body=case.body: self.block(body))
        return self._ways([*ways, lambda: True], "depends on a match")

    def _do_try(self, node: ast.Try) -> bool:
        if not node.handlers:
            return self.block(node.body) and self.block(node.finalbody)
        imports = all(isinstance(statement, (ast.Import, ast.ImportFrom, ast.Pass)) for statement in node.body)
        if imports and not any(_of_a_release(statement) for statement in node.body):
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

        ways = [tried, *((lambda handler=handler: failed(handler)) for handler in node.handlers)]
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
        if any(ast.unparse(item.context_expr).partition("(")[0].rpartition(".")[2] == "suppress" for item in node.items):
            handler = ast.ExceptHandler(None, None, [ast.Pass()])
            return self.block([ast.copy_location(ast.Try(node.body, [handler], [], []), node)])
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
        newest = self.ids
        for number in range(_SETTLE):
            before = self.state.copy()
            alive = turn()
            ends = [*([self.state] if alive else []), *self.loops[-1][1]]
            breaks += self.loops[-1][0]
            self.loops[-1][0].clear()
            self.loops[-1][1].clear()
            after = self._merged([before, *ends], why)
            settled = not _differs_from(after, before, newest)
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


def _of_a_release(statement: ast.stmt) -> bool:
    """Whether an import may fail in some release: that of a recipe."""
    return isinstance(statement, ast.ImportFrom) and (statement.module or "").startswith(
        ("megatron.bridge.recipes", "megatron.bridge.perf")
    )


def _differs(state: State, time: int) -> bool:
    """Whether joining at a time left something unknown in a configuration or in a name."""
    return any(
        cell.place.time == time and isinstance(cell.value, Unknown)
        for fields in (*(r.fields for r in state.heap.values()), *state.frames.values())
        for cell in fields.values()
    )


def _differs_from(after: State, before: State, newest: int) -> bool:
    """Whether a turn of a loop left something other than the turn before.

    Objects that turns make (those with a number above ``newest``) are new ones each time, and are reached from outside the
    turn through unknown values only. So it makes no difference which of them an unknown value may be, nor what they hold;
    only which older objects can be reached through them.
    """
    for number, record in after.heap.items():
        old = before.heap.get(number)
        if old is None or old is record or number > newest:
            continue
        if record.opaque != old.opaque or _other_cells(record.fields, old.fields, newest):
            return True
    for number, names in after.frames.items():
        held = before.frames.get(number)
        if held is not None and held is not names and number <= newest and _other_cells(names, held, newest):
            return True
    return _reached(after, newest) != _reached(before, newest)


def _reached(state: State, newest: int) -> set[int]:
    """The older objects that objects made since can lead to."""
    made = [Ref(number) for number in state.heap if number > newest]
    return {number for number in state.reachable(made) if number <= newest}


def _other_cells(a: Mapping[Any, Cell], b: Mapping[Any, Cell], newest: int) -> bool:
    if a.keys() != b.keys():
        return True
    return any(cell is not b[name] and not _alike(cell.value, b[name].value, newest) for name, cell in a.items())


def _alike(a: Value, b: Value, newest: int) -> bool:
    if isinstance(a, Unknown) and isinstance(b, Unknown):
        return a.may == b.may or all(number > newest for number in a.may ^ b.may)
    return same(a, b)


def _marked(before: State, after: State, time: int) -> State:
    """``after``, with everything unknown that was written since ``before``."""
    state = after.copy()
    for number, record in list(state.heap.items()):
        old = before.heap.get(number)
        if old is not record:
            _mark(state.own(number).fields, old.fields if old is not None else {}, time)
    for number, names in list(state.frames.items()):
        if names is not before.frames.get(number):
            _mark(state.names(number), before.frames.get(number, {}), time)
    return state


def _mark(fields: dict[object, Cell] | dict[str, Cell], old: dict[object, Cell] | dict[str, Cell], time: int) -> None:
    for name, cell in list(fields.items()):
        if old.get(name) is not cell and cell.place.time:  # type: ignore[call-overload]
            fields[name] = Cell(Unknown("changed in between", may_be(cell.value)), Place(cell.place.node, time, cell.place.key))  # type: ignore[index]


def _refuses(body: Sequence[ast.stmt]) -> bool:
    """Whether statements end the program with a complaint."""
    last = body[-1]
    if isinstance(last, ast.Expr) and isinstance(last.value, ast.Call):
        return ast.unparse(last.value.func).rpartition(".")[2] in ("error", "exit", "abort")
    return isinstance(last, ast.Raise)


def _asked_for(test: ast.expr) -> list[ast.expr]:
    """The places that a condition finds missing: ``x is None``, ``not x``, ``x == ""``, and any of these joined by ``or``."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or):
        return [place for part in test.values for place in _asked_for(part)]
    place: ast.expr | None = None
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        place = test.operand
    elif isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], (ast.Is, ast.Eq)):
        other = test.comparators[0]
        place = test.left if isinstance(other, ast.Constant) and other.value in (None, "") else None
    return [place] if isinstance(place, (ast.Name, ast.Attribute)) else []
