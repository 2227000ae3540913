"""What `mbpack init` writes, put before the real start-up of each release (`pytest -m conformance tests/wizard`).

The packages are set up as tests/conformance/README.md says, and the trees of 0.7 and nightly, which are no packages. Environment
variables: MBPACK_WIZARD_ROWS (files per release, default 60), MBPACK_CONFORMANCE_SEED (default 1). Recipes that their own release
refuses unchanged are left out: offline, some Hugging Face configurations are stand-ins without experts or with too few layers.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

import pytest

from mbpack.facts.modes import GLOBAL_BATCH, IN_BATCH
from mbpack.facts.releases import RELEASES
from mbpack.wizard.key_value import arguments
from mbpack.wizard.plan import Plan
from tests.conformance.engine import trees
from tests.conformance.judge import Judge, load_recipes
from tests.conformance.real import environments
from tests.wizard.cells import CHECKPOINT, written

pytestmark = pytest.mark.conformance

ROWS = int(os.environ.get("MBPACK_WIZARD_ROWS", "60"))
SEED = int(os.environ.get("MBPACK_CONFORMANCE_SEED", "1"))
#: What stands for a release that is no package: a tree laid by hand, or the development tree, which packs text offline only.
TREES = {"0.7": ("0.7.0", "0.7"), "nightly": ("nightly",)}
DEVELOPMENT = "0.7"


def standing_for(release_name: str) -> str | None:
    """The package or tree that judges a release; None where nothing does."""
    for name in TREES.get(release_name, (release_name,)):
        try:
            trees.find(name)
        except environments.EnvironmentMissing:
            continue
        return name
    return None


# Without any release there is nothing to ask: the first test then fails and says how to set one up.
INSTALLED = [one.name for one in RELEASES if standing_for(one.name)] or list(environments.RELEASES)[-1:]


@lru_cache(maxsize=8)
def files(release_name: str) -> list[Plan]:
    """Written files on recipes that start up unchanged, as many of each mode as there are."""
    release = next(one for one in RELEASES if one.name == release_name)
    judge = standing_for(release_name) or release_name
    usable = load_recipes(judge)
    lacking = {GLOBAL_BATCH.name, IN_BATCH.name} if judge == DEVELOPMENT else set()
    by_mode: dict[str, list[Plan]] = {}
    for _, plan in written(release, 10 * ROWS, SEED):
        if plan.draft.recipe.name in usable and plan.job.mode.name not in lacking:
            by_mode.setdefault(plan.job.mode.name, []).append(plan)
    evenly = (plan for plans in zip_longest(*by_mode.values()) for plan in plans if plan is not None)
    return list(islice(evenly, ROWS))


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
    with Judge(standing_for(release_name) or release_name) as judge:
        for row, verdict in zip(rows, judge.judge(rows), strict=True):
            if not verdict["accepted"]:
                yield f"{row['recipe']}: {verdict['errors'][-1]['message']}\n{row.get('yaml') or row.get('overrides')}"


@pytest.mark.parametrize("release", INSTALLED)
def test_written_files_start_up(release: str, tmp_path: Path) -> None:
    assert list(refused(release, False, str(tmp_path))) == []
    recipes = {plan.draft.recipe.name for plan in files(release)}
    modes = Counter(plan.job.mode.name for plan in files(release))
    of = standing_for(release)
    print(f"{release} ({of}): {len(files(release))} files on {len(recipes)} recipes accepted {dict(modes)}")  # pytest -s shows it
    assert len(recipes) >= min(40, ROWS // 3)


@pytest.mark.parametrize("release", INSTALLED)
def test_key_value_arguments_start_up(release: str, tmp_path: Path) -> None:
    assert list(refused(release, True, str(tmp_path))) == []
