"""Defaults as plain data, in the form of the facts; what cannot be told without running the code is :data:`UNREAD`."""

from __future__ import annotations

import ast
import logging
import math
import operator
from typing import Any, Final

from mbpack.learn.lists.tree import Defined, Foreign, Module
from mbpack.learn.lists.types import is_enum


class _Unread:
    def __repr__(self) -> str:
        return "UNREAD"


UNREAD: Final = _Unread()
_EMPTY: Final[dict[str, Any]] = {"list": [], "dict": {}, "set": [], "tuple": [], "frozenset": []}
_ARITHMETIC: Final = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
}
#: Largest power that is worked out.
_MOST_BITS = 64
_MOST_DEPTH = 25
#: Items of the longest list that is put together.
_MOST_ITEMS = 10_000
_ROOTS: Final = {"math.sqrt": math.sqrt, "math.ceil": math.ceil, "math.floor": math.floor}
_TENSORS: Final = ("torch.tensor", "torch.empty", "torch.zeros", "torch.ones", "torch.Tensor")


def described(text: str) -> dict[str, str]:
    """A default that plain data cannot express."""
    return {"~": text}


def text_value(text: str) -> Any:
    """A text; a path of one machine is none that holds elsewhere."""
    return described("<absolute path>") if text.startswith("/") and not text.startswith("/checkpoints") else text


def value(module: Module, node: ast.AST, depth: int = 0) -> Any:
    """The value of an expression in a module."""
    if depth > _MOST_DEPTH:
        return UNREAD
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            return text_value(node.value)
        return node.value if node.value is None or type(node.value) in (bool, int, float) else UNREAD
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        items = [value(module, item, depth + 1) for item in node.elts]
        if any(item is UNREAD for item in items):
            return UNREAD
        return sorted(items, key=repr) if isinstance(node, ast.Set) else items
    if isinstance(node, ast.Dict):
        return _mapping(module, node, depth)
    if isinstance(node, (ast.UnaryOp, ast.BinOp)):
        return _arithmetic(module, node, depth)
    if isinstance(node, ast.Lambda):
        return described("<callable <lambda>>")
    if isinstance(node, (ast.Name, ast.Attribute)):
        return _named(module, node, depth)
    if isinstance(node, ast.Call):
        return _called(module, node, depth)
    return UNREAD


def _mapping(module: Module, node: ast.Dict, depth: int) -> Any:
    found = {}
    for key, item in zip(node.keys, node.values, strict=True):
        name = value(module, key, depth + 1) if key is not None else UNREAD
        held = value(module, item, depth + 1)
        if name is UNREAD or held is UNREAD or isinstance(name, (dict, list)):
            return UNREAD
        found[str(name)] = held
    return found


def _arithmetic(module: Module, node: ast.UnaryOp | ast.BinOp, depth: int) -> Any:
    if isinstance(node, ast.UnaryOp):
        held = value(module, node.operand, depth + 1)
        if isinstance(node.op, ast.USub) and type(held) in (int, float):
            return -held
        return not held if isinstance(node.op, ast.Not) and isinstance(held, bool) else UNREAD
    left, right = value(module, node.left, depth + 1), value(module, node.right, depth + 1)
    if isinstance(left, list) or isinstance(right, list):
        return _lists(node.op, left, right)
    operation = _ARITHMETIC.get(type(node.op))
    if operation is None or type(left) not in (int, float) or type(right) not in (int, float):
        return UNREAD
    if isinstance(node.op, (ast.Pow, ast.LShift)) and abs(right) > _MOST_BITS:
        return UNREAD
    try:
        return operation(left, right)
    except (ArithmeticError, ValueError):
        return UNREAD


def _lists(op: ast.operator, left: Any, right: Any) -> Any:
    """Lists that are joined or repeated."""
    if isinstance(op, ast.Add) and isinstance(left, list) and isinstance(right, list):
        return left + right
    times, items = (left, right) if isinstance(right, list) else (right, left)
    if isinstance(op, ast.Mult) and type(times) is int and 0 <= times * len(items) <= _MOST_ITEMS:
        return items * times
    return UNREAD


