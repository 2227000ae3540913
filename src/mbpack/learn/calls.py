"""Calls in upstream's start-up: its own functions are read through, those of Python become functions of the algebra."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from mbpack.learn.builtin import METHODS, Builtins
from mbpack.learn.nodes import (
    NULL,
    TRUE,
    Node,
    const,
    is_const,
    opened,
)
from mbpack.learn.record import (
    STEPS,
    Attribute,
    Bound,
    Builtin,
    Closure,
    Mapping,
    Obj,
    Scope,
    Seq,
    Super,
)
from mbpack.learn.sources import Class, External, Function

_DEEPEST = 14
#: Calls without an effect on what is checked.
_SILENT = (
    "warnings.",
    "logger.",
    "logging.",
    "log_",
    "print_rank",
    "warn_rank",
    "print",
    "_logger.",
    "torch.use_deterministic",
)
_GPUS = "get_world_size_safe"


class Calls(Builtins):
    """Reads calls."""

    versions: dict[str, tuple[int, ...]]
    #: Gives the name of the block of a method that can stand for itself, "" for an empty one.
    shared: Callable[[Function], str | None] | None = None

    def _stands_alone(self, function: Function, args: list[Any], keywords: dict[str, Any]) -> bool:
        """Whether a method works on nothing but the object that this block is about."""
        whole = len(args) == 1 and not keywords and isinstance(args[0], Obj) and args[0].path == "" and args[0].held is None
        named = function.node.name in STEPS and function.owner is not None
        return whole and named and bool(self.record.scopes) and not self.record.pure

    def _Call(self, e: ast.Call) -> Any:
        spelled = ast.unparse(e.func)
        if spelled.startswith(_SILENT):
            return NULL
        callee = self.value(e.func)
        special = self._special(callee, spelled, e)
        if special is not None:
            return special
        args: list[Any] = []
        for argument in e.args:
            if isinstance(argument, ast.Starred):
                items = self.static_items(self.value(argument.value))
                if items is None:
                    args.append(("fn", "star", self.plain(argument.value)))
                else:
                    args.extend(items)
            else:
                args.append(self.value(argument))
        keywords: dict[str, Any] = {}
        for keyword in e.keywords:
            held = self.value(keyword.value)
            if keyword.arg is not None:
                keywords[keyword.arg] = held
            elif isinstance(held, Mapping) and all(is_const(self.node(key)) for key, _ in held.items):
                keywords.update({str(self.node(key)[1]): item for key, item in held.items})
            else:
                return opened(f"a call of {spelled} with arguments put together")
        return self.called(callee, spelled, args, keywords)

    def called(self, callee: Any, spelled: str, args: list[Any], keywords: dict[str, Any]) -> Any:
        """What a call gives."""
        if isinstance(callee, Bound):
            return self.call_function(callee.function, [callee.owner, *args], keywords)
        if isinstance(callee, Closure):
            return self.call_function(callee.function, args, keywords, callee.names)
        if isinstance(callee, Function):
            return self.call_function(callee, args, keywords)
        if isinstance(callee, Class):
            return self._made(callee, args, keywords)
        if isinstance(callee, Builtin):
            return self._builtin(callee.name, args, keywords)
        if isinstance(callee, Attribute):
            return self._method(callee, args)
        if isinstance(callee, External):
            return self._external(callee.path, args)
        if isinstance(callee, Obj) and not callee.local:
            path, _, name = callee.path.rpartition(".")
            if name in METHODS and (name not in ("index", "find") or args):
                return self._method(Attribute(("k", path), name), args)
            self.record.emit("call", (path, name), TRUE, self.place)
            return opened(f"what {name} of {path} gives")
        return opened(f"a call of {spelled}")

    # ------------------------------------------------------------------ functions of the release

    def _special(self, callee: Any, spelled: str, e: ast.Call) -> Any:
        name = spelled.rpartition(".")[2]
        if name in ("is_te_min_version", "is_torch_min_version"):
            return self._version(name, e)
        if name == _GPUS:
            return ("gpus",)
        if name in ("get_rank_safe", "get_rank"):
            return const(0)
        if name in ("getenv", "get") and spelled in ("os.getenv", "os.environ.get"):
            default = self.plain(e.args[1]) if len(e.args) > 1 else NULL
            key = self.plain(e.args[0])
            return ("env", key[1], default) if is_const(key) else opened("an environment variable")
        if spelled == "super":
            scope = self.scope
            if len(e.args) == 2:
                after = self.value(e.args[0])
                return Super(scope.self_, after) if isinstance(after, Class) else opened("super")
            return Super(scope.self_, scope.owner) if scope.owner is not None and scope.self_ is not None else opened("super")
        if spelled in ("fields", "dataclasses.fields", "dataclass_fields"):
            held = self.value(e.args[0])
            cls = held if isinstance(held, Class) else held.cls if isinstance(held, Obj) else None
            if cls is None:
                return opened("the fields of something")
            return Seq("tuple", [Mapping([(const("name"), const(name))]) for name in cls.fields])
        if spelled == "get_mixed_precision_config":
            return self.value(e.args[0])
        if isinstance(callee, Function) and callee.node.name == "asdict":
            return opened("a copy as a mapping")
        return None

    def _version(self, name: str, e: ast.Call) -> Node:
        import re

        have = self.versions.get("transformer-engine" if "te_" in name else "torch")
        text = self.plain(e.args[0])
        if have is None or not is_const(text):
            return opened("the version of a library")
        wanted = tuple(int(part) for part in re.findall(r"\d+", re.split(r"dev|a|rc", str(text[1]))[0])[:3])
        return const(have >= wanted)

    def attribute(self, held: Any, name: str) -> Any:
        if isinstance(held, Super):
            cls = held.owner.cls if isinstance(held.owner, Obj) else None
            method = cls.method(name, held.after) if cls is not None else None
            return Bound(method, held.owner) if method is not None else Builtin("object." + name)
        if isinstance(held, Mapping) and name == "name" and len(held.items) == 1:
            return held.items[0][1]
        return super().attribute(held, name)

    def call_function(
        self, function: Function, args: list[Any], keywords: dict[str, Any], names: dict[str, Any] | None = None
    ) -> Any:
        if sum(scope.kind == "function" for scope in self.record.scopes) > _DEEPEST:
            return opened(f"{function.name}: calls too deep")
        if any(scope.place == function.name and scope.module is function.module for scope in self.record.scopes[-4:]):
            return opened(f"{function.name} calls itself")
        if self._stands_alone(function, args, keywords):
            block = self.shared(function) if self.shared is not None else None
            if block is not None:
                if block:
                    self.record.emit("call", ("@", block), TRUE, self.place)
                return NULL
        arguments = function.node.args
        if any(isinstance(n, (ast.Yield, ast.YieldFrom, ast.Await)) for n in ast.walk(function.node)):
            return opened(f"{function.name} is a generator")
        decorators = [ast.unparse(d) for d in function.node.decorator_list]
        if "classmethod" in decorators or "staticmethod" in decorators:
            args = (
                args[1:]
                if args and isinstance(args[0], Obj) and function.owner is not None and "staticmethod" in decorators
                else args
            )
            if "classmethod" in decorators and function.owner is not None:
                args = [function.owner, *(args[1:] if args and isinstance(args[0], Obj) else args)]
        scope = Scope("function", len(self.record.stack), place=function.name, module=function.module, owner=function.owner)
        scope.names = dict(names or {})
        parameters = [a.arg for a in (*arguments.posonlyargs, *arguments.args)]
        self.record.scopes.append(scope)
        try:
            for parameter, default in zip(
                parameters[len(parameters) - len(arguments.defaults) :], arguments.defaults, strict=True
            ):
                scope.names[parameter] = self.value(default)
            for only, held in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
                if held is not None:
                    scope.names[only.arg] = self.value(held)
            for parameter, argument in zip(parameters, args, strict=False):
                scope.names[parameter] = self.captured(argument)
            if arguments.vararg is not None:
                scope.names[arguments.vararg.arg] = Seq("tuple", list(args[len(parameters) :]))
            known = {*parameters, *(a.arg for a in arguments.kwonlyargs)}
            scope.names.update({name: self.captured(held) for name, held in keywords.items() if name in known})
            if arguments.kwarg is not None:
                scope.names[arguments.kwarg.arg] = Mapping([(const(n), h) for n, h in keywords.items() if n not in known])
            scope.self_ = args[0] if args and parameters[:1] == ["self"] else None
            if scope.self_ is not None:
                scope.names["self"] = args[0]
            return self.body(function, scope)
        finally:
            self.record.scopes.remove(scope)

    def body(self, function: Function, scope: Scope) -> Any:
        """Run through a function and give what it returns."""
        raise NotImplementedError

    def _made(self, cls: Class, args: list[Any], keywords: dict[str, Any]) -> Any:
        if cls.is_enum and len(args) == 1:
            return self._chosen(cls, self.node(args[0]))
        if not cls.fields or cls.method("__init__") is not None:
            return opened(f"an object of {cls.name}")
        self.record.locals += 1
        made = Obj(f"${cls.name}{self.record.locals}", cls, None, False, True)
        keywords = {**dict(zip(cls.fields, args, strict=False)), **keywords}
        for name, (owner, field) in cls.fields.items():
            held: Any = keywords.get(name)
            if held is None:
                held = NULL if field.value is None else self._default(owner, field.value)
            self.record.overwritten.add(made.child(name))
            self.record.emit("set", made.child(name), self.node(held), self.place)
        return made

    def _default(self, owner: Class, expression: ast.expr) -> Any:
        scope = Scope("function", len(self.record.stack), module=owner.module, place=owner.name)
        self.record.scopes.append(scope)
        try:
            if isinstance(expression, ast.Call):
                return opened("a default that is made")
            return self.value(expression)
        finally:
            self.record.scopes.remove(scope)

    def _chosen(self, cls: Class, node: Node) -> Node:
        members = self.members(cls)
        pairs = [(const(m[3]) if m[0] == "member" else m, m) for m in members]
        pairs += [(m, m) for m in members if m[0] == "member"]
        if is_const(node):
            for key, held in pairs:
                if key == node:
                    return held
        return ("item", ("dict", *pairs), node)
