"""Directories that are checkouts, and those that are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from mbpack.facts.releases import NIGHTLY, R05, R06, R07
from mbpack.verify.checkout import CheckoutError, around, open_checkout

from .tree import INFO, package, write


def test_the_release_is_read_from_package_info(tmp_path: Path) -> None:
    found = open_checkout(str(package(tmp_path, 0, 6, 1)))
    assert (found.version, found.source, found.release, found.note) == ("0.6.1", INFO, R06, "")


def test_a_release_candidate_counts_as_its_release(tmp_path: Path) -> None:
    found = open_checkout(str(package(tmp_path, 0, 7, 0, "rc1")))
    assert (found.version, found.release) == ("0.7.0rc1", R07)


def test_a_written_out_version_will_do(tmp_path: Path) -> None:
    package(tmp_path, 0, 6, 0)
    write(tmp_path, INFO, '__version__ = "0.5.1+abc"\n')
    assert open_checkout(str(tmp_path)).version == "0.5.1"
    write(tmp_path, INFO, "raise SystemExit\n(")
    write(tmp_path, "src/megatron/bridge/__init__.py", '__version__ = "0.5.0"\n')
    assert open_checkout(str(tmp_path)).release is R05


def test_a_newer_release_is_taken_as_nightly_and_says_so(tmp_path: Path) -> None:
    found = open_checkout(str(package(tmp_path, 0, 9, 0)))
    assert found.release is NIGHTLY
    assert "0.9.0 is newer than 0.7" in found.note


def test_an_older_release_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckoutError, match="older than what mbpack knows"):
        open_checkout(str(package(tmp_path, 0, 2, 0)))


def test_bridge_wins_over_the_checkout(tmp_path: Path) -> None:
    package(tmp_path, 0, 6, 0)
    found = open_checkout(str(tmp_path), "0.5")
    assert found.release is R05
    assert "0.6.0" in found.note
    assert open_checkout(str(tmp_path), "0.6.2").note == ""
    assert open_checkout(str(tmp_path), "nightly").note == ""


def test_a_checkout_without_a_version_needs_bridge(tmp_path: Path) -> None:
    package(tmp_path, 0, 6, 0)
    (tmp_path / INFO).unlink()
    with pytest.raises(CheckoutError, match="--bridge"):
        open_checkout(str(tmp_path))
    assert open_checkout(str(tmp_path), "0.6").version is None


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("missing", "no such directory"),
        ("file", "not a directory"),
        ("empty", "not a Megatron-Bridge checkout"),
        ("wheel", "ships no tests"),
        ("checkout/tests", "not its root"),
        ("sparse", "no tests directory"),
    ],
)
def test_other_directories_get_one_clear_line(tmp_path: Path, path: str, says: str) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    write(tmp_path, "wheel/megatron/bridge/package_info.py", "MAJOR = 0\n")
    package(tmp_path / "checkout", 0, 6, 0)
    write(tmp_path, f"sparse/{INFO}", "MAJOR = 0\n")
    with pytest.raises(CheckoutError, match=says) as refused:
        open_checkout(str(tmp_path / path))
    assert "\n" not in str(refused.value)
    assert str(tmp_path / path) in str(refused.value)


def test_the_checkout_around_a_directory(tmp_path: Path) -> None:
    root = package(tmp_path / "repo", 0, 6, 0)
    below = root / "tests" / "deep"
    below.mkdir()
    assert around(below) == root
    (below / ".git").mkdir()
    assert around(below) is None
    assert around(tmp_path) is None