def _named(module: Module, node: ast.Name | ast.Attribute, depth: int) -> Any:
    found = module.meaning(node)
    if isinstance(found, Foreign):
        return foreign(found)
    if found is None:
        return UNREAD
    if isinstance(found.node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return described(f"<callable {found.name}>")
    owner, _, member = found.name.partition(".")
    if member:
        holder = found.module.resolve(owner)
        if isinstance(holder, Defined) and is_enum(holder):
            return member if owner.startswith("CudaGraph") else described(f"<enum {owner}.{member}>")
        return _attribute(holder, member, depth) if isinstance(holder, Defined) else UNREAD
    return value(found.module, found.node, depth + 1)


def _attribute(holder: Defined, member: str, depth: int) -> Any:
    """A value, or a method, of a class."""
    for node in holder.node.body if isinstance(holder.node, ast.ClassDef) else ():
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == member:
            return described(f"<callable {member}>")
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == member:
            return value(holder.module, node.value, depth + 1)
        if isinstance(node, ast.AnnAssign) and node.value is not None and getattr(node.target, "id", "") == member:
            return value(holder.module, node.value, depth + 1)
    return UNREAD


def foreign(found: Foreign) -> Any:
    parts = found.dotted.split(".")
    if parts[0] == "torch":
        if len(parts) == 2 and (parts[1].startswith(("float", "bfloat", "int", "uint")) or parts[1] in ("half", "bool")):
            return f"torch.{'float16' if parts[1] == 'half' else 'float32' if parts[1] == 'float' else parts[1]}"
        return described(f"<callable {parts[-1]}>")
    if parts[0] == "logging" and parts[-1].isupper():
        level = getattr(logging, parts[-1], None)
        return level if type(level) is int else UNREAD
    if parts[0] == "signal" and parts[-1].startswith("SIG"):
        return described(f"<enum Signals.{parts[-1]}>")
    return UNREAD


def _called(module: Module, node: ast.Call, depth: int) -> Any:
    if isinstance(node.func, ast.Name) and node.func.id in _EMPTY and node.func.id not in module.names:
        if not node.args and not node.keywords:
            return _EMPTY[node.func.id]
        if node.func.id == "dict" and not node.args and all(keyword.arg for keyword in node.keywords):
            pairs = {str(keyword.arg): value(module, keyword.value, depth + 1) for keyword in node.keywords}
            return UNREAD if any(item is UNREAD for item in pairs.values()) else pairs
        held: Any = value(module, node.args[0], depth + 1) if len(node.args) == 1 else UNREAD
        return held if isinstance(held, list) else UNREAD
    if isinstance(node.func, ast.Name) and node.func.id in ("int", "float") and len(node.args) == 1:
        return _number(node.func.id, value(module, node.args[0], depth + 1))
    found = module.meaning(node.func)
    if found is None:
        return UNREAD
    if isinstance(found, Foreign):
        known = _library(module, found.dotted, node, depth)
        if known is not UNREAD:
            return known
    if found.name in ("partial",):
        inner = module.meaning(node.args[0]) if node.args else None
        return described(f"<callable {inner.name}>") if inner is not None else UNREAD
    if isinstance(found, Foreign):
        if found.dotted in ("pathlib.Path", "pathlib.PurePath", "pathlib.PosixPath") and len(node.args) == 1:
            held = value(module, node.args[0], depth + 1)
            return described(f"<path {held}>") if isinstance(held, str) else held
        return described(f"<object {found.name}>") if found.name[:1].isupper() else UNREAD
    if isinstance(found.node, ast.ClassDef):
        return described(f"<object {found.name}>")
    return returned(found, depth)


def _number(kind: str, held: Any) -> Any:
    """``int(...)`` and ``float(...)`` of something that is known."""
    if type(held) in (int, float, str):
        try:
            return int(held) if kind == "int" else float(held)
        except ValueError:
            return UNREAD
    return UNREAD


def _library(module: Module, dotted: str, node: ast.Call, depth: int) -> Any:
    """Calls of Python's own library and of torch whose value is known."""
    if dotted in _TENSORS:
        return described("<object Tensor>")
    if dotted == "collections.defaultdict":
        return {}
    if dotted in ("os.getenv", "os.environ.get") and len(node.args) == 2:
        return value(module, node.args[1], depth + 1)  # what holds where the variable is not set
    held: Any = value(module, node.args[0], depth + 1) if dotted in _ROOTS and len(node.args) == 1 else UNREAD
    if type(held) in (int, float) and held >= 0:
        return _ROOTS[dotted](held)
    return UNREAD


def returned(found: Defined, depth: int = 0) -> Any:
    """What a function without arguments returns, where that is one plain expression."""
    if not isinstance(found.node, ast.FunctionDef):
        return UNREAD
    body = [node for node in found.node.body if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))]
    if len(body) == 1 and isinstance(body[0], ast.Return) and body[0].value is not None:
        return value(found.module, body[0].value, depth + 1)
    return UNREAD
