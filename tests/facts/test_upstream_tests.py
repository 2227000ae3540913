"""The upstream pytest selections."""

from __future__ import annotations

import pytest

from mbpack.facts.releases import RELEASES
from mbpack.facts.upstream_tests import FEATURES, commands, corrections, quoted

NAMES = [release.name for release in RELEASES]


@pytest.mark.parametrize(
    ("release", "counts"),
    [
        ("0.3", [8, 14, 2]),
        ("0.4", [8, 14, 2, 1]),
        ("0.5", [11, 14, 2, 1]),
        ("0.6", [19, 26, 15, 2, 29, 11, 2, 2, 13]),
        ("0.7", [19, 26, 19, 2, 36, 19, 2, 2, 2, 13, 3, 46]),
    ],
)
def test_expected_counts(release: str, counts: list[int]) -> None:
    found = commands(release)
    assert [s.expected for s in found if not s.gpus] == counts
    assert [s.gpus for s in found][-1] == 2


@pytest.mark.parametrize("release", NAMES)
def test_commands_are_complete_and_distinct(release: str) -> None:
    found = commands(release)
    lines = [str(s) for s in found]
    assert len(set(lines)) == len(lines)
    for selection in found:
        launcher = "torch.distributed.run --nproc_per_node=2 --nnodes=1 -m pytest" if selection.gpus else "pytest"
        assert str(selection).startswith(f"uv run python -m {launcher} {selection.path}")
        assert selection.path.startswith("tests/")
        assert selection.features <= set(FEATURES)
        assert ("-k" in str(selection)) == bool(selection.keyword)


@pytest.mark.parametrize("release", NAMES)
@pytest.mark.parametrize("feature", FEATURES)
def test_a_feature_selects_what_covers_it(release: str, feature: str) -> None:
    found = commands(release, [feature])
    assert found
    assert all(feature in s.features for s in found)
    assert set(found) <= set(commands(release))


def test_no_feature_selects_nothing() -> None:
    assert commands("0.6", []) == []


def test_nightly_counts_are_not_known() -> None:
    assert all(s.expected is None for s in commands("nightly"))
    assert [s.path for s in commands("nightly")] == [s.path for s in commands("0.7")]


def test_offline_and_in_batch_differ() -> None:
    offline, in_batch = commands("0.6", ["offline"]), commands("0.6", ["in_batch"])
    assert any("test_offline" in s.path for s in offline)
    assert not any("test_offline" in s.path for s in in_batch)
    assert any("test_in_batch" in s.path for s in in_batch)


@pytest.mark.parametrize("release", NAMES)
def test_corrections_lead_to_selections_of_the_release(release: str) -> None:
    right = commands(release)
    for correction in corrections(release):
        assert correction.instead is None or correction.instead in right
        same = (correction.path, correction.keyword) in {(s.path, s.keyword) for s in right}
        assert same == ("success criterion" in correction.why)
        assert correction.published.startswith(f"uv run python -m pytest {correction.path}")


def test_corrections_follow_the_features() -> None:
    assert len(corrections("0.6")) == 4
    assert corrections("0.4") == []
    assert [c.path for c in corrections("0.5", ["offline"])] == ["tests/unit_tests/training/utils/test_packed_seq_utils.py"]
    offline = corrections("0.6", ["offline"])
    assert [c.instead and c.instead.path.rpartition("/")[2] for c in offline] == ["test_parquet.py", "test_gpt_sft.py"]
    assert [c.instead for c in corrections("0.6", ["energon"]) if "tutorials" in c.path] == [None]


def test_keywords_are_quoted_for_the_shell() -> None:
    assert quoted("a or b_c") == '"a or b_c"'
    assert quoted("it's") != '"it\'s"'
