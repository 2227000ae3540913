"""The Megatron-Bridge beside the files: found in a checkout or among installed packages, asked where nobody names a release."""

from __future__ import annotations

from pathlib import Path

import pytest

from mbpack.config.beside import find_beside
from mbpack.config.context import Given, resolve_context
from mbpack.config.document import parse
from mbpack.facts.knowledge import lists_complete, newer, reach
from mbpack.facts.releases import NIGHTLY, R06, R07, parse_version, version_found
from mbpack.facts.schema import schema

INFO = 'MAJOR = 0\nMINOR = {minor}\nPATCH = {patch}\nPRE_RELEASE = "{pre}"\n'


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with no package anywhere around it."""
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [])
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.delenv("CONDA_PREFIX", raising=False)
    return tmp_path


def checkout(root: Path, minor: int, patch: int, pre: str = "") -> None:
    package = root / "src" / "megatron" / "bridge"
    package.mkdir(parents=True)
    (package / "package_info.py").write_text(INFO.format(minor=minor, patch=patch, pre=pre))


def installed(folder: Path, version: str) -> None:
    (folder / f"megatron_bridge-{version}.dist-info").mkdir(parents=True)


def test_nothing_is_found_where_there_is_nothing(empty: Path) -> None:
    assert find_beside() is None


def test_a_checkout_above_the_directory(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkout(empty, 6, 1)
    (empty / "configs").mkdir()
    monkeypatch.chdir(empty / "configs")
    found = find_beside()
    assert found is not None
    assert (found.version.release, found.version.patch, found.where) == (R06, "0.6.1", f"the checkout {empty}")


def test_an_installed_package_of_the_active_environment(
    empty: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = tmp_path_factory.mktemp("env")
    site = environment / "lib" / "python3.12" / "site-packages"
    installed(site, "0.7.1+abc")
    monkeypatch.setenv("VIRTUAL_ENV", str(environment))
    found = find_beside()
    assert found is not None
    assert (found.version.release, found.version.patch, found.where) == (R07, "0.7.1", f"installed in {site}")


def test_the_nearest_environment_counts_first(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site, other = empty / ".venv" / "lib" / "python3.12" / "site-packages", empty / "elsewhere"
    installed(site, "0.5.0")
    installed(other, "0.6.2")
    monkeypatch.setattr("sys.path", [str(other)])
    found = find_beside()
    assert found is not None
    assert found.version.patch == "0.5.0"


@pytest.mark.parametrize(
    ("text", "release", "patch"),
    [("0.6.2", R06, "0.6.2"), ("0.7.0rc1", R07, "0.7.0"), ("0.8.0rc0", NIGHTLY, "0.8.0rc0"), ("1.0.0", NIGHTLY, "1.0.0")],
)
def test_a_version_newer_than_every_known_line_is_judged_as_nightly(text: str, release: object, patch: str) -> None:
    version = version_found(text)
    assert version is not None
    assert (version.release, version.patch) == (release, patch)
    assert version_found("0.2.0") is None
    assert version_found("unknown") is None


def context(text: str, found: str, **flags: str) -> tuple[str, str]:
    """Release and who told it, for a file beside an installed version."""
    version = version_found(found)
    assert version is not None
    from mbpack.config.beside import Beside

    resolved = resolve_context(Given(**flags), Given(beside=lambda: Beside(version, "installed there")), [parse(text)])  # type: ignore[arg-type]
    return resolved.version.patch, resolved.sources["bridge"]


def test_what_is_installed_counts_before_anything_is_assumed() -> None:
    assert context("train: {global_batch_size: 8}", "0.7.1") == ("0.7.1", "installed")
    assert context("train: {global_batch_size: 8}", "0.7.1", bridge="0.5") == ("0.5.1", "flag")
    assert context("# mbpack: bridge=0.6\ntrain: {global_batch_size: 8}", "0.7.1") == ("0.6.2", "directive")


def test_a_file_that_shows_another_release_keeps_it() -> None:
    old = "dataset: {packed_sequence_specs: {packed_sequence_size: 4096}}"
    new = "dataset: {enable_offline_packing: true, offline_packing_specs: {packed_sequence_size: 4096}}"
    assert context(old, "0.6.2") == ("0.5.1", "file")
    assert context(new, "0.7.1") == ("0.7.1", "installed")
    assert context(new, "0.5.1") == ("0.6.2", "file")


def test_knowledge_ends_somewhere() -> None:
    known, later = parse_version("0.6.2"), parse_version("0.6.3")
    assert (newer(known), lists_complete(known)) == (False, True)
    assert (newer(later), lists_complete(later)) == (True, False)
    assert not lists_complete(parse_version("0.7.1"))
    assert newer(parse_version("0.7.2"))
    assert not newer(parse_version("nightly"))
    assert reach(parse_version("0.7")) == "knows 0.7 as of October 2026"


def test_a_field_of_a_patch_is_unknown_before_it() -> None:
    def has(release: str, patch: str) -> bool:
        return "prefetch_factor" in (schema(release, patch).fields("GPTSFTDatasetConfig") or {})

    assert [has("0.7", "0.7.0"), has("0.7", "0.7.1"), has("0.7", ""), has("nightly", "nightly"), has("nightly", "0.8.0")] == [
        False, True, True, True, True,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("patch", "pre", "assumed", "exact"), [(0, "rc0", "0.5.1", False), (0, "", "0.5.1", False), (1, "", "0.5.1", True)]
)
def test_a_source_tree_with_the_first_number_of_its_line_says_nothing_of_patches(
    empty: Path, patch: int, pre: str, assumed: str, exact: bool
) -> None:
    checkout(empty, 5, patch, pre)
    version = resolve_context(Given(), Given(beside=find_beside), [parse("model: {seq_length: 4096}\n", "a.yaml")]).version
    assert (version.patch, version.exact) == (assumed, exact)


def test_an_installed_release_is_that_release(empty: Path) -> None:
    installed(empty / ".venv" / "lib" / "python3.12" / "site-packages", "0.5.0")
    version = resolve_context(Given(), Given(beside=find_beside), [parse("model: {seq_length: 4096}\n", "a.yaml")]).version
    assert (version.patch, version.exact) == ("0.5.0", True)
