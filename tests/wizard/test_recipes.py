"""The ready overrides are what their answers give, byte for byte, and the doctor has nothing to say about them."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from mbpack.wizard import answers
from mbpack.wizard.draft import Draft
from mbpack.wizard.judge import judge
from mbpack.wizard.plan import make_plan

FOLDER = Path(__file__).resolve().parents[2] / "recipes"


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("regenerate", FOLDER / "regenerate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


REGENERATE = _load()
GENERATED: dict[str, str] = REGENERATE.texts()
NAMES = sorted(name.removesuffix(".yaml") for name in GENERATED if name.endswith(".yaml"))


@pytest.mark.parametrize("name", sorted(GENERATED))
def test_regenerated_byte_for_byte(name: str) -> None:
    assert (FOLDER / name).read_bytes() == GENERATED[name].encode()


@pytest.mark.parametrize("name", NAMES)
def test_the_answers_beside_it_give_the_file(name: str) -> None:
    given = answers.read((FOLDER / f"{name}.answers").read_text(), name)
    assert make_plan(Draft(given)).text == (FOLDER / f"{name}.yaml").read_text()


@pytest.mark.parametrize("name", NAMES)
def test_doctor_strict_is_clean(name: str) -> None:
    result = judge((FOLDER / f"{name}.yaml").read_text())
    assert [finding for finding in result.findings if finding.outcome.severity != "info"] == []
    assert result.verdict == "accepted"


def test_every_mode_is_among_them() -> None:
    modes = {judge((FOLDER / f"{name}.yaml").read_text()).mode for name in NAMES}
    assert modes == {"offline", "in_batch", "energon", "global_batch", "none"}
    assert len(NAMES) >= 12


def test_the_table_in_the_readme_of_the_project() -> None:
    text = (FOLDER.parent / "README.md").read_text(encoding="utf-8")
    shown = text.partition(REGENERATE.BEGIN)[2].partition(REGENERATE.END)[0]
    assert shown == REGENERATE.overview()
    for name in NAMES:
        assert f"(recipes/{name}.yaml)" in shown


def test_the_command_in_the_readme_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mbpack.cli.main import run

    (command,) = [line.split() for line in GENERATED["README.md"].splitlines() if line.startswith("    mbpack ")]
    monkeypatch.chdir(FOLDER.parent)
    assert run([*command[1:-1], str(tmp_path / "packing.yaml")]) == 0
    text = (tmp_path / "packing.yaml").read_text()
    assert "packed_sequence_size: 4096" in text
    assert judge(text).verdict == "accepted"


def test_nothing_else_lies_there() -> None:
    assert {path.name for path in FOLDER.iterdir() if path.is_file()} == {*GENERATED, "regenerate.py"}
