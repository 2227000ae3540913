"""Statements of upstream's start-up: what they check and what they derive."""

from __future__ import annotations

import ast
from typing import Any

from mbpack.learn.calls import Calls
from mbpack.learn.classes import Classes
from mbpack.learn.nodes import FALSE, NULL, TRUE, Node, binary, const, is_const, joined, negate, opened, truth
from mbpack.learn.record import Beyond, Closure, Mapping, Obj, Row, Scope, Seq
from mbpack.learn.sources import Function, Sources, imported

_ENDS = ("continue", "break", "raise", "return")
_GROW = ("append", "add", "extend", "update", "insert", "discard", "remove", "pop", "clear", "sort")


class Execution(Calls):
    """Runs through functions without values."""

    def __init__(self, sources: Sources, classes: Classes, versions: dict[str, tuple[int, ...]]) -> None:
        super().__init__(sources, classes)
        self.versions = versions
        #: What was left out: place and reason.
        self.beyond: list[tuple[str, str]] = []

    def block(self, function: Function, owner: Obj, args: list[Any]) -> list[Row]:
        """The rows of a method that runs on an object."""
        self.call_function(function, [owner, *args], {})
        return self.record.rows

    def body(self, function: Function, scope: Scope) -> Any:
        self.run(function.node.body)
        result: Any = NULL
        for condition, held in reversed(scope.returns):
            result = held if truth(condition) is True else self.merged(condition, held, result)
        if isinstance(result, tuple) and not hasattr(result, "_fields") and not self.record.pure:
            outer = self.record.guards(0, scope.base, [s for s in self.record.scopes if s is not scope])
            return self.record.let(result, outer)
        return result

    # ------------------------------------------------------------------ statements

    def run(self, body: list[ast.stmt]) -> str | None:
        """Run through statements; tells how they end before the last, if they do."""
        for statement in body:
            do = getattr(self, f"_do_{type(statement).__name__}", None)
            try:
                if do is None:
                    raise Beyond(f"a {type(statement).__name__}")
                end = do(statement)
            except Beyond as beyond:
                if self.record.pure:
                    raise
                self._forget(statement, str(beyond))
                end = None
            if end is not None:
                return str(end)
        return None

    def _forget(self, statement: ast.stmt, reason: str) -> None:
        """What a statement assigns is not known afterwards."""
        if self.record.pure:
            raise Beyond(reason)
        self.beyond.append((f"{self.place}:{statement.lineno}", reason))
        for node in ast.walk(statement):
            targets: list[ast.expr] = []
            if isinstance(node, ast.Assign):
                targets = node.targets
            elif isinstance(node, (ast.AugAssign, ast.AnnAssign, ast.For)):
                targets = [node.target]
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _GROW:
                targets = [node.func.value]
            for target in targets:
                for part in target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]:
                    if isinstance(part, ast.Name):
                        self.scope.names[part.id] = opened(reason)
                    elif isinstance(part, ast.Attribute):
                        held = self.value(part.value)
                        if isinstance(held, Obj):
                            self.write(held, part.attr, opened(reason), plain=True)
        if any(isinstance(node, (ast.Return,)) for node in ast.walk(statement)):
            live = opened(reason)
            scope = self.scope
            scope.returns.append((live, opened(reason)))
            scope.live = live if scope.live is None else joined("and", [scope.live, live])

    def _do_Pass(self, s: ast.Pass) -> None:
        return None

    def _do_Expr(self, s: ast.Expr) -> None:
        if isinstance(s.value, ast.Constant):
            return
        if isinstance(s.value, ast.Call) and isinstance(s.value.func, ast.Attribute) and s.value.func.attr in _GROW:
            if self._grow(s.value, s.value.func):
                return
        value = self.value(s.value)
        if isinstance(value, tuple) and not hasattr(value, "_fields") and value[0] in ("do", "fn", "item"):
            self.record.emit("use", None, value, self.place)

    def _grow(self, call: ast.Call, func: ast.Attribute) -> bool:
        """A list or set that gets another entry."""
        if func.attr == "extend" and len(call.args) == 1 and isinstance(func.value, ast.Name):
            self._assign_name(func.value.id, binary("+", self.plain(func.value), ("fn", "list", self.plain(call.args[0]))))
            return True
        if func.attr not in ("append", "add") or len(call.args) != 1:
            raise Beyond(f"a call of .{func.attr}")
        holder = func.value
        item = self.value(call.args[0])
        if isinstance(holder, ast.Attribute):
            held = self.value(holder.value)
            if isinstance(held, Obj):
                new = binary("+", ("k", held.child(holder.attr)), ("list", self.node(item)))
                self.write(held, holder.attr, new, plain=True)
                return True
        if isinstance(holder, ast.Name):
            scope = self.scope
            held = scope.names.get(holder.id)
            loops = [s for s in self.record.scopes if s.kind == "each"]
            if loops and isinstance(held, tuple) and held[0] == "r":
                self.record.emit("add", held, self.node(self.captured(item)), self.place)
                return True
            if isinstance(held, Seq) and not loops:
                condition = self.record.condition(scope)
                entry = self.captured(item)
                known = truth(condition)
                if known is not True:
                    entry = ("when", condition, self.node(entry))
                scope.names[holder.id] = Seq(held.kind, [*held.items, entry])
                return True
        raise Beyond("a list that grows")

    def _do_Import(self, s: ast.Import) -> None:
        self._bind_imports(s)

    def _do_ImportFrom(self, s: ast.ImportFrom) -> None:
        self._bind_imports(s)

    def _bind_imports(self, s: ast.Import | ast.ImportFrom) -> None:
        module = self.scope.module
        if module is not None:
            for name, (holder, inner) in imported(module, s):
                self.scope.names[name] = self.static(self.sources.imported(holder, inner))

    def _do_FunctionDef(self, s: ast.FunctionDef) -> None:
        module = self.scope.module
        if module is not None:
            self.scope.names[s.name] = Closure(Function(module, s), self.scope.names)

    def _do_Assign(self, s: ast.Assign) -> None:
        value = self.value(s.value)
        for target in s.targets:
            self.assign(target, value)

    def _do_AnnAssign(self, s: ast.AnnAssign) -> None:
        if s.value is not None:
            self.assign(s.target, self.value(s.value))

    def _do_AugAssign(self, s: ast.AugAssign) -> None:
        load = ast.BinOp(_as_load(s.target), s.op, s.value)
        self.assign(s.target, self.value(load))

    def assign(self, target: ast.expr, value: Any) -> None:
        """Give a value to a name, a field, or several of them."""
        if isinstance(target, ast.Name):
            self._assign_name(target.id, value)
        elif isinstance(target, ast.Attribute):
            held = self.value(target.value)
            if isinstance(held, Obj):
                self.write(held, target.attr, value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            items = self.static_items(value)
            node = self.record.let(self.node(value)) if items is None else NULL
            for index, part in enumerate(target.elts):
                self.assign(part, items[index] if items is not None and index < len(items) else ("item", node, const(index)))
        elif isinstance(target, ast.Subscript):
            raise Beyond("an entry of a collection is set")

    def _assign_name(self, name: str, value: Any) -> None:
        scope = self.scope
        guards = self.record.guards(scope.base, None, self.record.scopes[self.record.scopes.index(scope) :])
        old = scope.names.get(name)
        new = self.captured(value)
        if not guards or old is None or self.record.pure:
            scope.names[name] = new
            return
        condition = joined("and", [node if on else negate(node) for node, on in guards])
        if isinstance(old, Obj) and isinstance(new, Obj) and old.path == new.path:
            return
        if (
            isinstance(new, (Seq, Mapping))
            and isinstance(old, Seq)
            and not old.items
            and not [i for i in scope.names if i == name]
        ):
            scope.names[name] = new
            return
        merged = self.merged(condition, new, old)
        if isinstance(merged, tuple) and not hasattr(merged, "_fields"):
            outer = self.record.guards(0, scope.base, self.record.scopes[: self.record.scopes.index(scope)])
            merged = self.record.let(merged, outer)
        scope.names[name] = merged

    # ------------------------------------------------------------------ branches

    def _do_If(self, s: ast.If) -> str | None:
        test = self.truth(s.test)
        known = truth(test)
        if known is not None:
            return self.run(s.body if known else s.orelse)
        test = self.record.let(test)
        self.record.stack.append((test, True))
        first = self.run(s.body)
        self.record.stack[-1] = (test, False)
        second = self.run(s.orelse)
        self.record.stack.pop()
        if first is None or second is None:
            return None
        return min(first, second, key=_ENDS.index) if "raise" not in (first, second) else second if first == "raise" else first

    def _do_Assert(self, s: ast.Assert) -> None:
        test = self.truth(s.test)
        if truth(test) is not True:
            self.refuse(negate(test))

    def _do_Raise(self, s: ast.Raise) -> str:
        self.refuse(TRUE)
        return "raise"

    def refuse(self, condition: Node) -> None:
        """The start-up stops here."""
        self.record.emit("refuse", None, condition, self.place)

    def _leave(self, kind: str, value: Any = None) -> str:
        scopes = reversed(self.record.scopes)
        wanted = {"return": ("function",), "break": ("loop", "each"), "continue": ("turn",)}[kind]
        scope = next(scope for scope in scopes if scope.kind in wanted)
        if scope.kind == "each":
            raise Beyond("a loop over values that ends early")
        if kind == "return" and any(s.kind == "each" for s in self.record.scopes[self.record.scopes.index(scope) :]):
            raise Beyond("a function that ends in a loop over values")
        condition = self.record.condition(scope)
        if kind == "return":
            scope.returns.append((condition, self.captured(value)))
        gone = negate(condition)
        scope.live = gone if scope.live is None else joined("and", [scope.live, gone])
        if truth(scope.live) is False and kind != "return":
            scope.live = FALSE
        return kind

    def _do_Return(self, s: ast.Return) -> str:
        return self._leave("return", NULL if s.value is None else self.value(s.value))

    def _do_Break(self, s: ast.Break) -> str:
        return self._leave("break")

    def _do_Continue(self, s: ast.Continue) -> str:
        return self._leave("continue")

    # ------------------------------------------------------------------ loops and the rest

    def _do_For(self, s: ast.For) -> str | None:
        held = self.value(s.iter)
        items = self.static_items(held)
        if items is not None and len(items) <= 400:
            return self._unrolled(s, items)
        if self.record.pure:
            raise Beyond("a loop inside an expression")
        if s.orelse or any(isinstance(n, (ast.Break, ast.Return)) for n in ast.walk(s)):
            raise Beyond("a loop over values that ends early")
        node = self.record.let(self.node(held))
        assigned = _assigned(s.body)
        scope = self.scope
        for name in _grown(s.body):
            grown = scope.names.get(name)
            if isinstance(grown, Seq):
                self.record.registers += 1
                register = ("r", self.record.registers)
                outer = self.record.guards(0, None)
                self.record.emit("let", register, self.node(grown), guards=outer)
                scope.names[name] = register
        for name in assigned:
            if name in scope.names:
                scope.names[name] = opened("a value of an earlier turn")
        variable = self.record.variable()
        row = self.record.emit("each", variable, node, self.place)
        rows, self.record.rows = self.record.rows, row.rows
        stack, self.record.stack = self.record.stack, []
        scopes, self.record.scopes = self.record.scopes, [_inner(one) for one in self.record.scopes]
        self.record.scopes.append(Scope("each", 0))
        self.record.scopes.append(Scope("turn", 0))
        try:
            self.bind(s.target, variable)
            self.run(s.body)
        finally:
            self.record.rows, self.record.stack, self.record.scopes = rows, stack, scopes
        for name in [*assigned, *_assigned([ast.Assign([s.target], ast.Constant(None))])]:
            scope.names[name] = opened("a value of the last turn")
        return None

    def _unrolled(self, s: ast.For, items: list[Any]) -> str | None:
        loop = Scope("loop", len(self.record.stack))
        self.record.scopes.append(loop)
        ended: str | None = None
        try:
            for item in items:
                turn = Scope("turn", len(self.record.stack))
                self.record.scopes.append(turn)
                try:
                    self.bind(s.target, item)
                    ended = self.run(s.body)
                finally:
                    self.record.scopes.remove(turn)
                if ended in ("break", "return", "raise"):
                    break
        finally:
            self.record.scopes.remove(loop)
        return ended if ended in ("return", "raise") and not s.orelse else None

    def _do_Try(self, s: ast.Try) -> str | None:
        imports = all(isinstance(one, (ast.Import, ast.ImportFrom)) for one in s.body)
        if imports or not s.handlers:
            return self.run(s.body)
        statement = s.body[0]
        if len(s.body) != 1 or s.orelse or s.finalbody or not isinstance(statement, (ast.Assign, ast.Return, ast.Expr)):
            raise Beyond("errors that are caught")
        rows = len(self.record.rows)
        value = self.value(statement.value) if statement.value is not None else NULL
        if any(row.kind in ("refuse", "each", "call", "set") for row in self.record.rows[rows:]):
            del self.record.rows[rows:]
            raise Beyond("errors of a function that are caught")
        node = self.node(value)
        if node[0] in ("c", "k", "r", "list", "sym", "open"):
            failed: Node = FALSE if node[0] != "open" else opened("whether an error comes up")
        else:
            failed = self.record.let(("fails", node))
        if not is_const(failed):
            self.record.stack.append((failed, True))
            self.run(s.handlers[0].body)
            self.record.stack[-1] = (failed, False)
        try:
            if isinstance(statement, ast.Assign):
                for target in statement.targets:
                    self.assign(target, value)
            elif isinstance(statement, ast.Return):
                return self._leave("return", value)
        finally:
            if not is_const(failed):
                self.record.stack.pop()
        return None


def _inner(scope: Scope) -> Scope:
    """A scope seen from inside a loop over values: its conditions hold for the loop as a whole."""
    if scope.kind == "function":
        inner = Scope("function", 0, None, scope.place, scope.returns, scope.names, scope.module, scope.owner, scope.self_)
        return inner
    return Scope(scope.kind, 0, None, scope.place)


def _assigned(body: list[ast.stmt]) -> list[str]:
    """Names that statements assign."""
    found: list[str] = []
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found.append(node.id)
            elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                found.append(node.target.id)
    return list(dict.fromkeys(found))


def _grown(body: list[ast.stmt]) -> list[str]:
    """Names of lists that statements append to."""
    found: list[str] = []
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("append", "add"):
                if isinstance(node.func.value, ast.Name):
                    found.append(node.func.value.id)
    return list(dict.fromkeys(found))


def _as_load(target: ast.expr) -> ast.expr:
    if isinstance(target, ast.Name):
        return ast.Name(target.id, ast.Load())
    if isinstance(target, ast.Attribute):
        return ast.Attribute(target.value, target.attr, ast.Load())
    if isinstance(target, ast.Subscript):
        return ast.Subscript(target.value, target.slice, ast.Load())
    return target
