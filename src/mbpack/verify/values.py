"""The values a parametrisation lists, read from the source without running it."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from itertools import product

from msgspec import Struct, field

#: One value: its expression, or None where only its existence is known.
Value = ast.expr | None
_WRAPPERS = {"list", "tuple", "sorted", "set", "frozenset", "enumerate", "reversed"}
_MAXIMUM = 100_000


class Scope(Struct, frozen=True):
    """Names that stand for one expression each: assigned once in the module, or in the class around."""

    names: Mapping[str, ast.expr] = field(default_factory=dict)

    def inside(self, body: Sequence[ast.stmt]) -> Scope:
        """This scope with the names a class body assigns."""
        return Scope({**self.names, **assigned(body)})


def assigned(body: Sequence[ast.stmt]) -> dict[str, ast.expr]:
    """Names assigned exactly once at the top of a body."""
    found: dict[str, ast.expr] = {}
    repeated = set()
    for node in body:
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets, value = node.targets, node.value
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            targets, value = [node.target], node.value
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            repeated.add(node.target.id)
        for target in targets:
            if isinstance(target, ast.Name):
                if target.id in found:
                    repeated.add(target.id)
                found[target.id] = value
    return {name: value for name, value in found.items() if name not in repeated}


def elements(node: ast.expr | None, scope: Scope, depth: int = 0) -> list[Value] | None:
    """The elements of an iterable expression in order, None where their number cannot be read."""
    if node is None or depth > 8:
        return None
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        return _display(node.elts, scope, depth)
    if isinstance(node, ast.Dict):
        return list(node.keys) if all(key is not None for key in node.keys) else None
    if isinstance(node, ast.Name) and node.id in scope.names:
        return elements(scope.names[node.id], scope, depth + 1)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = elements(node.left, scope, depth + 1), elements(node.right, scope, depth + 1)
        return left + right if left is not None and right is not None else None
    if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
        sources = [None if gen.ifs or gen.is_async else elements(gen.iter, scope, depth + 1) for gen in node.generators]
        return _unnamed(_times(sources)) if len(sources) == 1 else None
    if isinstance(node, ast.Call):
        return _called(node, scope, depth)
    return None


def _display(parts: Sequence[ast.expr], scope: Scope, depth: int) -> list[Value] | None:
    found: list[Value] = []
    for part in parts:
        if isinstance(part, ast.Starred):
            inner = elements(part.value, scope, depth + 1)
            if inner is None:
                return None
            found += inner
        else:
            found.append(part)
    return found


def _called(node: ast.Call, scope: Scope, depth: int) -> list[Value] | None:
    name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr if isinstance(node.func, ast.Attribute) else ""
    if name == "range" and not node.keywords:
        numbers = [whole(argument) for argument in node.args]
        if not 1 <= len(numbers) <= 3 or None in numbers or 0 in numbers[2:]:
            return None
        listed = range(*[number for number in numbers if number is not None])
        return [ast.Constant(number) for number in listed] if len(listed) <= _MAXIMUM else None
    if name in ("items", "keys", "values") and isinstance(node.func, ast.Attribute) and not node.args:
        keys = elements(node.func.value, scope, depth + 1)
        return keys if keys is None or name == "keys" else [None] * len(keys)
    inner = [elements(argument, scope, depth + 1) for argument in node.args]
    if name in ("list", "tuple", "reversed") and len(inner) == 1:
        return inner[0]
    if name in _WRAPPERS and inner:
        return _unnamed(None if inner[0] is None else len(inner[0]))
    if name == "zip":
        sizes = [len(part) for part in inner if part is not None]
        return _unnamed(min(sizes) if sizes and len(sizes) == len(inner) else None)
    if name == "product" and not node.keywords:
        return _unnamed(_times(inner))
    return None


def whole(node: ast.expr) -> int | None:
    """A whole number written out."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        number = whole(node.operand)
        return None if number is None else -number
    return None


def _times(parts: Sequence[list[Value] | None]) -> int | None:
    total = 1
    for part in parts:
        if part is None:
            return None
        total *= len(part)
    return total


def _unnamed(count: int | None) -> list[Value] | None:
    return None if count is None or count > _MAXIMUM else [None] * count


def combinations(lists: Sequence[Sequence[str]]) -> list[str]:
    """The joined names of every combination, at most as many as anybody would run."""
    total = 1
    for names in lists:
        total *= len(names)
    if total > _MAXIMUM:
        return [f"#{number}" for number in range(_MAXIMUM)]
    return ["-".join(parts) for parts in product(*lists)]
