"""Lists, tuples, sets, mappings and what is made of their elements."""

from __future__ import annotations

import ast
from typing import Any

from mbpack.learn.expressions import Expressions
from mbpack.learn.nodes import NULL, TRUE, Node, const, is_const, joined, opened, truth
from mbpack.learn.record import Beyond, Closure, Mapping, Seq
from mbpack.learn.sources import Class, Function


class Collections(Expressions):
    """Reads collections."""

    def _sequence(self, kind: str, elements: list[ast.expr]) -> Any:
        items: list[Any] = []
        for element in elements:
            if isinstance(element, ast.Starred):
                held = self.value(element.value)
                if isinstance(held, Seq):
                    items.extend(held.items)
                elif isinstance(held, tuple) and held[0] in ("list", "tuple", "set"):
                    items.extend(held[1:])
                else:
                    return ("fn", "spread", *(self.node(item) for item in items), ("fn", "star", self.node(held)))
            else:
                items.append(self.value(element))
        return Seq(kind, items)

    def _List(self, e: ast.List) -> Any:
        return self._sequence("list", e.elts)

    def _Tuple(self, e: ast.Tuple) -> Any:
        return self._sequence("tuple", e.elts)

    def _Set(self, e: ast.Set) -> Any:
        return self._sequence("set", e.elts)

    def _Dict(self, e: ast.Dict) -> Any:
        items: list[tuple[Any, Any]] = []
        for key, held in zip(e.keys, e.values, strict=True):
            if key is None:
                inner = self.value(held)
                if not isinstance(inner, Mapping):
                    return opened("a mapping put together")
                items.extend(inner.items)
            else:
                items.append((self.value(key), self.value(held)))
        return Mapping(items)

    def _Subscript(self, e: ast.Subscript) -> Any:
        held = self.value(e.value)
        if isinstance(e.slice, ast.Slice):
            ends = [NULL if end is None else self.plain(end) for end in (e.slice.lower, e.slice.upper)]
            return ("slice", self.node(held), *ends)
        index = self.value(e.slice)
        if isinstance(held, Class) and held.is_enum:
            names = [(const(name), self.member(held, name)) for name in held.members if not name.startswith("_")]
            held = Mapping(names)
        if isinstance(held, Seq) and isinstance(index, tuple) and is_const(index) and isinstance(index[1], int):
            if -len(held.items) <= index[1] < len(held.items):
                return held.items[index[1]]
        if isinstance(held, Mapping) and isinstance(index, tuple) and is_const(index):
            for key, item in held.items:
                if key == index:
                    return item
        return ("item", self.node(held), self.node(index))

    def _JoinedStr(self, e: ast.JoinedStr) -> Node:
        return opened("a text put together")

    def _NamedExpr(self, e: ast.NamedExpr) -> Any:
        held = self.captured(self.value(e.value))
        self.scope.names[e.target.id] = held
        return held

    def _Lambda(self, e: ast.Lambda) -> Any:
        module = self.scope.module
        assert module is not None
        body = ast.Return(e.body)
        made = ast.FunctionDef("lambda", e.args, [body], [], lineno=e.lineno, col_offset=0)
        return Closure(Function(module, made), dict(self.scope.names))

    # ------------------------------------------------------------------ comprehensions

    def _comprehension(self, generators: list[ast.comprehension], element: Any, kind: str) -> Any:
        generator, rest = generators[0], generators[1:]
        if rest:
            return opened("a comprehension of several loops")
        held = self.value(generator.iter)
        items = self.static_items(held)
        names = dict(self.scope.names)
        try:
            if items is not None:
                made = Seq(kind, [])
                for item in items:
                    self.bind(generator.target, item)
                    test = joined("and", [self.truth(test) for test in generator.ifs] or [TRUE])
                    if truth(test) is False:
                        continue
                    found = element()
                    made.items.append(found if truth(test) else ("when", test, self.node(found)))
                return made
            variable = self.record.variable()
            self.record.pure += 1
            try:
                self.bind(generator.target, variable)
                test = joined("and", [self.truth(test) for test in generator.ifs] or [TRUE])
                found = self.node(element())
            finally:
                self.record.pure -= 1
            mapped: Node = ("map", variable[1], self.node(held), test, found)
            return mapped if kind == "list" else ("fn", kind, mapped)
        except Beyond as beyond:
            return opened(str(beyond))
        finally:
            self.scope.names.clear()
            self.scope.names.update(names)

    def bind(self, target: ast.expr, value: Any) -> None:
        """Give names to a value inside an expression."""
        if isinstance(target, ast.Name):
            self.scope.names[target.id] = value
        elif isinstance(target, (ast.Tuple, ast.List)):
            items = self.static_items(value)
            for index, part in enumerate(target.elts):
                known = items is not None and index < len(items)
                self.bind(part, items[index] if items is not None and known else ("item", self.node(value), const(index)))

    def _ListComp(self, e: ast.ListComp) -> Any:
        return self._comprehension(e.generators, lambda: self.value(e.elt), "list")

    def _GeneratorExp(self, e: ast.GeneratorExp) -> Any:
        return self._comprehension(e.generators, lambda: self.value(e.elt), "list")

    def _SetComp(self, e: ast.SetComp) -> Any:
        return self._comprehension(e.generators, lambda: self.value(e.elt), "set")

    def _DictComp(self, e: ast.DictComp) -> Any:
        made = self._comprehension(e.generators, lambda: Seq("tuple", [self.value(e.key), self.value(e.value)]), "list")
        if isinstance(made, Seq) and all(isinstance(item, Seq) for item in made.items):
            return Mapping([(item.items[0], item.items[1]) for item in made.items])
        return ("fn", "dict", self.node(made))
