"""Every rule answers to its examples and to their neighbours as it is recorded: see ``tests/rules/neighbours.py``."""

from __future__ import annotations

import pytest

from tests.rules.neighbours import FILES, Example, read

EXAMPLES = [pytest.param(e, id=f"{e.slug}-{e.origin}".replace(" ", "-")) for path in FILES for e in read(path)]


@pytest.mark.parametrize("example", EXAMPLES)
def test_neighbours_of_an_example(example: Example) -> None:
    assert {change: example.answer(change) for change in example.answers} == example.answers
