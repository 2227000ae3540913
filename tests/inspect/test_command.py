"""`mbpack inspect` from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mbpack.cli.main import run
from tests.inspect.packs import entry, metadata, row, write

NAME = "tok_pad_seq_to_mult4_sft_0123456789ab"


@pytest.fixture
def packs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A builder's directory with both splits, in the working directory."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / NAME / "training_16.idx.parquet", [row((8, 3), (8, 2))] * 6)
    write(tmp_path / NAME / "validation_16.idx.parquet", [row((12, 3), (4, 2))] * 8)
    metadata(tmp_path / NAME / "16_metadata.jsonl", entry(16, 2, 8), entry(16, 2, 12))
    return tmp_path


def report(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, dict[str, Any]]:
    code = run(["inspect", *argv, "--format", "json"])
    return code, json.loads(capsys.readouterr().out)


def slugs(data: dict[str, Any], index: int = 0) -> list[str]:
    return [finding["slug"] for finding in data["files"][index]["findings"]]


def test_good_packs(packs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, data = report(capsys, NAME, "--cp", "2", "--gbs", "2")
    assert (code, slugs(data), data["summary"]) == (0, [], {"files": 1, "errors": 0, "warnings": 0})
    training = data["files"][0]["packs"]["splits"]["training"]
    assert training | {"path": ""} == {
        "path": "",
        "files": 1,
        "rows": 6,
        "samples": 12,
        "tokens": 96,
        "samples_per_row": 2.0,
        "most_samples": 2,
        "longest_sample": 8,
        "longest_row": 16,
        "shortest_row": 16,
        "aligned_to": 8,
        "supervised": 0.3125,
        "rows_without_loss": 0,
        "broken_rows": 0,
        "largest_token": 17,
        "efficiency": 1.0,
    }
    assert data["files"][0]["packs"]["step"] == {
        "global_batch_size": 2,
        "steps_per_epoch": 3,
        "tokens": 32,
        "samples": 4,
    }


def test_packs_for_another_topology(packs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, data = report(capsys, NAME, "--cp", "8", "--gbs", "7")
    assert code == 1
    assert set(slugs(data)) >= {"align/pad-seq-to-mult-cp", "gbs/not-enough-rows"}
    assert {finding["line"] for finding in data["files"][0]["findings"]} == {None}


def test_a_batch_is_held_against_the_evaluation_packs_too(packs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(packs / NAME / "validation_16.idx.parquet", [row((12, 3), (4, 2))] * 2)
    code, data = report(capsys, NAME, "--gbs", "3")
    assert (code, slugs(data)) == (1, ["gbs/eval-not-enough-rows"])


def test_text(packs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["inspect", NAME]) == 0
    out = capsys.readouterr().out
    assert "training    6 rows in 1 file, 12 samples (2 a row, at most 2), 100.00% full" in out
    assert "pack_size 16, packing_factor 2.0, max_samples_per_bin 2" in out
    assert "alignment is checked with --cp" in out


def test_every_size_of_a_directory_is_a_target(packs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(packs / NAME / "training_32.idx.parquet", [row((20, 3))])
    code, data = report(capsys, NAME)
    assert code == 0
    assert [entry["path"] for entry in data["files"]] == [f"{NAME} (16)", f"{NAME} (32)"]


def test_a_row_that_does_not_fit_and_one_without_loss(packs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(packs / "training_8.idx.parquet", [row((12, 3)), row((4, 0))])
    code, data = report(capsys, path)
    assert (code, slugs(data)) == (1, ["data/row-longer-than-pack", "loss/zero-loss-rows"])
    assert report(capsys, write(packs / "p.parquet", [row((4, 0))]), "--strict")[0] == 1


def test_damaged_files_are_findings(packs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (packs / "t.parquet").write_bytes(b"PAR1 nothing PAR1")
    code, data = report(capsys, "t.parquet")
    assert (code, slugs(data)) == (1, ["data/parquet-columns"])
    (packs / "64_metadata.jsonl").write_text("{}")
    code, data = report(capsys, "64_metadata.jsonl")
    assert data["files"][0]["packs"]["metadata"]["problem"] == "holds an object, not a list"


def test_npy_packs_are_read(packs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(packs / "training_16.npy", np.array([row((8, 3), (8, 2))] * 2, dtype=object), allow_pickle=True)
    code, data = report(capsys, "training_16.npy")
    assert (code, slugs(data)) == (0, ["data/npy-deprecated"])
    assert data["files"][0]["packs"]["splits"]["training"]["samples"] == 4


def test_the_packs_of_a_configuration(packs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (packs / "c.yaml").write_text(
        "# mbpack: bridge=0.6 gpus=8 launcher=script recipe=llama3_8b_sft_config\n"
        "model: {seq_length: 16}\n"
        "dataset:\n  seq_length: 16\n  offline_packing_specs:\n    packed_sequence_size: 16\n    pad_seq_to_mult: 4\n"
        f"    packed_train_data_path: {NAME}/training_16.idx.parquet\n"
        f"    packed_val_data_path: {NAME}/validation_16.idx.parquet\n"
        "train: {global_batch_size: 4}\n"
    )
    code, data = report(capsys, "--config", "c.yaml")
    assert (code, [slug for slug in slugs(data) if slug != "align/pad-mult-wasted"]) == (0, [])
    assert set(data["files"][0]["packs"]["splits"]) == {"training", "validation"}
    other = write(packs / "tok_pad_seq_to_mult4/training_8.idx.parquet", [row((4, 1))] * 4)
    code, data = report(capsys, other, "--config", "c.yaml")
    assert (code, slugs(data)) == (1, ["data/pack-path-mismatch"])
    assert data["files"][0]["findings"][0]["line"] is None


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ([], "nothing to inspect"),
        (["nope"], "no such file"),
        (["*.nope"], "no file matches"),
        (["empty"], "no packed data in this directory"),
        (["notes.txt"], "packed data end in"),
        (["p.parquet", "--format", "xml"], "use text, json"),
        (["p.parquet", "--bridge", "9.9"], "not known"),
        (["--config", "none.yaml"], "no such file"),
        (["--config", "broken.yaml"], "cannot be parsed"),
        (["--config", "far.yaml"], "cannot be seen from here"),
    ],
)
def test_usage_is_one_clear_line(packs: Path, capsys: pytest.CaptureFixture[str], argv: list[str], words: str) -> None:
    (packs / "empty").mkdir()
    (packs / "notes.txt").write_text("x")
    (packs / "broken.yaml").write_text("a: [")
    (packs / "far.yaml").write_text("dataset: {offline_packing_specs: {packed_train_data_path: far/p.parquet}}")
    write(packs / "p.parquet", [row((4, 1))])
    assert run(["inspect", *argv]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("mbpack inspect: ")
    assert words in err
    assert err.count("\n") == 1
