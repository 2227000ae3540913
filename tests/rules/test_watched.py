"""Modules that are asked only where one of their keys is written have nothing to say elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from mbpack.config.assemble import build_run
from mbpack.config.context import Given, resolve_context
from mbpack.config.run import Run
from mbpack.config.settings import Unknown, WrongKind
from mbpack.facts import recipes
from mbpack.facts.keys import path_in
from mbpack.facts.releases import RELEASES
from mbpack.facts.schema import schema
from mbpack.rules.catalogue import ALL_RULES
from mbpack.rules.documentation import page_of
from mbpack.rules.registry import module_rules, rules_for
from mbpack.rules.watched import WATCHED
from tests.rules.examples import examine_case, examine_example
from tests.rules.test_cases import CASES

EXAMPLES = [text for rule in ALL_RULES for page in [page_of(rule)] for text in (*page.bad, *page.good)]


def unasked(run: Run) -> list[str]:
    """Rules that find something without having been asked."""
    asked, found = rules_for(run.settings), []
    for rule in (rule for name in WATCHED for rule in module_rules(name)):
        if rule in asked or not rule.applies(run.release):
            continue
        try:
            found += [finding.rule.slug for finding in rule.check(run)]
        except (Unknown, WrongKind):
            continue
    return found


@pytest.mark.parametrize("case", CASES)
def test_a_case(case: dict[str, Any]) -> None:
    run = examine_case(case).run
    assert run is None or unasked(run) == []


def test_the_examples() -> None:
    runs = [run for text in EXAMPLES for run in [examine_example(text).run] if run is not None]
    assert [found for run in runs for found in unasked(run)] == []
    assert len(runs) > 500


@pytest.mark.parametrize("release", ["0.3", "0.4", "0.5", "0.6", "0.7"])
def test_recipes_alone(release: str) -> None:
    found = {}
    for name in recipes.names(release):
        context = resolve_context(Given(release, recipe=name, gpus=64, launcher="run_recipe"), Given(), ())
        found[name] = unasked(build_run(context, ()))
    assert {name: slugs for name, slugs in found.items() if slugs} == {}


@pytest.mark.parametrize("name", WATCHED)
def test_keys_exist(name: str) -> None:
    for key in WATCHED[name]:
        assert any(_exists(release.name, path_in(release, key)) for release in RELEASES), key


def _exists(release: str, path: str) -> bool:
    section, _, field = path.partition(".")
    held = schema(release)
    if not field or section == "env_vars":  # a mapping of any names
        return section in held.sections
    if section == "model":
        return field in held.any_model_fields()
    if section == "dataset":
        return field in held.any_dataset_fields()
    classes = ("LoRA", "DoRA", "CanonicalLoRA") if section == "peft" else (held.section_class(section) or "",)
    return any(field in (held.fields(cls) or ()) for cls in classes)
