"""``defaults:`` names the files that a file builds on: their values count, and they are not edited."""

from __future__ import annotations

from pathlib import Path

import pytest

from mbpack.cli.inherited import with_inherited
from mbpack.cli.inputs import read
from tests.cli.conftest import Call

BASE = "train:\n  micro_batch_size: 2\n  misspelled_size: 1\n"
CHILD = (
    "# mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script\ndefaults: base\ntrain:\n  global_batch_size: 16\n"
)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "base.yaml").write_text(BASE)
    (tmp_path / "child.yaml").write_text(CHILD)
    return tmp_path


def layers(text: str, tree: Path) -> list[str]:
    (tree / "top.yaml").write_text(text)
    return [Path(document.path or "").name for document in with_inherited(read(str(tree / "top.yaml")))]


@pytest.mark.parametrize(
    ("defaults", "below"),
    [
        ("base.yaml", ["base.yaml"]),
        ("[base, _self_]", ["base.yaml"]),
        ("[child, base]", ["base.yaml", "child.yaml"]),  # each file counts once, where it is met first
        ("[{sub: deep}, {override /sub: deep}]", ["deep.yaml"]),
        ("top.yaml", []),
        ("gone.yaml", []),
        ("${base}", []),
        ("7", []),
    ],
)
def test_what_a_file_builds_on_lies_below_it(tree: Path, defaults: str, below: list[str]) -> None:
    (tree / "sub").mkdir()
    (tree / "sub" / "deep.yaml").write_text("train: {}\n")
    assert layers(f"defaults: {defaults}\n", tree) == [*below, "top.yaml"]


def test_a_chain_that_never_ends_is_cut(tree: Path) -> None:
    for number in range(100):
        (tree / f"c{number}.yaml").write_text(f"defaults: c{number + 1}.yaml\n")
    assert len(layers("defaults: c0.yaml\n", tree)) < 30


def test_a_finding_names_the_file_that_holds_the_value(tree: Path, mbpack: Call) -> None:
    done = mbpack("doctor", "child.yaml")
    said = done.out
    assert done.code == 1
    assert "BAT101  offline packing needs micro_batch_size 1, found 2" in said
    assert "| in base.yaml" in said
    assert "base.yaml is read here as layers below" in " ".join(said.split())


def test_a_fix_goes_into_the_file_itself(tree: Path, mbpack: Call) -> None:
    done = mbpack("doctor", "--fix", "--unsafe-fixes", "child.yaml")
    assert (tree / "base.yaml").read_text() == BASE
    assert "  micro_batch_size: 1\n" in (tree / "child.yaml").read_text()
    assert "base.yaml, which other files may build on" in " ".join(done.out.split())
