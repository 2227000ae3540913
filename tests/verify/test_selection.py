"""Selections held against a checkout."""

from __future__ import annotations

from pathlib import Path

import pytest

from mbpack.facts.releases import NIGHTLY, R06, R07, Release
from mbpack.facts.upstream_tests import commands
from mbpack.verify.checkout import Checkout, open_checkout
from mbpack.verify.selection import Checked, plan

from .tree import VERSIONS, checkout, text_for, write

PARQUET = "tests/unit_tests/data/packing/test_parquet.py"
SEQUENCES = "tests/unit_tests/training/utils/test_packed_seq_utils.py"


def _plan(root: Path) -> dict[str, Checked]:
    opened: Checkout = open_checkout(str(root))
    return {entry.selection.path: entry for entry in plan(opened.release, None, opened)[0]}


@pytest.mark.parametrize("release", sorted(VERSIONS))
def test_a_complete_checkout_is_as_expected(tmp_path: Path, release: str) -> None:
    opened = open_checkout(str(checkout(tmp_path, release)))
    checked, _ = plan(opened.release, None, opened)
    assert [entry.selection for entry in checked] == commands(release)
    assert {entry.state for entry in checked} == {"ok"}
    assert all(entry.found == entry.selection.expected for entry in checked)


def test_a_missing_file_is_missing_and_its_new_place_is_named(tmp_path: Path) -> None:
    root = checkout(tmp_path)
    write(root, "tests/elsewhere/test_parquet.py", "")
    (root / PARQUET).unlink()
    entry = _plan(root)[PARQUET]
    assert (entry.state, entry.found, entry.good) == ("missing", None, False)
    assert "tests/elsewhere/test_parquet.py" in entry.note


@pytest.mark.parametrize(
    ("text", "state", "found", "good"),
    [
        ("def test_other(): ...\n", "empty", 0, False),
        ("def test_negative_index_zeroes_loss_mask(): ...\n", "fewer", 1, False),
        (
            "import pytest\n\n@pytest.mark.parametrize('n', range(9))\ndef test_negative_index_zeroes_loss_mask(n): ...\n",
            "more",
            9,
            True,
        ),
        (
            "import pytest\n\n@pytest.mark.parametrize('n', made())\ndef test_negative_index_zeroes_loss_mask(n): ...\n",
            "ok",
            1,
            True,
        ),
    ],
)
def test_the_number_decides(tmp_path: Path, text: str, state: str, found: int | None, good: bool) -> None:
    root = checkout(tmp_path)
    write(root, PARQUET, text)
    entry = _plan(root)[PARQUET]
    assert (entry.state, entry.found, entry.good) == (state, found, good)


@pytest.mark.parametrize(("written_for", "state"), [((3, 8), "unreadable"), ((9, 0), "uncounted")])
def test_a_file_that_cannot_be_read_fails_unless_this_python_is_too_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written_for: tuple[int, int], state: str
) -> None:
    monkeypatch.setattr("mbpack.verify.selection.UPSTREAM_PYTHON", written_for)
    root = checkout(tmp_path)
    write(root, PARQUET, "def test_(:\n")
    entry = _plan(root)[PARQUET]
    assert (entry.state, entry.good, entry.runnable) == (state, state == "uncounted", state == "uncounted")
    assert "line 1" in entry.note


def test_a_development_tree_without_a_feature_is_as_expected(tmp_path: Path) -> None:
    root = checkout(tmp_path, "0.7")
    for selection in commands("0.7"):
        if selection.also:
            text = "import pytest\n" + "".join(
                text_for(other, min(other.also, default=other.expected))
                for other in commands("0.7")
                if other.path == selection.path
            )
            write(root, selection.path, text)
    opened = open_checkout(str(root))
    states = {entry.selection.keyword or entry.selection.path: entry for entry in plan(opened.release, None, opened)[0]}
    assert states["in_batch_packing"].state == "absent"
    assert states["tests/unit_tests/data/builders/test_gpt_sft_config.py"].found == 37
    assert all(entry.good for entry in states.values())


def test_nightly_expects_tests_but_no_number(tmp_path: Path) -> None:
    root = checkout(tmp_path, "0.7")
    opened = open_checkout(str(root), "nightly")
    assert all(entry.good for entry in plan(NIGHTLY, None, opened)[0])
    write(root, SEQUENCES, "")
    assert [entry.state for entry in plan(NIGHTLY, None, opened)[0] if entry.selection.path == SEQUENCES] == ["empty"]


@pytest.mark.parametrize("release", [R06, R07])
def test_corrections_are_held_against_the_checkout(tmp_path: Path, release: Release) -> None:
    opened = open_checkout(str(checkout(tmp_path, release.name)))
    corrected = plan(release, ["offline"], opened)[1]
    assert [entry.published.state for entry in corrected if entry.published] == ["missing", "missing"]
    assert [entry.instead.state for entry in corrected if entry.instead] == ["ok", "ok"]


def test_without_a_checkout_nothing_is_claimed() -> None:
    checked, corrected = plan(R06, ["offline"], None)
    assert {entry.state for entry in checked} == {"unchecked"}
    assert all(entry.published is None for entry in corrected)
