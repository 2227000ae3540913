"""Functions and methods of Python in upstream's start-up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mbpack.learn.collection import Collections
from mbpack.learn.nodes import FALSE, NULL, TRUE, Node, const, is_const, joined, opened
from mbpack.learn.record import STEPS, Attribute, Beyond, Bound, Builtin, Mapping, Obj, Seq, Super
from mbpack.learn.sources import Class, External

_KINDS = frozenset("int str list tuple dict bool float set frozenset".split())
_FUNCTIONS = frozenset(
    "len all any sorted min max sum abs range list tuple set frozenset bool int float str dict round iter".split()
)
_MATH = frozenset("lcm gcd prod sqrt ceil floor log2 isclose isfinite isnan isinf log".split())
METHODS = frozenset(
    "isdigit split replace lower upper strip lstrip rstrip values keys items join get count startswith endswith index "
    "union intersection difference issubset issuperset isdisjoint isidentifier rsplit partition rpartition find".split()
)
#: What can be worked out at once.
_PURE: dict[str, Callable[..., Any]] = {
    "abs": abs,
    "bool": bool,
    "int": int,
    "float": float,
    "str": str,
    "min": min,
    "max": max,
    "round": round,
}


class Builtins(Collections):
    """Reads calls of what Python brings along."""

    @property
    def place(self) -> str:
        """The function being read."""
        return self.scope.place

    def _builtin(self, name: str, args: list[Any], keywords: dict[str, Any]) -> Any:
        special: Callable[[list[Any]], Any] | None = getattr(self, f"_b_{name}", None)
        if special is not None:
            return special(args)
        if name == "object.__setattr__" and len(args) == 2:
            return self.stored(self.scope.self_, args[0], args[1])
        if name.startswith("object.__"):
            return NULL
        if name in ("list", "tuple", "set", "dict", "frozenset") and not args:
            return Mapping([]) if name == "dict" else Seq("set" if name == "frozenset" else name, [])
        if name == "dict" and isinstance(args[0], Mapping) and not keywords:
            return Mapping(list(args[0].items))
        items = self.static_items(args[0]) if args else None
        if name in ("list", "tuple", "sorted") and items is not None and not keywords and name != "sorted":
            return Seq(name, items)
        if name == "len" and items is not None:
            return const(len(items))
        if name in ("any", "all") and items is not None:
            return joined("or" if name == "any" else "and", [self.node(i) for i in items] or [const(name == "all")])
        if name in _FUNCTIONS and not keywords:
            nodes = [self.node(argument) for argument in args]
            if all(is_const(node) for node in nodes) and name in _PURE:
                try:
                    return const(_PURE[name](*(node[1] for node in nodes)))
                except (TypeError, ValueError):
                    pass
            return ("fn", {"frozenset": "set", "iter": "list"}.get(name, name), *nodes)
        if name == "sorted":
            return opened("a list put in order by a key")
        return opened(f"a call of {name}")

    def _b_isinstance(self, args: list[Any]) -> Any:
        held, kinds = args
        wanted = kinds.items if isinstance(kinds, Seq) else [kinds]
        if isinstance(kinds, tuple) and kinds[0] == "|":
            wanted = [External(part[1]) if part[0] == "sym" else part for part in kinds[1:]]
        plain = [k.name for k in wanted if isinstance(k, Builtin) and k.name in _KINDS]
        classes = [k for k in wanted if isinstance(k, Class)]
        others = [k for k in wanted if not isinstance(k, (Builtin, Class))]
        parts: list[Node] = []
        if isinstance(held, Obj):
            if held.cls is not None and (not held.varies or held.local) and not held.child("x").count("."):
                return const(any(k in held.cls.order for k in classes))
            enums = [k for k in classes if k.is_enum]
            node = self.node(held)
            if plain:
                parts.append(("isa", node, *plain))
            if enums:
                parts.append(("isa", node, *(k.name for k in enums)))
            rest = [k for k in classes if not k.is_enum]
            if rest:
                paths = sorted({cls.path for k in rest for cls in self.classes.below(k)})
                parts.append(("cls", ("k", held.path), *paths))
            if others:
                parts.append(opened("whether something is of a foreign class"))
            return joined("or", parts or [FALSE])
        node = self.node(held)
        if node[0] == "member":
            return const(any(k.name == node[1] for k in classes))
        if is_const(node) and not others:
            kinds_of = {"bool": "bool int", "int": "int", "float": "float", "str": "str"}.get(type(node[1]).__name__, "")
            return const(any(kind in kinds_of.split() for kind in plain))
        if node[0] in ("list", "tuple", "set", "dict"):
            return const(node[0] in plain)
        names = plain + [k.name for k in classes if k.is_enum]
        if others or any(not k.is_enum for k in classes):
            return opened("whether something is of a class")
        return ("isa", node, *names) if names else FALSE

    def _b_hasattr(self, args: list[Any]) -> Any:
        held, name = args[0], self.node(args[1])
        if not is_const(name):
            return opened("whether an object has some field")
        if isinstance(held, Super):
            cls = held.owner.cls
            return const(cls is not None and cls.method(name[1], held.after) is not None)
        if isinstance(held, Obj):
            child = held.child(name[1])
            if child in self.record.overwritten:
                return TRUE
            if held.local and held.cls is not None:
                return const(name[1] in held.cls.fields)
            if held.cls is not None and not (held.varies and held.path):
                if name[1] in held.cls.fields or held.cls.method(name[1]) is not None:
                    return TRUE
                return FALSE if not name[1].startswith("_") else ("has", child)
            if any(name[1] in cls.own_methods for cls in self.classes.all[:1]) or name[1] in STEPS:
                return TRUE  # the block of a class without it is empty
            return ("has", child)
        node = self.node(held)
        if node[0] in ("c", "list", "tuple", "set", "dict"):
            return FALSE
        return opened("whether a value has a field")

    def _b_getattr(self, args: list[Any]) -> Any:
        held, name = args[0], self.node(args[1])
        if not is_const(name):
            return opened("a field by some name")
        if isinstance(held, Obj):
            found = self.attribute(held, name[1])
            if len(args) < 3 or not isinstance(found, Obj):
                return found
            if found.path == held.path or found.path in self.record.overwritten or found.local:
                return found
            static = held.cls is not None and not (held.varies and held.path) and name[1] in held.cls.fields
            if static:
                return found
            return Obj(found.path, found.cls, ("get", found.path, self.node(args[2])), found.varies)
        if isinstance(held, Super) and len(args) > 2:
            cls = held.owner.cls
            return self.attribute(held, name[1]) if cls is not None and cls.method(name[1], held.after) is not None else args[2]
        if isinstance(held, tuple) and not hasattr(held, "_fields") and len(args) > 2 and held[0] != "open":
            default = self.node(args[2])
            return ("fn", f"attribute:{name[1]}", held, default)
        return self.attribute(held, name[1])

    def _b_setattr(self, args: list[Any]) -> Any:
        return self.stored(args[0], args[1], args[2])

    def stored(self, held: Any, name: Any, value: Any) -> Any:
        """Set a field."""
        node = self.node(name)
        if not isinstance(held, Obj):
            raise Beyond("a field of something is set")
        if not is_const(node):
            self.record.emit("setby", held.path, ("tuple", node, self.node(value)), self.place)
            return NULL
        self.write(held, node[1], value, plain=True)
        return NULL

    def write(self, held: Obj, name: str, value: Any, plain: bool = False) -> None:
        """Set a field, through the ``__setattr__`` of its class where it has one."""
        if isinstance(value, Obj) and value.path == held.child(name) and not value.local:
            return  # it stays what it is
        setter = held.cls.method("__setattr__") if held.cls is not None and not plain and not held.local else None
        if setter is not None and "transformer" not in (held.cls.fields if held.cls is not None else ()):
            self.call_function(setter, [held, const(name), value], {})
            return
        if isinstance(value, Obj) and value.local:
            self.record.aliases[held.child(name)] = value
        self.record.overwritten.add(held.child(name))
        self.record.emit("set", held.child(name), self.node(value), self.place)

    def _b_callable(self, args: list[Any]) -> Any:
        if isinstance(args[0], Bound) or (isinstance(args[0], Obj) and args[0].path.rpartition(".")[2] in STEPS):
            return TRUE
        node = self.node(args[0])
        return const(node[0] == "sym") if node[0] in ("sym", "c", "list", "dict") else ("isa", node, "callable")

    def _b_type(self, args: list[Any]) -> Any:
        if isinstance(args[0], Obj) and args[0].cls is not None and not args[0].path:
            return args[0].cls
        return opened("the class of something")

    def _b_enumerate(self, args: list[Any]) -> Any:
        items = self.static_items(args[0])
        if items is not None:
            return Seq("list", [Seq("tuple", [const(i), item]) for i, item in enumerate(items)])
        return ("fn", "enumerate", self.node(args[0]))

    def _b_zip(self, args: list[Any]) -> Any:
        lists = [self.static_items(argument) for argument in args]
        if all(items is not None for items in lists):
            return Seq("list", [Seq("tuple", list(t)) for t in zip(*(items or [] for items in lists), strict=False)])
        return ("fn", "zip", *(self.node(argument) for argument in args))

    def _b_next(self, args: list[Any]) -> Any:
        items = self.static_items(args[0])
        if items:
            return items[0]
        return ("fn", "next", *(self.node(argument) for argument in args))

    def _method(self, callee: Attribute, args: list[Any]) -> Any:
        held, name = callee.value, callee.name
        if isinstance(held, Mapping):
            if name == "items":
                return Seq("list", [Seq("tuple", [k, v]) for k, v in held.items])
            if name in ("keys", "values"):
                return Seq("list", [k if name == "keys" else v for k, v in held.items])
        if isinstance(held, Seq) and name in ("append", "add", "extend", "update") and held.kind in ("list", "set"):
            raise Beyond("a list grows inside an expression")
        if name not in METHODS:
            return opened(f"a call of .{name}")
        node = self.node(held)
        nodes = [self.node(argument) for argument in args]
        if (
            is_const(node)
            and isinstance(node[1], str)
            and all(is_const(n) for n in nodes)
            and name in ("lower", "upper", "strip", "replace", "startswith", "endswith", "split")
        ):
            made = getattr(node[1], name)(*(n[1] for n in nodes))
            return Seq("list", [const(part) for part in made]) if isinstance(made, list) else const(made)
        return ("do", name, node, *nodes)

    def _external(self, path: str, args: list[Any]) -> Any:
        head, _, name = path.rpartition(".")
        if head == "math" and name in _MATH:
            nodes = [self.node(argument) for argument in args]
            return ("fn", name, *nodes)
        if path in ("copy.deepcopy", "copy.copy"):
            return args[0]
        if path == "pathlib.Path" and len(args) == 1:
            return ("fn", "str", self.node(args[0]))
        if path.startswith("torch.cuda"):
            return opened("hardware")
        return opened(f"a call of {path}")
