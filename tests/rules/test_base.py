"""What the base of a rule decides: whether it can refuse a start-up, where it applies, and how its words are joined."""

from __future__ import annotations

import pytest

from mbpack.facts.releases import R03, R04, R05, RELEASES
from mbpack.report.explain_more import FEATURES, concerned
from mbpack.rules.base import RejectingRule, Rule, in_yaml, is_blank, is_number, words
from mbpack.rules.catalogue import ALL_RULES, BY_NAME
from tests.conftest import doctor


def test_a_refusing_rule_that_lacks_its_input_leaves_the_verdict_open() -> None:
    result = doctor("# mbpack: bridge=0.6 launcher=script\ntrain: {global_batch_size: 8}\n")
    assert any(entry.rule.slug == "gbs/eval-divisible" and entry.rule.rejects for entry in result.not_checked)
    assert result.verdict == "unknown"


def test_a_note_that_lacks_its_input_does_not() -> None:
    assert not Rule.rejects
    assert RejectingRule.rejects
    assert {rule.rejects for rule in ALL_RULES if isinstance(rule, RejectingRule)} == {True}


def test_a_rule_applies_from_its_first_release_to_its_last() -> None:
    class Narrow(Rule):
        releases = (R04, R05)

    assert [release for release in RELEASES if Narrow().applies(release)] == [R04, R05]
    assert not Narrow().applies(R03)


def test_names_of_rules_lead_to_them() -> None:
    rule = BY_NAME["topo/heads-divisible"]
    assert BY_NAME[rule.code] is rule
    assert rule.topic == "topo"


def test_a_slug_outside_the_topics_leaves_its_rule_in_one() -> None:
    assert BY_NAME["new/gbp-seq-exceeds-model"].topic == "gbp"
    assert "new" not in {rule.topic for rule in ALL_RULES}
    assert concerned(BY_NAME["new/gbp-seq-exceeds-model"], FEATURES["global_batch"])


@pytest.mark.parametrize(("items", "text"), [([], ""), (["a"], "a"), (["a", "b"], "a and b"), (["a", "b", 3], "a, b and 3")])
def test_words(items: list[object], text: str) -> None:
    assert words(items) == text


@pytest.mark.parametrize(("value", "text"), [(None, "null"), (True, "true"), (False, "false"), (0, "0"), ("Auto", "Auto")])
def test_values_are_shown_as_a_file_spells_them(value: object, text: str) -> None:
    assert in_yaml(value) == text


@pytest.mark.parametrize(("value", "answer"), [("", True), (" \t", True), (None, True), (3, True), ("a", False)])
def test_what_is_blank(value: object, answer: bool) -> None:
    assert is_blank(value) is answer


@pytest.mark.parametrize(("value", "answer"), [(1, True), (1.5, True), (True, True), ("1", False), (None, False), ([1], False)])
def test_what_is_a_number(value: object, answer: bool) -> None:
    assert is_number(value) is answer
