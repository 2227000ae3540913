"""What expressions of the algebra are worth: known, open, or an error as Python raises it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbpack.checks.functions import truth
from mbpack.checks.values import OPEN, Held, Member, Symbol
from mbpack.checks.words import ERRORS, value
from mbpack.config.settings import ABSENT


class Keys:
    """Answers keys from a list."""

    def __init__(self, *held: Any) -> None:
        self.held = held
        self.elements: dict[int, Any] = {}

    def key(self, number: int) -> Any:
        return self.held[number]

    def field(self, number: int) -> Any:
        return self.held[number]

    def register(self, number: int) -> Any:
        return self.held[number]

    def variables(self) -> dict[int, Any]:
        return self.elements

    def is_of(self, number: int, classes: Iterable[str]) -> Any:
        return self.held[number] in classes

    def environment(self, name: str) -> Any:
        return OPEN

    def gpus(self) -> Any:
        return 8


A, B = ["k", 0], ["k", 1]
SILU = Symbol("torch.nn.functional.silu")
FLASH = Member("AttnBackend", "flash", 1)


@pytest.mark.parametrize(
    ("node", "held", "expected"),
    [
        (["+", A, 1], [2], 3),
        (["%", A, B], [7, OPEN], OPEN),
        (["and", A, ["==", ["%", 1, B], 0]], [False, 0], False),
        (["and", A, B], [OPEN, False], False),
        (["and", A, ["%", 1, B]], [OPEN, 0], OPEN),
        (["or", A, B], [OPEN, True], True),
        (["or", A, B], [0, "x"], "x"),
        (["not", A], [OPEN], OPEN),
        (["if", A, 1, 1], [OPEN], 1),
        (["if", A, 1, 2], [OPEN], OPEN),
        (["is", A, None], [None], True),
        (["is", A, None], [Held("dataset")], False),
        (["==", A, "x"], [Held("dataset")], False),
        (["==", A, ["sym", SILU.path]], [SILU], True),
        (["!=", A, ["member", "AttnBackend", "flash", 1]], ["flash"], True),
        (["==", A, ["member", "AttnBackend", "flash", 1]], [FLASH], True),
        (["in", A, ["list", "x", B]], ["x", OPEN], True),
        (["in", A, ["list", "x", B]], ["y", OPEN], OPEN),
        (["in", "a", A], ["abc"], True),
        (["isa", A, "int"], [True], True),
        (["isa", A, "str", "list"], [OPEN], OPEN),
        (["get", 0, 4], [ABSENT], 4),
        (["get", 0, 4], [None], None),
        (["has", 0], [ABSENT], False),
        (["cls", 0, "a.B"], ["a.B"], True),
        (["fn", "lcm", 2, A], [3], 6),
        (["fn", "lcm", 2, ["fn", "star", A]], [[3, 4]], 12),
        (["fn", "all", ["map", 1, A, True, ["<", ["v", 1], 3]]], [[1, 2]], True),
        (["fn", "any", ["map", 1, A, ["!=", ["v", 1], 2], ["v", 1]]], [[2, 0]], False),
        (["fn", "any", ["map", 1, A, True, ["v", 1]]], [[OPEN, 1]], True),
        (["do", "split", A, ","], ["a,b"], ["a", "b"]),
        (["item", ["dict", ["x", 1]], A], ["x"], 1),
        (["slice", A, None, 1], [[1, 2]], [1]),
        (["list", ["when", A, "x"]], [False], []),
        (["fails", ["item", ["dict", ["x", 1]], A]], ["y"], True),
        (["fails", ["item", ["dict", ["x", 1]], A]], [OPEN], OPEN),
        (["//", ["gpus"], A], [2], 4),
        (["open", "anything"], [], OPEN),
        (["*", A, 1 << 40], ["x"], OPEN),
    ],
)  # fmt: skip
def test_an_answer(node: list[Any], held: list[Any], expected: Any) -> None:
    found = value(Keys(*held), node)
    assert found is expected if expected is OPEN or expected is None or isinstance(expected, bool) else found == expected


@pytest.mark.parametrize(
    ("node", "held", "error"),
    [
        (["%", A, B], [4, None], TypeError),
        (["%", A, B], [4, 0], ZeroDivisionError),
        (["<", A, B], ["4", 1], TypeError),
        (["in", 1, A], [None], TypeError),
        (["fn", "len", A], [4], TypeError),
        (["item", ["dict", ["x", 1]], A], ["y"], KeyError),
        (["+", A, 1], [SILU], TypeError),
        (["do", "split", A, ","], [4], AttributeError),
    ],
)
def test_what_python_refuses(node: list[Any], held: list[Any], error: type[Exception]) -> None:
    assert error in ERRORS
    with pytest.raises(error):
        value(Keys(*held), node)


PLAIN = st.one_of(st.none(), st.booleans(), st.integers(-9, 9), st.floats(-9, 9), st.text(max_size=3))
NODES = st.recursive(
    st.sampled_from([A, B, 0, 1, 2, None, True, "x"]),
    lambda inner: st.tuples(
        st.sampled_from(["and", "or", "==", "!=", "<", "+", "%", "is", "//"]), inner, inner
    ).map(list) | inner.map(lambda node: ["not", node]),
    max_leaves=8,
)  # fmt: skip


@given(NODES, PLAIN, PLAIN)
def test_what_is_said_with_an_open_operand_holds_for_every_value(node: Any, one: Any, other: Any) -> None:
    try:
        partly = value(Keys(one, OPEN), node)
    except ERRORS:
        with pytest.raises(ERRORS):
            value(Keys(one, other), node)
        return
    if partly is OPEN:
        return
    assert truth(value(Keys(one, other), node)) == truth(partly)
