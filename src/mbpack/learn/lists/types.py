"""Annotations as the short texts that the facts hold: ``int|null``, ``list[str]``, ``literal['a','b']``, ``enum:Name``."""

from __future__ import annotations

import ast

from mbpack.learn.lists.tree import Defined, Foreign, Module

#: Names of typing that are written in another way.
_PLAIN = {"List": "list", "Dict": "dict", "Tuple": "tuple", "Set": "set", "FrozenSet": "frozenset"}
_BUILTIN = frozenset("int float str bool bytes list dict tuple set frozenset object complex".split())


class CannotRead(Exception):
    """An annotation that would not evaluate; it is then kept as it is written."""


def render(module: Module, annotation: ast.expr, owner_defers: bool) -> str:
    """The text of a field's annotation in a class of ``module``.

    Raises:
        CannotRead: it would not evaluate.
    """
    deferred = owner_defers or (isinstance(annotation, ast.Constant) and isinstance(annotation.value, str))
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        annotation = _parsed(annotation.value)
    return _text(module, annotation, deferred)


def as_written(annotation: ast.expr) -> str:
    """The annotation without a look at what its names stand for."""
    return ast.unparse(annotation).replace(" ", "").replace('"', "'").replace("None", "null")


def _parsed(text: str) -> ast.expr:
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        raise CannotRead from None


def _text(module: Module, node: ast.expr, deferred: bool) -> str:
    if isinstance(node, ast.Constant):
        if node.value is None:
            return "null"
        if isinstance(node.value, str):
            return node.value.replace(" ", "").replace("None", "null")  # a name in quotes is not looked up
        if node.value is Ellipsis:
            return "..."
        raise CannotRead
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return _union([_text(module, _unquoted(side), deferred) for side in (node.left, node.right)])
    if isinstance(node, ast.Subscript):
        return _subscript(module, node, deferred)
    if isinstance(node, (ast.Name, ast.Attribute)):
        return _name(module, node, deferred)
    if isinstance(node, ast.List):
        return f"[{','.join(_text(module, item, deferred) for item in node.elts)}]"
    raise CannotRead


def _unquoted(node: ast.expr) -> ast.expr:
    """A side of a union; names in quotes cannot be joined by a bar, so they are looked up."""
    return _parsed(node.value) if isinstance(node, ast.Constant) and isinstance(node.value, str) else node


def _union(parts: list[str]) -> str:
    flat = dict.fromkeys(piece for part in parts for piece in _pieces(part))
    return "|".join(sorted(flat, key=lambda piece: piece == "null"))


def _pieces(text: str) -> list[str]:
    """The members of a union's text, commas and bars inside brackets left alone."""
    pieces, depth, start = [], 0, 0
    for place, sign in enumerate(text):
        depth += (sign in "[(") - (sign in "])")
        if sign == "|" and depth == 0:
            pieces.append(text[start:place])
            start = place + 1
    return [*pieces, text[start:]]


def _subscript(module: Module, node: ast.Subscript, deferred: bool) -> str:
    items = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
    name = _short(module, node.value)
    if name == "Optional":
        return _union([_text(module, items[0], deferred), "null"])
    if name == "Union":
        return _union([_text(module, item, deferred) for item in items])
    if name == "Literal":
        return f"literal[{','.join(_literal(item) for item in items)}]"
    if name in ("Annotated", "Final", "Required", "NotRequired"):
        return _text(module, items[0], deferred)
    if name == "Callable":
        return "callable"
    if name in ("type", "Type"):
        return "type"
    return f"{_PLAIN.get(name, name)}[{','.join(_text(module, item, deferred) for item in items)}]"


def _literal(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return repr(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        return f"-{node.operand.value!r}"
    raise CannotRead


def _short(module: Module, node: ast.expr) -> str:
    if isinstance(node, ast.Name) and node.id in _BUILTIN | {"type"} and node.id not in module.names:
        return node.id
    found = module.meaning(node)
    if found is None:
        raise CannotRead
    return found.name


def _name(module: Module, node: ast.Name | ast.Attribute, deferred: bool) -> str:
    if isinstance(node, ast.Name) and node.id not in module.names:
        if node.id in _BUILTIN:
            return node.id
        if node.id == "type":
            return "type"
    found = module.meaning(node)
    if found is None:
        raise CannotRead
    if isinstance(found, Foreign):
        return foreign(found)
    if isinstance(found.node, ast.ClassDef):
        return f"enum:{found.name}" if is_enum(found) else found.name
    if isinstance(found.node, (ast.Subscript, ast.BinOp)):
        return _text(found.module, found.node, deferred)  # an alias
    if isinstance(found.node, ast.Call):  # a TypeVar, a NewType
        return found.name
    if isinstance(found.node, ast.Constant) and found.node.value is None:
        return "null"
    raise CannotRead


def foreign(found: Foreign) -> str:
    if found.dotted.startswith("torch.") and found.dotted.count(".") == 1:
        return found.dotted
    if found.dotted in ("typing.Callable", "collections.abc.Callable"):
        return "callable"
    if found.dotted == "typing.Type":
        return "type"
    if found.dotted == "signal.Signals":
        return "enum:Signals"
    return _PLAIN.get(found.name, found.name) if found.dotted.startswith("typing.") else found.name


def is_enum(found: Defined, depth: int = 0) -> bool:
    """Whether a class is an enumeration."""
    if not isinstance(found.node, ast.ClassDef) or depth > 10:
        return False
    for base in found.node.bases:
        meant = found.module.meaning(base)
        if isinstance(meant, Foreign) and meant.dotted.startswith("enum."):
            return True
        if isinstance(meant, Defined) and is_enum(meant, depth + 1):
            return True
    return False
