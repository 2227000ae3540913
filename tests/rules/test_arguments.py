"""The rules about KEY=VALUE arguments answer as it is on record: see ``tests/rules/arguments.py``."""

from __future__ import annotations

import pytest

from tests.rules.arguments import ARGUMENTS, answer, questions, read


def test_the_record_is_complete() -> None:
    assert set(read()) == set(questions())


@pytest.mark.parametrize("arguments", ARGUMENTS)
def test_answers_to_arguments(arguments: str) -> None:
    expected = {question: said for question, said in read().items() if question[0] == arguments}
    assert {question: answer(*question) for question in expected} == expected
