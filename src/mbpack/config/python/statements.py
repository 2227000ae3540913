"""Statements of a followed program: what names and objects hold after them."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from mbpack.config.python.flow import Flow
from mbpack.config.python.functional import Functional
from mbpack.config.python.machine import SETTINGS, Ended
from mbpack.config.python.values import (
    NOTHING,
    Class,
    Function,
    Known,
    Place,
    Ref,
    Symbol,
    Unknown,
    Value,
    may_be,
)


class Statements(Flow, Functional):
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
            owner = self._holder(target.value)
            end = target.end_col_offset or 0
            key = (target.end_lineno or target.lineno, end - len(target.attr.encode()), end)
            self.write(owner, target.attr, value, self.place(node if node is not None else target, key))
        elif isinstance(target, ast.Subscript):
            self._assign_item(target, value, node)
        elif isinstance(target, (ast.Tuple, ast.List)):
            self._unpack(target.elts, value, node)
        elif isinstance(target, ast.Starred):
            self.assign_to(target.value, Unknown("", may_be(value)), None)

    def _holder(self, node: ast.expr) -> Value:
        """The object whose attribute is set; where a recipe holds null or a text there, a part that shows the mistake."""
        owner = self.eval(node)
        if isinstance(owner, Known) and isinstance(node, ast.Attribute):
            above = self.eval(node.value)
            record = self.record(above)
            if isinstance(above, Ref) and record is not None and record.kind in SETTINGS and node.attr not in record.fields:
                return self.part(above, record, node.attr)
        return owner

    def write(self, owner: Value, name: str, value: Value, place: Place) -> None:
        """Set an attribute."""
        if isinstance(owner, Symbol):
            return  # a module of somebody else's
        self.set(owner, name, value, place)

    def _assign_item(self, target: ast.Subscript, value: Value, node: ast.expr | None) -> None:
        owner = self.eval(target.value)
        if isinstance(target.slice, ast.Slice):
            for number in may_be(owner):
                self.forget(self.state.own(number))
            return
        key = self.eval(target.slice)
        record = self.record(owner)
        if record is None:
            for number in may_be(owner):
                self.forget(self.state.own(number))
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
        starred = [index for index, target in enumerate(targets) if isinstance(target, ast.Starred)]
        if items is not None and len(starred) == 1 and len(items) >= len(targets) - 1:
            first, more = starred[0], len(items) - len(targets) + 1
            rest = self.make_list(items[first : first + more])
            for target, item in zip(targets, [*items[:first], rest, *items[first + more :]], strict=True):
                self.assign_to(target.value if isinstance(target, ast.Starred) else target, item, None)
            return
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
                        self.forget(self.state.own(number), "something was deleted from it")

    # ------------------------------------------------------------------ definitions

    def _do_functiondef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        function = Function(node, self.frame, self.module, None, self.defaults_of(node))
        self.bind(node.name, self.decorated(node, function))

    _do_asyncfunctiondef = _do_functiondef

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


def _loaded(target: ast.expr) -> ast.expr:
    """The same expression, read instead of written."""
    if isinstance(target, ast.Name):
        return ast.Name(target.id, ast.Load())
    if isinstance(target, ast.Attribute):
        return ast.copy_location(ast.Attribute(target.value, target.attr, ast.Load()), target)
    if isinstance(target, ast.Subscript):
        return ast.copy_location(ast.Subscript(target.value, target.slice, ast.Load()), target)
    return target


__all__ = ["Statements"]
