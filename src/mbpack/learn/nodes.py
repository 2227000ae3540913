"""Expressions of the algebra while they are made: nested tuples, with what is known worked out at once.

("c", value)                      a constant: null, a boolean, a number, a text
("k", name)                       what a configuration key holds at this point
("r", number)                     what an earlier row worked out
("v", number)                     the element that a quantifier looks at
("sym", path)                     a function or number format, by its path; only its identity counts
("member", class, name, value)    a member of an enumeration
("not", a) ("and", ...) ("or", ...) ("if", condition, then, else)
("==", a, b) and the like         comparisons, arithmetic, membership
("isa", a, kind, ...)             kinds of plain values
("cls", key, path, ...)           whether the object at a key is of one of these classes
("has", key)                      whether the object that holds the key has such a field
("get", key, default)             what the key holds, or the default where the object has no such field
("list" | "tuple" | "set", ...)   collections; an entry ("when", condition, a) is there on a condition
("dict", (key, value), ...)
("map", number, iterable, condition, element)
("fn", name, ...)                 a function of the algebra
("do", name, a, ...)              a method of texts, lists, mappings and sets
("item", a, index) ("slice", a, from, to)
("env", name) ("gpus",)           the environment and the number of GPUs
("fails", a)                      whether working it out stops with an error
("open", reason)                  beyond the algebra: never known
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

Node: TypeAlias = tuple[Any, ...]

BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "&": operator.and_,
    "|": operator.or_,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
TRUE, FALSE, NULL = ("c", True), ("c", False), ("c", None)


def const(value: Any) -> Node:
    """A constant."""
    return ("c", value)


#: Why a text with values in it is not known: it is for people.
PUT_TOGETHER = "a text put together"


def is_const(node: Node) -> bool:
    """Whether the value is known already."""
    return bool(node[0] == "c")


def opened(reason: str) -> Node:
    """Something that nobody can know here."""
    return ("open", reason)


def truth(node: Node) -> bool | None:
    """What a condition is where it is known already."""
    head = node[0]
    if head == "c":
        return bool(node[1])
    if head in ("list", "tuple", "set"):
        entries = node[1:]
        if any(entry[0] != "when" for entry in entries):
            return True
        return None if entries else False
    if head == "dict":
        return bool(node[1:])
    if head in ("sym", "member"):
        return True
    return None


def negate(node: Node) -> Node:
    """The opposite of a condition."""
    known = truth(node)
    if known is not None:
        return const(not known)
    if node[0] == "not" and is_condition(node[1]):
        return node[1]  # type: ignore[no-any-return]
    opposite = {"==": "!=", "!=": "==", "is": "is not", "is not": "is", "in": "not in", "not in": "in"}.get(node[0])
    return (opposite, *node[1:]) if opposite else ("not", node)


def is_condition(node: Node) -> bool:
    """Whether a node is a boolean whatever its operands are."""
    return node[0] in ("not", "==", "!=", "<", "<=", ">", ">=", "is", "is not", "in", "not in", "isa", "cls", "has", "fails")


def joined(word: str, parts: list[Node]) -> Node:
    """``and`` or ``or`` of several, with what is known left out."""
    stop = word == "or"
    kept: list[Node] = []
    for index, part in enumerate(parts):
        known = truth(part)
        if known is None or index == len(parts) - 1:
            kept.extend(part[1:] if part[0] == word else [part])
        elif known is stop:
            kept.append(part)
        if known is stop:
            break
    return kept[0] if len(kept) == 1 else (word, *kept)


def binary(word: str, left: Node, right: Node) -> Node:
    """An operation on two, worked out where both are known."""
    if is_const(left) and is_const(right):
        a, b = left[1], right[1]
        try:
            if word == "is":
                return const(a is b)
            if word == "is not":
                return const(a is not b)
            if word in BINARY:
                return const(BINARY[word](a, b))
            if word in ("in", "not in") and isinstance(b, str):
                return const((a in b) is (word == "in"))
        except (TypeError, ValueError, ZeroDivisionError, OverflowError):
            pass
    identities = ("sym", "member")
    if left[0] in identities and right[0] in identities:
        if word in ("==", "is"):
            return const(left == right)
        if word in ("!=", "is not"):
            return const(left != right)
    if word in ("is", "is not") and right == NULL and left[0] in (*identities, "list", "tuple", "set", "dict"):
        return const(word == "is not")
    return (word, left, right)


def choice(condition: Node, then: Node, other: Node) -> Node:
    """One of two by a condition."""
    known = truth(condition)
    if known is not None:
        return then if known else other
    return then if then == other else ("if", condition, then, other)


def parts_of(node: Any) -> Iterator[Node]:
    """A node and everything below it."""
    if isinstance(node, tuple):
        if node and isinstance(node[0], str):
            yield node
        for part in node[1:] if node and isinstance(node[0], str) else node:
            yield from parts_of(part)


def is_open(node: Node) -> str | None:
    """The reason why a node is never known, where nothing can decide it otherwise."""
    return str(node[1]) if node[0] == "open" else None
