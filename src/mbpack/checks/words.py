"""The words of the algebra: how each expression is worked out from what is known.

An operand that is not known leaves the answer open, unless the others decide it. What Python itself refuses (arithmetic
with null, text or lists, division by zero, a missing entry) is raised as Python raises it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from mbpack.checks.functions import LARGEST, call, has_open, method, quantified, truth
from mbpack.checks.values import OPEN, Held, Member, Symbol
from mbpack.config.settings import ABSENT

_KINDS: dict[str, type] = {
    "int": int,
    "str": str,
    "list": list,
    "dict": dict,
    "bool": bool,
    "float": float,
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
}
#: What Python raises where a value has the wrong kind.
ERRORS = (TypeError, ZeroDivisionError, AttributeError, KeyError, IndexError, ValueError, OverflowError)


class Reader(Protocol):
    """What expressions ask for: see `mbpack.checks.evaluate.Start`."""

    def key(self, number: int) -> Any: ...

    def field(self, number: int) -> Any: ...

    def register(self, number: int) -> Any: ...

    def variables(self) -> dict[int, Any]: ...

    def is_of(self, number: int, classes: Iterable[str]) -> Any: ...

    def environment(self, name: str) -> Any: ...

    def gpus(self) -> Any: ...


Word = Callable[["Reader", list[Any]], Any]


def value(reader: Reader, node: Any) -> Any:
    """What an expression is, OPEN where that is not known.

    Raises:
        One of ERRORS where Python would stop.
    """
    return WORDS[node[0]](reader, node) if node.__class__ is list else node


def _and(reader: Reader, node: list[Any]) -> Any:
    return _joined(reader, node, False)


def _or(reader: Reader, node: list[Any]) -> Any:
    return _joined(reader, node, True)


def _joined(reader: Reader, node: list[Any], stop: bool) -> Any:
    unknown = False
    held: Any = not stop
    for part in node[1:]:
        try:
            held = value(reader, part)
        except ERRORS:
            if unknown:
                return OPEN
            raise
        known = truth(held)
        if known is OPEN:
            unknown = True
        elif known is stop:
            return (held if not unknown else stop) if stop is False or not unknown else True
    return OPEN if unknown else held


def _not(reader: Reader, node: list[Any]) -> Any:
    known = truth(value(reader, node[1]))
    return OPEN if known is OPEN else not known


def _if(reader: Reader, node: list[Any]) -> Any:
    known = truth(value(reader, node[1]))
    if known is OPEN:
        try:
            one, two = value(reader, node[2]), value(reader, node[3])
        except ERRORS:
            return OPEN
        return one if one is two or (one is not OPEN and two is not OPEN and _same(one, two) is True) else OPEN
    return value(reader, node[2] if known else node[3])


def _same(one: Any, two: Any) -> Any:
    """Whether two values are equal."""
    if one is OPEN or two is OPEN:
        return OPEN
    if isinstance(one, Held) or isinstance(two, Held):
        if one is None or two is None or isinstance(one, (bool, int, float, str)) or isinstance(two, (bool, int, float, str)):
            return False
        return OPEN
    if isinstance(one, (Symbol, Member)) or isinstance(two, (Symbol, Member)):
        if type(one) is not type(two):
            return False
        return one == two
    if isinstance(one, (list, tuple)) and isinstance(two, (list, tuple)):
        if type(one) is not type(two) or len(one) != len(two):
            return False if (not has_open(one) and not has_open(two)) or len(one) != len(two) else OPEN
        answers = [_same(a, b) for a, b in zip(one, two, strict=True)]
        return False if False in answers else OPEN if any(a is OPEN for a in answers) else True
    return one == two


def _equal(reader: Reader, node: list[Any]) -> Any:
    return _same(value(reader, node[1]), value(reader, node[2]))


def _unequal(reader: Reader, node: list[Any]) -> Any:
    same = _same(value(reader, node[1]), value(reader, node[2]))
    return OPEN if same is OPEN else not same


def _is(reader: Reader, node: list[Any]) -> Any:
    one, two = value(reader, node[1]), value(reader, node[2])
    if one is OPEN or two is OPEN:
        return OPEN
    if one is None or two is None or isinstance(one, bool) or isinstance(two, bool):
        return one is two
    return _same(one, two)


def _is_not(reader: Reader, node: list[Any]) -> Any:
    same = _is(reader, node)
    return OPEN if same is OPEN else not same


def _within(one: Any, many: Any) -> Any:
    if many is OPEN or isinstance(many, (Symbol, Held)):
        return OPEN
    if isinstance(many, dict):
        many = list(many)
    if one is OPEN:
        return False if isinstance(many, (list, tuple, set)) and not many else OPEN
    if isinstance(many, str):
        if isinstance(one, (Symbol, Member, Held)):
            raise TypeError
        return one in many
    if isinstance(many, (set, frozenset)) and not isinstance(one, (Symbol, Member)):
        hash(one)
    answers = [_same(one, item) for item in many]
    return True if True in answers else OPEN if any(a is OPEN for a in answers) else False


def _in(reader: Reader, node: list[Any]) -> Any:
    return _within(value(reader, node[1]), value(reader, node[2]))


def _not_in(reader: Reader, node: list[Any]) -> Any:
    found = _within(value(reader, node[1]), value(reader, node[2]))
    return OPEN if found is OPEN else not found


def _binary(work: Callable[[Any, Any], Any]) -> Word:
    def word(reader: Reader, node: list[Any]) -> Any:
        one, two = value(reader, node[1]), value(reader, node[2])
        if one is OPEN or two is OPEN or isinstance(one, Held) or isinstance(two, Held):
            return OPEN
        if isinstance(one, (Symbol, Member)) or isinstance(two, (Symbol, Member)):
            raise TypeError
        if (
            isinstance(one, (set, frozenset, list))
            and isinstance(two, (set, frozenset, list))
            and (has_open(one) or has_open(two))
        ):
            return OPEN
        return _small(work, one, two)

    return word


def _small(work: Callable[[Any, Any], Any], one: Any, two: Any) -> Any:
    """Arithmetic, without what would fill the memory."""
    if work is operator.mul:
        for some, times in ((one, two), (two, one)):
            if isinstance(some, (str, list, tuple)) and isinstance(times, int) and times * len(some) > LARGEST:
                return OPEN
    if work is operator.pow and isinstance(one, int) and isinstance(two, int) and abs(two) > 4096:
        return OPEN
    return work(one, two)


def _items(reader: Reader, node: list[Any]) -> tuple[list[Any], bool]:
    """The entries of a collection, and whether it is known which are there, or that some certainly is."""
    found: list[Any] = []
    maybe = there = False
    for part in node[1:]:
        if part.__class__ is list and part[0] == "when":
            known = truth(value(reader, part[1]))
            if known is OPEN:
                found.append(OPEN)
                maybe = True
                continue
            if not known:
                continue
            part = part[2]
        found.append(value(reader, part))
        there = True
    return found, there or not maybe


def _list(reader: Reader, node: list[Any]) -> Any:
    held, known = _items(reader, node)
    return held if known else OPEN


def _tuple(reader: Reader, node: list[Any]) -> Any:
    held, known = _items(reader, node)
    return tuple(held) if known else OPEN


def _set(reader: Reader, node: list[Any]) -> Any:
    held, _ = _items(reader, node)
    return OPEN if has_open(held) else set(held)


def _dict(reader: Reader, node: list[Any]) -> Any:
    pairs = [(value(reader, key), value(reader, held)) for key, held in node[1:]]
    return OPEN if any(key is OPEN for key, _ in pairs) else dict(pairs)


def _map(reader: Reader, node: list[Any]) -> Any:
    many = value(reader, node[2])
    if many is OPEN or isinstance(many, (Symbol, Held)):
        return OPEN
    names, found = reader.variables(), []
    for item in many:
        names[node[1]] = item
        known = truth(value(reader, node[3]))
        if known is OPEN:
            found.append(OPEN)
        elif known:
            found.append(value(reader, node[4]))
    return found


def _isa(reader: Reader, node: list[Any]) -> Any:
    held = value(reader, node[1])
    if held is OPEN:
        return OPEN
    if isinstance(held, Member):
        return held.enum in node[2:]
    if isinstance(held, Symbol):
        return "callable" in node[2:] and not held.path.startswith("torch.float")
    if isinstance(held, Held):
        return False if "callable" not in node[2:] else OPEN
    if held is ABSENT:
        return OPEN
    return any(isinstance(held, _KINDS[kind]) for kind in node[2:] if kind in _KINDS)


def _function(reader: Reader, node: list[Any]) -> Any:
    name = node[1]
    if name.startswith("attribute:"):
        return _attribute(reader, node, name[10:])
    if name in ("any", "all"):
        return quantified(value(reader, node[2]), name == "any")
    held: list[Any] = []
    for part in node[2:]:
        if part.__class__ is list and part[:2] == ["fn", "star"]:
            spread = value(reader, part[2])
            if spread is OPEN or isinstance(spread, (Held, Symbol)):
                return OPEN
            held.extend(spread)
        else:
            held.append(value(reader, part))
    return call(name, held)


def _attribute(reader: Reader, node: list[Any], name: str) -> Any:
    held = value(reader, node[2])
    if held is OPEN or isinstance(held, Held):
        return OPEN
    if isinstance(held, Member) and name in ("name", "value"):
        return held.name if name == "name" else held.value
    return value(reader, node[3])


def _method(reader: Reader, node: list[Any]) -> Any:
    held = value(reader, node[2])
    return method(node[1], held, [value(reader, part) for part in node[3:]])


def _item(reader: Reader, node: list[Any]) -> Any:
    held, index = value(reader, node[1]), value(reader, node[2])
    if held is OPEN or index is OPEN or isinstance(held, (Held, Symbol)):
        return OPEN
    if isinstance(held, (str, list, tuple, dict)):
        return held[index]
    raise TypeError


def _slice(reader: Reader, node: list[Any]) -> Any:
    held, first, last = (value(reader, part) for part in node[1:4])
    if held is OPEN or first is OPEN or last is OPEN or isinstance(held, (Held, Symbol)):
        return OPEN
    if isinstance(held, (str, list, tuple)):
        return held[first:last]
    raise TypeError


def _fails(reader: Reader, node: list[Any]) -> Any:
    try:
        return OPEN if value(reader, node[1]) is OPEN else False
    except ERRORS:
        return True


def _get(reader: Reader, node: list[Any]) -> Any:
    held = reader.field(node[1])
    return value(reader, node[2]) if held is ABSENT else held


def _has(reader: Reader, node: list[Any]) -> Any:
    held = reader.field(node[1])
    return OPEN if held is OPEN else held is not ABSENT


def _environment(reader: Reader, node: list[Any]) -> Any:
    held = reader.environment(node[1])
    return value(reader, node[2]) if held is None else held


WORDS: dict[str, Word] = {
    "k": lambda reader, node: reader.key(node[1]),
    "r": lambda reader, node: reader.register(node[1]),
    "v": lambda reader, node: reader.variables()[node[1]],
    "sym": lambda reader, node: Symbol(node[1]),
    "member": lambda reader, node: Member(node[1], node[2], node[3]),
    "open": lambda reader, node: OPEN,
    "not": _not,
    "and": _and,
    "or": _or,
    "if": _if,
    "==": _equal,
    "!=": _unequal,
    "is": _is,
    "is not": _is_not,
    "in": _in,
    "not in": _not_in,
    "isa": _isa,
    "cls": lambda reader, node: reader.is_of(node[1], node[2:]),
    "has": _has,
    "get": _get,
    "list": _list,
    "tuple": _tuple,
    "set": _set,
    "dict": _dict,
    "map": _map,
    "fn": _function,
    "do": _method,
    "item": _item,
    "slice": _slice,
    "env": _environment,
    "gpus": lambda reader, node: reader.gpus(),
    "fails": _fails,
    "+": _binary(operator.add),
    "-": _binary(operator.sub),
    "*": _binary(operator.mul),
    "/": _binary(operator.truediv),
    "//": _binary(operator.floordiv),
    "%": _binary(operator.mod),
    "**": _binary(operator.pow),
    "&": _binary(operator.and_),
    "|": _binary(operator.or_),
    "<": _binary(operator.lt),
    "<=": _binary(operator.le),
    ">": _binary(operator.gt),
    ">=": _binary(operator.ge),
}
