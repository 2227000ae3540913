"""Expressions of upstream's start-up, read as expressions of the algebra."""

from __future__ import annotations

import ast
from typing import Any

from mbpack.learn.classes import Classes
from mbpack.learn.nodes import (
    NULL,
    Node,
    binary,
    choice,
    const,
    is_const,
    joined,
    negate,
    opened,
    truth,
)
from mbpack.learn.record import (
    NESTED,
    STEPS,
    Attribute,
    Beyond,
    Bound,
    Builtin,
    Closure,
    Mapping,
    Obj,
    Recorder,
    Scope,
    Seq,
    path_of,
)
from mbpack.learn.sources import Class, Expression, External, Function, Module, Sources

_OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.In: "in",
    ast.NotIn: "not in",
}
_BUILTINS = frozenset(
    "len all any sorted min max sum abs range enumerate zip int str list tuple dict set bool float isinstance hasattr getattr "
    "setattr callable type repr iter next super issubclass round frozenset reversed print map filter object id vars".split()
)
#: Several names of one thing.
_SAME = {
    "torch.float": "torch.float32",
    "torch.half": "torch.float16",
    "torch.double": "torch.float64",
    "torch.nn.functional.tanh": "torch.tanh",
    "torch._C._nn.gelu": "torch.nn.functional.gelu",
}
_SPECIAL = {"HAVE_TE": True, "_OMEGACONF_AVAILABLE": True, "TYPE_CHECKING": False}


