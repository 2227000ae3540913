"""Modules that are asked only where one of their keys is written have nothing to say elsewhere: about recipes alone here, about
every case in ``test_cases.py``, about every example in ``test_docs.py``."""

from __future__ import annotations

import pytest

from mbpack.config.assemble import build_run
from mbpack.config.context import Given, resolve_context
from mbpack.facts import recipes
from mbpack.facts.keys import path_in
from mbpack.facts.releases import RELEASES
from mbpack.facts.schema import schema
from mbpack.rules.watched import WATCHED
from tests.rules.examples import unasked


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
