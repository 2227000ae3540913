"""What `mbpack init` writes, put before the real start-up of each release (`pytest -m conformance tests/wizard`).

The packages are set up as tests/conformance/README.md says. Environment variables: MBPACK_WIZARD_ROWS (files per release,
default 60), MBPACK_CONFORMANCE_SEED (default 1). Recipes that their own release refuses unchanged are left out: offline, some
Hugging Face configurations are stand-ins without experts or with too few layers.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from mbpack.facts.releases import RELEASES
from mbpack.wizard.key_value import arguments
from mbpack.wizard.plan import Plan
from tests.conformance.judge import Judge, load_recipes
from tests.conformance.real import environments
from tests.wizard.cells import CHECKPOINT, written

pytestmark = pytest.mark.conformance

ROWS = int(os.environ.get("MBPACK_WIZARD_ROWS", "60"))
SEED = int(os.environ.get("MBPACK_CONFORMANCE_SEED", "1"))
# Without any release there is nothing to ask: the first test then fails and says how to set one up.
INSTALLED = environments.available() or list(environments.RELEASES)[-1:]


@lru_cache(maxsize=8)
def files(release_name: str) -> list[Plan]:
    """Written files on recipes that start up unchanged."""
    release = next(one for one in RELEASES if one.name == release_name)
    usable = load_recipes(release_name)
    found: list[Plan] = []
    for _, plan in written(release, 10 * ROWS, SEED):
        if plan.draft.recipe.name in usable:
            found.append(plan)
            if len(found) == ROWS:
                break
    return found


def refused(release_name: str, as_overrides: bool, checkpoint: str) -> Iterator[str]:
    """Files that the real start-up does not accept, with its reason. ``checkpoint``: a folder that exists."""
    rows: list[dict[str, Any]] = []
    for number, plan in enumerate(files(release_name)):
        row = {"id": f"{release_name}-{number}", "recipe": plan.draft.recipe.name, "gpus": plan.draft.get("gpus")}
        if as_overrides:
            row["overrides"] = [word.replace(CHECKPOINT, checkpoint) for word in arguments(plan)]
        else:
            row["yaml"] = plan.text.replace(CHECKPOINT, checkpoint)
        rows.append(row)
    with Judge(release_name) as judge:
        for row, verdict in zip(rows, judge.judge(rows), strict=True):
            if not verdict["accepted"]:
                yield f"{row['recipe']}: {verdict['errors'][-1]['message']}\n{row.get('yaml') or row.get('overrides')}"


@pytest.mark.parametrize("release", INSTALLED)
def test_written_files_start_up(release: str, tmp_path: Path) -> None:
    assert list(refused(release, False, str(tmp_path))) == []
    recipes = {plan.draft.recipe.name for plan in files(release)}
    print(f"{release}: {len(files(release))} files on {len(recipes)} recipes accepted")  # pytest -s shows it
    assert len(recipes) >= min(40, ROWS // 3)


@pytest.mark.parametrize("release", INSTALLED)
def test_key_value_arguments_start_up(release: str, tmp_path: Path) -> None:
    assert list(refused(release, True, str(tmp_path))) == []
