"""What expressions of a followed program are worth."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from mbpack.config.python.machine import Machine
from mbpack.config.python.operators import BINARY, COMPARE, UNARY
from mbpack.config.python.values import (
    NOTHING,
    Cell,
    Class,
    Function,
    Known,
    Record,
    Ref,
    Several,
    Symbol,
    Unknown,
    Value,
    joined,
    may_be,
    same,
)

#: Numbers and texts beyond these are not worked out.
_LARGEST, _LONGEST = 10**30, 100_000


class Expressions(Machine):
    """Evaluates expressions."""

    def eval(self, node: ast.expr) -> Value:
        """The value of an expression."""
        self.step()
        if self.forced and isinstance(node, (ast.Name, ast.Attribute, ast.Compare, ast.Call, ast.BoolOp, ast.Subscript)):
            found = self.forced.get(ast.unparse(node))
            if found is not None:
                return found
        handler = getattr(self, f"_eval_{type(node).__name__.lower()}", None)
        if handler is None:
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr) and not isinstance(
                    node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
                ):
                    self.escape([self.eval(child)], "changed where it cannot be followed")
            return NOTHING
        value: Value = handler(node)
        return value

    # ------------------------------------------------------------------ atoms

    def _eval_constant(self, node: ast.Constant) -> Value:
        value = node.value
        if value is None or isinstance(value, (bool, int, float, str, bytes)):
            return Known(value)
        return Symbol("builtins.Ellipsis") if value is Ellipsis else NOTHING

    def _eval_name(self, node: ast.Name) -> Value:
        cell = self.find(node.id)
        if cell is not None:
            return cell.value
        if node.id == "__name__":
            return Known(self.module)
        if node.id == "__file__":
            return Unknown("the place of the file")
        return Symbol(f"builtins.{node.id}")

    def _eval_attribute(self, node: ast.Attribute) -> Value:
        return self.get(self.eval(node.value), node.attr)

    def _eval_namedexpr(self, node: ast.NamedExpr) -> Value:
        value = self.eval(node.value)
        self.bind(node.target.id, value)
        return value

    def _eval_lambda(self, node: ast.Lambda) -> Value:
        return Function(node, self.frame, self.module, None, self.defaults_of(node))

    def _eval_await(self, node: ast.Await) -> Value:
        return self.eval(node.value)

    def _eval_starred(self, node: ast.Starred) -> Value:
        return self.eval(node.value)

    # ------------------------------------------------------------------ containers

    def _eval_tuple(self, node: ast.Tuple) -> Value:
        items = self._elements(node.elts)
        return NOTHING if items is None else Several(tuple(items))

    def _eval_list(self, node: ast.List) -> Value:
        items = self._elements(node.elts)
        if items is None:
            return self.new(Record("list", opaque="its elements are not known"))
        return self.make_list(items, node)

    def _eval_set(self, node: ast.Set) -> Value:
        return self._distinct(self._eval_list(ast.List(node.elts, ast.Load())))

    def _distinct(self, held: Value) -> Value:
        """A set: what is in a list twice is in it once, in no order that is known."""
        record = self.record(held)
        values = [cell.value for cell in record.fields.values()] if record is not None else []
        if record is not None and any(same(one, other) for number, one in enumerate(values) for other in values[:number]):
            self.forget(record, "elements of a set that may be the same")
        return held

    def _elements(self, nodes: list[ast.expr]) -> list[Value] | None:
        """The values of elements; None where a starred one is not known."""
        found: list[Value] | None = []
        for node in nodes:
            value = self.eval(node)
            if isinstance(node, ast.Starred):
                more = self.items_of(value)
                found = None if more is None or found is None else [*found, *more]
            elif found is not None:
                found.append(value)
        return found

    def _eval_dict(self, node: ast.Dict) -> Value:
        record = Record("dict")
        for name, child in zip(node.keys, node.values, strict=True):
            value = self.eval(child)
            if name is None:
                other = self.record(value)
                if other is None or other.kind != "dict" or other.opaque:
                    self.escape([value], "unpacked where it cannot be followed")
                    record.fields, record.opaque = {}, "unpacked from something that is not known"
                else:
                    record.fields.update(other.fields)
                continue
            key = self.eval(name)
            if isinstance(key, Known):
                record.fields[key.value] = Cell(value, self.place(child, _key(name)))
            elif isinstance(key, Symbol):
                record.fields[key] = Cell(value, self.place(child, _key(name)))
            else:
                record.fields, record.opaque = {}, "a key is not known"
        return self.new(record)

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> Value:
        """Lists over known elements with one loop; the others are not known."""
        loop = node.generators[0]
        items = self.items_of(self.eval(loop.iter))
        if len(node.generators) > 1 or items is None or len(items) > 200:
            return self.new(Record("list", opaque="a comprehension over something that is not known"))
        before, self.frame = self.frame, self.new_frame(self.frame)
        found: list[Value] = []
        known = True
        for item in items:
            self.assign_to(loop.target, item, None)
            tests = [self.truth(self.eval(test)) for test in loop.ifs]
            if None in tests:
                known = False
            elif all(tests):
                found.append(self.eval(node.elt))
        self.frame = before
        if not known:
            return self.new(Record("list", opaque="a condition of a comprehension is not known"))
        return self.make_list(found)

    _eval_listcomp = _eval_generatorexp = _comprehension

    def _eval_setcomp(self, node: ast.SetComp) -> Value:
        return self._distinct(self._comprehension(node))

    def _eval_dictcomp(self, node: ast.DictComp) -> Value:
        pair = ast.copy_location(ast.Tuple([node.key, node.value], ast.Load()), node)
        pairs = self.items_of(self._comprehension(ast.copy_location(ast.ListComp(pair, node.generators), node)))
        record = Record("dict", opaque="a comprehension" if pairs is None else "")
        for item in pairs or ():
            key, value = item.items if isinstance(item, Several) else (NOTHING, NOTHING)
            if not isinstance(key, (Known, Symbol)):
                return self.new(Record("dict", opaque="a key is not known"))
            record.fields[key.value if isinstance(key, Known) else key] = Cell(value, self.place(None))
        return self.new(record)

    # ------------------------------------------------------------------ operators

    def _eval_binop(self, node: ast.BinOp) -> Value:
        return self.operate(type(node.op), self.eval(node.left), self.eval(node.right))

    def operate(self, kind: type[ast.operator], left: Value, right: Value) -> Value:
        """An operator on two values."""
        try:
            a, b = self.plain(left), self.plain(right)
        except ValueError:
            return self._unknown(left, right)
        if kind is ast.Mult and (isinstance(a, (str, list, tuple)) or isinstance(b, (str, list, tuple))):
            size = len(a) if not isinstance(a, (int, float)) else len(b) if not isinstance(b, (int, float)) else 0
            times = b if isinstance(b, int) else a if isinstance(a, int) else 0
            if size * max(times, 0) > _LONGEST:
                return NOTHING
        if kind is ast.Pow:
            if not (isinstance(a, (int, float)) and isinstance(b, int) and 0 <= b <= 64 and abs(a) < 1e6):
                return NOTHING
            return self._sized(a**b)
        work = BINARY.get(kind)
        if work is None:
            return NOTHING
        try:
            return self._sized(work(a, b))
        except (TypeError, ValueError, ArithmeticError):
            return NOTHING

    def _sized(self, value: Any) -> Value:
        if isinstance(value, int) and abs(value) > _LARGEST:
            return NOTHING
        if isinstance(value, (str, bytes, list, tuple)) and len(value) > _LONGEST:
            return NOTHING
        return self.of(value)

    def _eval_unaryop(self, node: ast.UnaryOp) -> Value:
        value = self.eval(node.operand)
        if isinstance(node.op, ast.Not):
            truth = self.truth(value)
            return self._unknown(value) if truth is None else Known(not truth)
        work = UNARY.get(type(node.op))
        if not isinstance(value, Known) or work is None:
            return self._unknown(value)
        try:
            return self._sized(work(value.value))
        except TypeError:
            return NOTHING

    def _eval_boolop(self, node: ast.BoolOp) -> Value:
        stop = isinstance(node.op, ast.Or)
        value: Value = NOTHING
        unsure: list[Value] = []
        for index, child in enumerate(node.values):
            value = self._perhaps(child) if unsure else self.eval(child)
            truth = self.truth(value)
            if truth is None:
                unsure.append(value)
            elif truth is stop:
                if not unsure:
                    return value
                return self._unknown(*unsure, value)
            elif index < len(node.values) - 1:
                continue
        return self._unknown(*unsure, value) if unsure else value

    def _eval_ifexp(self, node: ast.IfExp) -> Value:
        truth = self.decide(node.test)
        if truth is not None:
            return self.eval(node.body if truth else node.orelse)
        before = self.state.copy()
        one = self.eval(node.body)
        after, self.state = self.state, before
        other = self.eval(node.orelse)
        text = ast.unparse(node.test)
        self.state = joined(after, self.state, f"depends on `{text}`", self.tick())
        if same(one, other):
            return one
        self.conditions[text].matters = True
        return Unknown(f"depends on `{text}`", may_be(one) | may_be(other))

    def _eval_compare(self, node: ast.Compare) -> Value:
        left = self.eval(node.left)
        result: Value = Known(True)
        for kind, child in zip(node.ops, node.comparators, strict=True):
            right = self.eval(child)
            result = self._compared(kind, left, right)
            if not isinstance(result, Known) or not result.value:
                return result
            left = right
        return result

    def _compared(self, kind: ast.cmpop, left: Value, right: Value) -> Value:
        if isinstance(kind, (ast.Is, ast.IsNot)):
            verdict = self._identical(left, right)
            return self._unknown(left, right) if verdict is None else Known(verdict is isinstance(kind, ast.Is))
        try:
            result = COMPARE[type(kind)](self.plain(left), self.plain(right))
        except (ValueError, TypeError):
            return self._unknown(left, right)
        return Known(bool(result))

    def _identical(self, left: Value, right: Value) -> bool | None:
        if isinstance(left, Known) and isinstance(right, Known):
            return left.value is right.value or (type(left.value) is type(right.value) and left.value == right.value)
        if isinstance(left, Known) and left.value is None:
            left, right = right, left
        if isinstance(right, Known) and right.value is None:
            if isinstance(left, (Symbol, Several, Function, Class)) or (isinstance(left, Unknown) and left.truth):
                return False
            record = self.record(left)
            if record is None:
                return None
            if record.kind == "part":
                return False if self.exists(left) else None
            return False
        if isinstance(left, Ref) and isinstance(right, Ref) and left.id == right.id:
            return True
        return None

    def exists(self, part: Value) -> bool:
        """Whether a part of a recipe is surely an object."""
        record = self.record(part)
        if record is None or record.home is None:
            return False
        if any(cell.place.time for cell in record.fields.values()):
            return True  # attributes were set on it
        owner, path = record.home
        return owner in self.state.heap and self.looked_up(owner, path[0]) is True

    def _unknown(self, *values: Value) -> Unknown:
        why = next((value.why for value in values if isinstance(value, Unknown) and value.why), "")
        return Unknown(why, frozenset(number for value in values for number in may_be(value)))

    # ------------------------------------------------------------------ texts and subscripts

    def _eval_joinedstr(self, node: ast.JoinedStr) -> Value:
        text = ""
        unknown: Value | None = None
        for part in node.values:
            value = self.eval(part)
            if isinstance(value, Known) and isinstance(value.value, str):
                text += value.value
            else:
                unknown = unknown or value
        return Known(text) if unknown is None else Unknown(unknown.why if isinstance(unknown, Unknown) else "")

    def _eval_formattedvalue(self, node: ast.FormattedValue) -> Value:
        value = self.eval(node.value)
        spec = self.eval(node.format_spec) if node.format_spec is not None else Known("")
        if not isinstance(value, Known) or not isinstance(spec, Known):
            return self._unknown(value)
        forms: dict[int, Callable[[Any], Any]] = {114: repr, 115: str, 97: ascii}
        convert = forms.get(node.conversion)
        shown = value.value if convert is None else convert(value.value)
        try:
            return Known(format(shown, spec.value))
        except (TypeError, ValueError):
            return NOTHING

    def _eval_subscript(self, node: ast.Subscript) -> Value:
        owner = self.eval(node.value)
        if isinstance(node.slice, ast.Slice):
            return self._sliced(owner, node.slice)
        return self.item(owner, self.eval(node.slice))

    def item(self, owner: Value, key: Value) -> Value:
        """``owner[key]``."""
        if isinstance(owner, Symbol):
            return self.symbol_item(owner, key)
        if isinstance(owner, (Several, Known)) and isinstance(key, Known) and isinstance(key.value, int):
            items = self.items_of(owner)
            if items is not None and -len(items) <= key.value < len(items):
                return items[key.value]
            return NOTHING
        record = self.record(owner)
        if record is None:
            return self._unknown(owner)
        name = key.value if isinstance(key, Known) else key if isinstance(key, Symbol) else None
        if name is None and not (isinstance(key, Known)):
            return Unknown(key.why if isinstance(key, Unknown) else "", frozenset(self.state.reachable([owner])))
        if record.kind == "list" and isinstance(name, int) and name < 0:
            name += len(record.fields)
        cell = record.fields.get(name)
        if cell is not None:
            return cell.value
        return Unknown(record.opaque or "no such key")

    def symbol_item(self, owner: Symbol, key: Value) -> Value:
        """``os.environ[...]`` and the like."""
        return NOTHING

    def _sliced(self, owner: Value, node: ast.Slice) -> Value:
        bounds = [self.eval(part) if part is not None else Known(None) for part in (node.lower, node.upper, node.step)]
        try:
            held, (low, high, step) = self.plain(owner), [self.plain(bound) for bound in bounds]
            return self.of(held[low:high:step])
        except (ValueError, TypeError):
            return self._unknown(owner)

    # ------------------------------------------------------------------ conditions

    def truth(self, value: Value) -> bool | None:
        """Whether a value counts as true, None where that is not known."""
        if isinstance(value, Known):
            return bool(value.value)
        if isinstance(value, Several):
            return bool(value.items)
        if isinstance(value, (Function, Class)):
            return True
        if isinstance(value, Symbol):
            return True if value.path == "typing.TYPE_CHECKING" else None
        if isinstance(value, Unknown):
            return value.truth
        record = self.record(value)
        if record is None:
            return None
        if record.kind in ("list", "dict"):
            return bool(record.fields) if record.fields or not record.opaque else None
        if record.kind == "part":
            return True if self.exists(value) else None
        return True

    def decide(self, test: ast.expr) -> bool | None:
        """Whether a condition holds; one that is not known is kept for :attr:`conditions`."""
        raise NotImplementedError

    def _perhaps(self, node: ast.expr) -> Value:
        """An expression that may not be evaluated: what it changes is unknown afterwards."""
        before = self.state.copy()
        value = self.eval(node)
        self.state = joined(self.state, before, "depends on a condition", self.tick())
        return value

    def defaults_of(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> tuple[tuple[str, Value], ...]:
        """The defaults of parameters."""
        raise NotImplementedError

    def assign_to(self, target: ast.expr, value: Value, node: ast.expr | None) -> None:
        """Assign a value to a target."""
        raise NotImplementedError


def _key(node: ast.expr) -> tuple[int, int, int]:
    return node.lineno, node.col_offset, node.end_col_offset or node.col_offset


__all__ = ["Expressions"]
