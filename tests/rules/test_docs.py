"""The examples of every rule's documentation are executed: Bad gives the rule's finding, Good gives no error."""

from __future__ import annotations

import pytest

from mbpack.rules.base import Rule
from mbpack.rules.documentation import Page, page_of
from mbpack.rules.registry import ALL_RULES
from tests.conftest import slugs
from tests.rules.examples import examine_example

PAGES = {rule.code: page_of(rule) for rule in ALL_RULES}
BAD = [pytest.param(rule, text, id=f"{rule.code}-{i}") for rule in ALL_RULES for i, text in enumerate(PAGES[rule.code].bad)]
GOOD = [pytest.param(rule, text, id=f"{rule.code}-{i}") for rule in ALL_RULES for i, text in enumerate(PAGES[rule.code].good)]


@pytest.mark.parametrize(("rule", "text"), BAD)
def test_bad_example_gives_the_finding(rule: Rule, text: str) -> None:
    result = examine_example(text)
    assert rule.slug in slugs(result), slugs(result)
    assert not result.failed_rules


@pytest.mark.parametrize(("rule", "text"), GOOD)
def test_good_example_does_not(rule: Rule, text: str) -> None:
    result = examine_example(text)
    assert rule.slug not in slugs(result)
    assert slugs(result, "error") == []


@pytest.mark.parametrize("rule", ALL_RULES, ids=lambda rule: rule.code)
def test_page_is_complete(rule: Rule) -> None:
    page: Page = PAGES[rule.code]
    assert page.title
    assert not page.title.endswith("..")
    assert page.bad or not page.good, "a good example needs a bad one beside it"


def test_codes_and_slugs_are_unique() -> None:
    codes = [rule.code for rule in ALL_RULES]
    names = [rule.slug for rule in ALL_RULES]
    assert len(set(codes)) == len(codes)
    assert len(set(names)) == len(names)