class Expressions:
    """Reads expressions; `Calls` and `Statements` read the rest."""

    def __init__(self, sources: Sources, classes: Classes) -> None:
        self.sources, self.classes = sources, classes
        self.record = Recorder()
        self.constants: dict[tuple[str, str], Any] = {}

    # ------------------------------------------------------------------ values and nodes

    def node(self, value: Any) -> Node:
        """A value as an expression."""
        if isinstance(value, tuple) and value and isinstance(value[0], str) and not hasattr(value, "_fields"):
            return value
        if isinstance(value, Obj):
            if value.path in self.record.overwritten or not value.local:
                return value.held or ("k", value.path)
            return value.held or opened("an object made on the way")
        if isinstance(value, Seq):
            return (value.kind, *(self.node(item) for item in value.items))
        if isinstance(value, Mapping):
            return ("dict", *((self.node(key), self.node(held)) for key, held in value.items))
        if isinstance(value, (Class, Function, External)):
            path = path_of(value)
            return ("sym", _SAME.get(path, path))
        if isinstance(value, Closure):
            return ("sym", value.function.path)
        if isinstance(value, Attribute) and value.name in ("name", "value"):
            return ("fn", f"attribute:{value.name}", self.node(value.value), opened("an attribute"))
        if isinstance(value, Attribute):
            return ("do", "." + value.name, self.node(value.value))
        if isinstance(value, Builtin):
            return ("sym", value.name)
        return opened(f"a {type(value).__name__}")

    def captured(self, value: Any) -> Any:
        """A value as it is now, whatever happens to the keys it was read from."""
        if isinstance(value, Obj):
            if value.local or not value.path or self.record.pure or (value.held is not None and value.held[0] == "r"):
                return value
            return Obj(value.path, value.cls, self.record.let(value.held or ("k", value.path)), value.varies)
        if isinstance(value, tuple) and not hasattr(value, "_fields"):
            return self.record.let(value)
        return value

    def value(self, expression: ast.expr) -> Any:
        """What an expression stands for."""
        found = getattr(self, f"_{type(expression).__name__}", None)
        return found(expression) if found is not None else opened(f"a {type(expression).__name__}")

    def plain(self, expression: ast.expr) -> Node:
        """An expression as a node."""
        return self.node(self.value(expression))

    def truth(self, expression: ast.expr) -> Node:
        """An expression as a condition."""
        node = self.plain(expression)
        known = truth(node)
        return node if known is None else const(known)

    @property
    def scope(self) -> Scope:
        """The function being read."""
        return next(scope for scope in reversed(self.record.scopes) if scope.kind == "function")

    # ------------------------------------------------------------------ names

    def _Constant(self, e: ast.Constant) -> Any:
        return const(e.value) if not isinstance(e.value, (bytes, complex)) and e.value is not ... else opened("a constant")

    def _Name(self, e: ast.Name) -> Any:
        scope = self.scope
        if e.id in scope.names:
            return scope.names[e.id]
        if e.id in _SPECIAL:
            return const(_SPECIAL[e.id])
        module = scope.module
        found = module.look(e.id) if module is not None else None
        if found is None:
            return Builtin(e.id) if e.id in _BUILTINS else opened(f"the name {e.id}")
        return self.static(found)

    def static(self, found: Any) -> Any:
        """What a module-level name holds."""
        if not isinstance(found, Expression):
            return found
        key = (found.module.name, ast.dump(found.node))
        if key not in self.constants:
            self.constants[key] = opened("a constant that needs itself")
            kept, self.record = self.record, Recorder()
            self.record.scopes.append(Scope("function", 0, module=found.module))
            self.record.pure = 1
            try:
                made = self.value(found.node)
                for name, updates in found.module.updates.items():
                    if found.module.names.get(name) is found.node and isinstance(made, Mapping):
                        for update in updates:
                            more = self.value(update)
                            if isinstance(more, Mapping):
                                made = Mapping([*made.items, *more.items])
            except Beyond as beyond:
                made = opened(str(beyond))
            finally:
                self.record = kept
            self.constants[key] = made
        return self.constants[key]

    def _Attribute(self, e: ast.Attribute) -> Any:
        return self.attribute(self.value(e.value), e.attr)

    def attribute(self, held: Any, name: str) -> Any:
        """An attribute of a value."""
        if isinstance(held, Obj):
            return self._field(held, name)
        if isinstance(held, Class):
            if held.is_enum and name in held.members:
                return self.member(held, name)
            method = held.method(name)
            if method is not None:
                return method
            for cls in held.order:
                if name in cls.members:
                    return self.static(Expression(cls.module, cls.members[name]))
            return opened(f"{held.name}.{name}")
        if isinstance(held, Module):
            return self.static(held.look(name)) or opened(f"{held.name}.{name}")
        if isinstance(held, External):
            return External(f"{held.path}.{name}")
        if isinstance(held, tuple) and held and held[0] == "member":
            return const(held[2]) if name == "name" else const(held[3]) if name == "value" else opened(name)
        return Attribute(held, name)

    def _field(self, held: Obj, name: str) -> Any:
        if held.path in self.record.overwritten and not held.local and held.cls is None:
            return Attribute(self.node(held), name)
        cls = held.cls
        if held.child(name) in self.record.aliases:
            return self.record.aliases[held.child(name)]
        if name == NESTED and (held.path.rpartition(".")[2] == "model" or (cls is not None and NESTED in cls.fields)):
            return Obj(held.child(name), None, None, True)
        if held.path.rpartition(".")[2] == NESTED and name in STEPS:
            return Obj(f"{held.path}.{name}", None, None, True)
        if cls is not None and not (held.varies and held.path):
            annotated = cls.fields.get(name)
            if annotated is not None:
                inner, varies = self.classes.annotated(annotated[0].module, annotated[1].annotation)
                return Obj(held.child(name), inner, None, varies, held.local)
            method = cls.method(name)
            if method is not None:
                if any(ast.unparse(d) in ("property", "cached_property") for d in method.node.decorator_list):
                    return self.call_function(method, [held], {})
                return Bound(method, held)
            for owner in cls.order:
                if name in owner.members:
                    found = self.static(Expression(owner.module, owner.members[name]))
                    if isinstance(found, Builtin) or name in self.record.overwritten:
                        break
                    if held.child(name) not in self.record.overwritten:
                        return found
        return Obj(held.child(name), None, None, True, held.local)

    def member(self, cls: Class, name: str) -> Node:
        """A member of an enumeration: one with texts for values is the text."""
        held = cls.members[name]
        value = held.value if isinstance(held, ast.Constant) else name
        if cls.is_text:
            return const(value)
        return ("member", cls.name, name, value if isinstance(value, (int, str)) else name)

    def members(self, cls: Class) -> list[Node]:
        """All members of an enumeration."""
        return [self.member(cls, name) for name in cls.members if not name.startswith("_")]

    # ------------------------------------------------------------------ operators

    def _BoolOp(self, e: ast.BoolOp) -> Node:
        word = "or" if isinstance(e.op, ast.Or) else "and"
        stop = word == "or"
        parts: list[Node] = []
        pushed = 0
        for index, operand in enumerate(e.values):
            part = self.plain(operand)
            rest = e.values[index + 1 :]
            if truth(part) is None and any(isinstance(n, ast.Call) for other in rest for n in ast.walk(other)):
                part = self.record.let(part)
                self.record.stack.append((part, not stop))
                pushed += 1
            parts.append(part)
            if truth(part) is stop:
                break
        del self.record.stack[len(self.record.stack) - pushed :]
        return joined(word, parts)

    def _UnaryOp(self, e: ast.UnaryOp) -> Node:
        if isinstance(e.op, ast.Not):
            return negate(self.plain(e.operand))
        node = self.plain(e.operand)
        if isinstance(e.op, ast.USub):
            return const(-node[1]) if is_const(node) and isinstance(node[1], (int, float)) else ("fn", "-", node)
        return opened("an operator")

    def _BinOp(self, e: ast.BinOp) -> Node:
        word = _OPERATORS.get(type(e.op))
        if word is None:
            return opened("an operator")
        return binary(word, self.plain(e.left), self.plain(e.right))

    def _Compare(self, e: ast.Compare) -> Node:
        parts: list[Node] = []
        left = self.value(e.left)
        for op, comparator in zip(e.ops, e.comparators, strict=True):
            right = self.value(comparator)
            word = _OPERATORS[type(op)]
            if word in ("in", "not in") and isinstance(right, Class) and right.is_enum:
                right = Seq("list", self.members(right))
            if word in ("==", "!=", "is", "is not") and isinstance(left, Class) and isinstance(right, Class):
                parts.append(const((left is right) is (word in ("==", "is"))))
            else:
                parts.append(self._compared(word, self.node(left), self.node(right)))
            left = right
        return joined("and", parts)

    def _compared(self, word: str, left: Node, right: Node) -> Node:
        if word in ("in", "not in") and is_const(left) and right[0] in ("list", "tuple", "set"):
            if all(is_const(item) for item in right[1:]):
                return const((left in right[1:]) is (word == "in"))
        if word in ("in", "not in") and right[0] == "dict" and all(is_const(key) for key, _ in right[1:]):
            right = ("tuple", *(key for key, _ in right[1:]))
            return self._compared(word, left, right)
        if left == ("k", "") and word in ("is", "is not") and right == NULL:
            return const(word == "is not")
        return binary(word, left, right)

    def _IfExp(self, e: ast.IfExp) -> Any:
        test = self.truth(e.test)
        known = truth(test)
        if known is not None:
            return self.value(e.body if known else e.orelse)
        if any(isinstance(n, ast.Call) for n in (*ast.walk(e.body), *ast.walk(e.orelse))):
            test = self.record.let(test)
        self.record.stack.append((test, True))
        then = self.value(e.body)
        self.record.stack[-1] = (test, False)
        other = self.value(e.orelse)
        self.record.stack.pop()
        return self.merged(test, then, other)

    def merged(self, test: Node, then: Any, other: Any) -> Any:
        """One of two values by a condition."""
        if isinstance(then, Obj) and isinstance(other, Obj) and then.path == other.path:
            return then
        if isinstance(then, Seq) and isinstance(other, Seq) and then.kind == other.kind == "tuple":
            if len(then.items) == len(other.items):
                return Seq("tuple", [self.merged(test, a, b) for a, b in zip(then.items, other.items, strict=True)])
        if isinstance(then, Obj) and then.cls is not None and then.local:
            return then
        return choice(test, self.node(then), self.node(other))

    # ------------------------------------------------------------------ elsewhere

    def call_function(
        self, function: Function, args: list[Any], keywords: dict[str, Any], names: dict[str, Any] | None = None
    ) -> Any:
        """What a call of a function gives."""
        raise NotImplementedError

    def static_items(self, held: Any) -> list[Any] | None:
        """The elements of a value where it is known how many there are."""
        if isinstance(held, Seq):
            return None if any(isinstance(i, tuple) and i and i[0] == "when" for i in held.items) else list(held.items)
        if isinstance(held, Mapping):
            return [key for key, _ in held.items]
        if isinstance(held, Class) and held.is_enum:
            return list(self.members(held))
        if isinstance(held, tuple) and held and held[0] in ("list", "tuple", "set"):
            return None if any(i[0] == "when" for i in held[1:]) else list(held[1:])
        return None
