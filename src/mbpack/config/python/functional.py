"""Functions made of functions in a followed program: ``functools.partial``, ``functools.reduce`` and decorators."""

from __future__ import annotations

import ast
from typing import Any, Final

from mbpack.config.python.calls import Arguments, Calls
from mbpack.config.python.values import NOTHING, Cell, Function, Place, Record, Unknown, Value

_FUNCTION: Final = ("function",)
#: Decorators that leave what a function does as it is.
_TRANSPARENT: Final = frozenset(
    ("cache", "lru_cache", "record", "wraps", "staticmethod", "no_grad", "inference_mode", "experimental_fn")
)


class Functional(Calls):
    """Calls what such functions hold."""

    def call(self, function: Value, arguments: Arguments, node: ast.Call) -> Value:
        """Call something; a partial function calls the one that it holds."""
        record = self.record(function)
        if record is None or record.kind != "partial":
            return super().call(function, arguments, node)
        if record.opaque:
            return self.lost(arguments, node, ast.unparse(node.func))
        held = dict(record.fields)
        inner = held.pop(_FUNCTION).value
        cells = [held.pop(index) for index in range(len(held)) if index in held]
        whole = Arguments(
            [*(cell.value for cell in cells), *arguments.values],
            {**held, **arguments.named},
            arguments.more,
            [*(cell.place.node for cell in cells), *arguments.nodes],
        )
        return self.call(inner, whole, node)

    def partial(self, arguments: Arguments) -> Value:
        """``functools.partial(function, ...)``."""
        if not arguments.values:
            return NOTHING
        fields: dict[Any, Cell] = {_FUNCTION: Cell(arguments.values[0], Place(None, self.tick())), **arguments.named}
        for index, value in enumerate(arguments.values[1:]):
            fields[index] = Cell(value, self.place(arguments.nodes[index + 1]))
        opaque = "arguments that are not known" if arguments.more else ""
        return self.new(Record("partial", fields=fields, opaque=opaque))

    def reduce(self, arguments: Arguments, node: ast.Call) -> Value:
        """``functools.reduce(function, items, start)``."""
        items = self.items_of(arguments.values[1]) if 2 <= len(arguments.values) <= 3 else None
        if items is None or arguments.more or arguments.named or len(items) > 200:
            return self.lost(arguments, node, "reduce")
        todo = [*arguments.values[2:], *items]
        if not todo:
            return NOTHING
        value = todo[0]
        for item in todo[1:]:
            value = self.call(arguments.values[0], Arguments([value, item]), node)
        return value

    def decorated(self, node: ast.FunctionDef | ast.AsyncFunctionDef, function: Function) -> Value:
        """A function behind its decorators: those of the project are followed."""
        value: Value = function
        for decorator in reversed(node.decorator_list):
            if self._transparent(decorator):
                continue
            wrapper = self.eval(decorator)
            if not isinstance(wrapper, Function) or not isinstance(value, Function):
                return Unknown("a decorated function")
            value = self.enter(wrapper, Arguments([value]))
        return value

    def _transparent(self, decorator: ast.expr) -> bool:
        """Decorators that leave what a function does as it is."""
        return ast.unparse(decorator).partition("(")[0].rpartition(".")[2] in _TRANSPARENT


__all__ = ["Functional"]
