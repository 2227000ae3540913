"""Files of other programs: nothing is said of them in a search, one line where they are named, and none is changed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from mbpack.cli.main import run
from tests.cli.conftest import BROKEN, Call

CORPUS = Path(__file__).parent.parent / "data" / "foreign"
FILES = sorted(CORPUS.iterdir())


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The corpus below the working directory, every file with an ending that a search reads."""
    monkeypatch.chdir(tmp_path)
    for path in FILES:
        shutil.copy(path, tmp_path / (path.name if path.suffix != ".json" else f"{path.name}.yaml"))
    return tmp_path


def test_the_corpus_is_large() -> None:
    assert len(FILES) > 75


@pytest.mark.parametrize("flags", [(), ("--bridge", "0.6"), ("--recipe", "llama3_8b_sft_config"), ("--strict",)])
def test_a_search_says_nothing_of_them(corpus: Path, mbpack: Call, flags: tuple[str, ...]) -> None:
    code, out, err = mbpack("doctor", ".", *flags, "--format", "json")
    assert (code, json.loads(out)["files"]) == (0, [])
    assert err.startswith(f"mbpack doctor: {len(FILES)} YAML files are no Megatron-Bridge configurations and were left out: ")
    assert err.endswith(f" and {len(FILES) - 5} more\n")


@pytest.mark.parametrize("flags", [(), ("--bridge", "0.6"), ("--recipe", "llama3_8b_sft_config")])
def test_a_search_changes_none(corpus: Path, mbpack: Call, flags: tuple[str, ...]) -> None:
    before = contents(corpus)
    assert mbpack("doctor", ".", "--fix", "--unsafe-fixes", *flags).code == 0
    assert contents(corpus) == before


def test_a_hook_says_nothing_and_changes_none(corpus: Path, mbpack: Call) -> None:
    before = contents(corpus)
    assert mbpack("doctor", "--skip-foreign", *before) == (0, "", "")
    assert mbpack("doctor", "--fix", "--unsafe-fixes", "--skip-foreign", *before).err == ""
    assert contents(corpus) == before


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_named_one_is_not_changed(corpus: Path, capfd: pytest.CaptureFixture[str], path: Path) -> None:
    before = contents(corpus)
    name = path.name if path.suffix != ".json" else f"{path.name}.yaml"
    assert run(["doctor", "--fix", "--unsafe-fixes", name]) in (0, 1)
    assert contents(corpus) == before
    assert run(["doctor", name]) in (0, 1)


def test_a_named_one_has_one_line(folder: Path, mbpack: Call) -> None:
    (folder / "values.yaml").write_text((CORPUS / "helm-values.yaml").read_text())
    code, out, err = mbpack("doctor", "values.yaml")
    said = " ".join(out.split())
    assert (code, err) == (1, "")
    assert said.startswith("values.yaml: not checked, only `dataset.path` of its keys exist in Megatron-Bridge, ")
    assert said.endswith("name its release (--bridge 0.6) [CFG128]")
    code, out, err = mbpack("doctor", "values.yaml", "--fix")
    assert (code, out) == (1, "")
    assert err.startswith("mbpack doctor: values.yaml: left as it is: only `dataset.path`")
    assert err.count("\n") == 1


def test_a_declined_format_stays_declined_whatever_the_flags_say(folder: Path, mbpack: Call) -> None:
    (folder / "primus.yaml").write_text((CORPUS / "primus-sft.yaml").read_text())
    answer = mbpack("doctor", "primus.yaml", "--bridge", "0.6", "--recipe", "qwen3_30b_a3b_peft_config", "--format", "json")
    assert [finding["code"] for finding in json.loads(answer.out)["files"][0]["findings"]] == ["CFG128"]


def test_the_hooks_skip_foreign_files() -> None:
    text = (CORPUS.parent.parent.parent / ".pre-commit-hooks.yaml").read_text()
    assert text.count("entry: mbpack doctor") == text.count("--skip-foreign") == text.count("require_serial: true") == 3


def test_only_a_file_that_shows_what_it_is_gets_fixes(folder: Path, mbpack: Call) -> None:
    """Where the release is assumed and only names that everybody uses stand in a file, findings have no fix by machine."""
    (folder / "a.yaml").write_text("scheduler: 5\noptimizer: {lr: 0.1}\n")
    before = contents(folder)
    mbpack("doctor", "a.yaml", "--fix", "--unsafe-fixes")
    assert contents(folder) == before
    (folder / "b.yaml").write_text(BROKEN)
    mbpack("doctor", "b.yaml", "--fix", "--unsafe-fixes")
    assert "micro_batch_size: 1\n" in (folder / "b.yaml").read_text()


OWN = """# mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
my_team: {owner: alice}  # read by our launcher
our_wandb_notes: x
convert_to_hf: true
train: {global_batch_size: 8}
"""


@pytest.mark.parametrize("flags", [("--fix",), ("--fix", "--unsafe-fixes")])
def test_keys_of_others_beside_real_sections_stay(folder: Path, mbpack: Call, flags: tuple[str, ...]) -> None:
    (folder / "own.yaml").write_text(OWN)
    mbpack("doctor", "own.yaml", *flags)
    assert (folder / "own.yaml").read_text() == OWN


FLAT = "seq_length: 8192\nmicro_batch_size: 1\ncontext_parallel_size: 2\n"


def test_keys_without_a_section_are_moved_and_never_removed(folder: Path, mbpack: Call) -> None:
    command = ("doctor", "flat.yaml", "--bridge", "0.6", "--recipe", "llama3_8b_sft_config")
    (folder / "flat.yaml").write_text(FLAT)
    code, out, _ = mbpack(*command)
    assert code == 1
    assert out.count("error CFG102") == 3
    assert "belongs to model.seq_length and dataset.seq_length" in out
    mbpack(*command, "--fix")
    assert (folder / "flat.yaml").read_text() == FLAT
    mbpack(*command, "--fix", "--unsafe-fixes")
    text = (folder / "flat.yaml").read_text()
    for line in (
        "dataset:\n  seq_length: 8192\n",
        "model:\n  seq_length: 8192\n",
        "  context_parallel_size: 2\n",
        "micro_batch_size: 1",
    ):
        assert line in text
