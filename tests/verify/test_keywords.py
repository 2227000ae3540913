"""`-k` expressions."""

from __future__ import annotations

import pytest

from mbpack.facts.releases import RELEASES
from mbpack.facts.upstream_tests import commands
from mbpack.verify.keywords import KeywordError, matcher, names_of

NAMES = names_of(["test_config.py", "TestPacking", "test_offline_mbs", "test_offline_mbs[2-False]"])


@pytest.mark.parametrize(
    ("expression", "selected"),
    [
        ("", True),
        ("offline", True),
        ("OFFLINE_mbs", True),
        ("testpacking", True),
        ("in_batch", False),
        ("in_batch or offline", True),
        ("in_batch or energon", False),
        ("offline and mbs", True),
        ("offline and gbs", False),
        ("not in_batch", True),
        ("not not in_batch", False),
        ("offline and not mbs", False),
        ("in_batch and energon or offline", True),
        ("in_batch and (energon or offline)", False),
        ("(offline)", True),
        ("2-False", True),
        ("[2-", True),
    ],
)
def test_an_expression_selects(expression: str, selected: bool) -> None:
    assert matcher(expression)(NAMES) is selected


@pytest.mark.parametrize("expression", ["or", "a or", "a b", "(a", "a)", "not", "a and", "()", "a ; b", "a & b"])
def test_a_wrong_expression_is_refused_in_one_line(expression: str) -> None:
    with pytest.raises(KeywordError) as refused:
        matcher(expression)
    assert repr(expression) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_upstream_expressions_can_all_be_read() -> None:
    for release in RELEASES:
        for selection in commands(release.name):
            word = selection.keyword.split(" ")[-1]
            assert matcher(selection.keyword)(names_of([f"test_{word}"]))
            assert matcher(selection.keyword)(names_of(["test_else"])) is (not selection.keyword)
