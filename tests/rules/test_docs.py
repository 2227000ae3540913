"""The examples of every rule's documentation are executed: Bad gives the rule's finding, Good gives no error."""

from __future__ import annotations

from pathlib import Path

import pytest

from mbpack.rules.base import Rule
from mbpack.rules.catalogue import ALL_RULES, BY_NAME
from mbpack.rules.documentation import Page, page_of
from tests.conftest import load_cases, slugs
from tests.rules.examples import examine_example, unasked

#: Rules that no single file can make speak, with the test that does: their inputs are data, libraries or a defect of mbpack.
NOT_IN_A_FILE = {
    "nrg/overlong-sample-skipped": "rules/test_needs_more.py::test_named_as_not_checked",
    "step/thd-partition-mcore": "rules/test_needs_more.py::test_named_as_not_checked",
    "vlm/inbatch-row-length": "rules/test_needs_more.py::test_named_as_not_checked",
    "internal/rule-failed": "cli/test_doctor.py::test_a_rule_that_raises_is_a_finding_and_the_others_run",
}
TESTS = Path(__file__).parent.parent
CASES = {
    slug
    for folder in ("cases", "on_disk")
    for file in (TESTS / "rules" / folder).glob("*.yaml")
    for case in load_cases(file)
    for slug in (*(expected["slug"] for expected in case.get("expect", ())), *case.get("not_checked", ()))
}
PAGES = {rule.code: page_of(rule) for rule in ALL_RULES}
BAD = [pytest.param(rule, text, id=f"{rule.code}-{i}") for rule in ALL_RULES for i, text in enumerate(PAGES[rule.code].bad)]
GOOD = [pytest.param(rule, text, id=f"{rule.code}-{i}") for rule in ALL_RULES for i, text in enumerate(PAGES[rule.code].good)]


@pytest.mark.parametrize(("rule", "text"), BAD)
def test_bad_example_gives_the_finding(rule: Rule, text: str) -> None:
    result = examine_example(text)
    assert rule.slug in slugs(result), slugs(result)
    assert not result.failed_rules
    assert result.run is None or unasked(result.run) == []


@pytest.mark.parametrize(("rule", "text"), GOOD)
def test_good_example_does_not(rule: Rule, text: str) -> None:
    result = examine_example(text)
    assert rule.slug not in slugs(result)
    assert slugs(result, "error") == []
    assert result.run is None or unasked(result.run) == []


@pytest.mark.parametrize("rule", ALL_RULES, ids=lambda rule: rule.code)
def test_page_is_complete(rule: Rule) -> None:
    page: Page = PAGES[rule.code]
    assert page.title
    assert not page.title.endswith("..")
    if rule.slug in NOT_IN_A_FILE:
        assert not page.bad, "it can be shown: take it off the list"
        assert not page.good
    else:
        assert page.bad, "a page shows what gives the finding"
        assert page.good, "and what it should be"


@pytest.mark.parametrize(("slug", "test"), NOT_IN_A_FILE.items())
def test_what_no_file_shows_is_tested_elsewhere(slug: str, test: str) -> None:
    path, _, name = test.partition("::")
    text = (TESTS / path).read_text()
    assert f"def {name}(" in text
    assert f'"{slug}"' in text
    assert any(word in PAGES[BY_NAME[slug].code].text for word in ("depends on the data", "does not tell", "defect of mbpack"))


@pytest.mark.parametrize("rule", ALL_RULES, ids=lambda rule: rule.code)
def test_every_rule_is_shown_or_has_a_case(rule: Rule) -> None:
    assert PAGES[rule.code].bad or rule.slug in CASES or rule.slug == "internal/rule-failed"


def test_codes_and_slugs_are_unique() -> None:
    codes = [rule.code for rule in ALL_RULES]
    names = [rule.slug for rule in ALL_RULES]
    assert len(set(codes)) == len(codes)
    assert len(set(names)) == len(names)
