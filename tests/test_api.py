"""`mbpack.check`: live containers, mappings and files from Python."""

from __future__ import annotations

import enum
import functools
import subprocess
import sys
import typing
from pathlib import Path
from typing import Any

import pytest

import mbpack
from mbpack.config.document import parse
from mbpack.config.live import document_of
from tests.conftest import doctor, slugs

SPECS = {"_target_": "megatron.bridge.data.packing.config.PackedSequenceSpecs", "packed_sequence_size": 4096}
TREE = {
    "_target_": "megatron.bridge.training.config.ConfigContainer",
    "train": {
        "_target_": "megatron.bridge.training.config.TrainingConfig",
        "micro_batch_size": 2,
        "global_batch_size": 8,
        "train_iters": 5,
    },
    "model": {
        "_target_": "megatron.bridge.models.gpt_provider.GPTModelProvider",
        "num_layers": 2,
        "hidden_size": 512,
        "num_attention_heads": 8,
        "seq_length": 4096,
    },
    "dataset": {
        "_target_": "megatron.bridge.data.builders.gpt_sft.GPTSFTDatasetConfig",
        "dataset_root": "/data",
        "seq_length": 4096,
        "enable_offline_packing": True,
        "offline_packing_specs": SPECS,
    },
    "optimizer": {"_target_": "megatron.bridge.training.config.OptimizerConfig", "lr": 0.0001},
    "scheduler": {"_target_": "megatron.bridge.training.config.SchedulerConfig"},
    "checkpoint": {"_target_": "megatron.bridge.training.config.CheckpointConfig"},
}


class ConfigContainer:
    """A container as the packages have it, as far as it is asked."""

    def __init__(self, tree: dict[str, Any]) -> None:
        self.tree = tree

    def to_dict(self) -> dict[str, Any]:
        return self.tree


@pytest.fixture(autouse=True)
def _no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WORLD_SIZE", "SLURM_NTASKS"):
        monkeypatch.delenv(name, raising=False)


def test_a_live_container_that_would_be_refused_raises_with_the_report() -> None:
    with pytest.raises(mbpack.CheckFailed) as failed:
        mbpack.check(ConfigContainer(TREE), gpus=8, bridge="0.6")
    report = failed.value.report
    assert report.verdict == "rejected"
    assert "batch/offline-mbs" in {finding.slug for finding in report.errors} or "BAT101" in {f.code for f in report.errors}
    assert str(report) in str(failed.value)
    (found,) = [finding for finding in report.errors if finding.code == "BAT101"]
    assert found.key == "train.micro_batch_size"
    assert found.line is None
    assert found.fix is not None
    assert "cfg.train.micro_batch_size = 1" in found.fix
    assert "micro_batch_size" in report.text


def test_what_raises_is_asked_for() -> None:
    report = mbpack.check(ConfigContainer(TREE), gpus=8, bridge="0.6", raise_on=None)
    assert not report.ok
    right = {**TREE, "train": {**TREE["train"], "micro_batch_size": 1}}  # type: ignore[dict-item]
    fine = mbpack.check(ConfigContainer(right), gpus=8, bridge="0.6")
    assert fine.ok
    assert fine.mode == "offline"
    assert fine.derived["data_parallel_size"] == 8
    with pytest.raises(ValueError, match="raise_on"):
        mbpack.check({}, raise_on="all")  # type: ignore[arg-type]


def test_the_number_of_processes_is_that_of_the_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert mbpack.check(ConfigContainer(TREE), bridge="0.6", raise_on=None).derived["data_parallel_size"] == 4


def test_a_mapping_is_an_override_over_a_recipe() -> None:
    report = mbpack.check({"train": {"micro_batch_size": 2}}, gpus=8, bridge="0.6", recipe="llama3_8b_sft_config", raise_on=None)
    text = doctor("train: {micro_batch_size: 2}\n", gpus=8, bridge="0.6", recipe="llama3_8b_sft_config")
    assert [finding.slug for finding in report.findings] == slugs(text)


def test_files_are_checked_by_their_path(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("# mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8\ntrain: {micro_batch_size: 2}\n")
    with pytest.raises(mbpack.CheckFailed) as failed:
        mbpack.check(tmp_path / "a.yaml")
    assert failed.value.report.errors[0].line == 2
    with pytest.raises(ValueError, match="no such file"):
        mbpack.check(str(tmp_path / "b.yaml"))
    with pytest.raises(TypeError, match="mapping or a path"):
        mbpack.check(3)


def test_wrong_values_are_one_line() -> None:
    for words in ({"bridge": "9.9"}, {"gpus": 0}, {"launcher": "slurm"}):
        with pytest.raises(ValueError, match=r"^[^\n]+$"):
            mbpack.check({"train": {"micro_batch_size": 1}}, **words)  # type: ignore[arg-type]


def test_a_report_for_notebooks_holds_no_markup_of_the_configuration() -> None:
    tree = {"train": {"micro_batch_size": "<b>2</b>"}}
    report = mbpack.check(tree, gpus=8, bridge="0.6", recipe="llama3_8b_sft_config", raise_on=None)
    html = report._repr_html_()
    assert "<b>2</b>" not in html
    assert "&lt;b&gt;2" in html


class Colour(enum.Enum):
    """An enumeration of somebody's."""

    RED = 3


def test_objects_are_written_as_a_saved_file_has_them() -> None:
    class Thing:
        pass

    tree = {"a": {"f": functools.partial(int, "7", base=8), "e": Colour.RED, "t": (1, 2), "o": Thing(), "g": len, "s": "${a.t}"}}
    root = document_of(tree).root
    assert root is not None
    held = root.plain["a"]
    assert held["e"] == {"_target_": f"{__name__}.Colour", "_call_": True, "_args_": [3], "_name_": "RED"}
    assert held["f"] == {"_target_": "builtins.int", "_partial_": True, "_args_": ["7"], "base": 8}
    assert held["g"] == {"_target_": "builtins.len", "_call_": False}
    assert held["t"] == [1, 2]
    assert held["o"]["_call_"] is True
    assert parse("a: {s: '${a.t}'}").root.value["a"].value["s"].value == root.value["a"].value["s"].value  # type: ignore[union-attr]


def test_importing_the_package_stays_cheap_and_typed() -> None:
    code = "import sys, mbpack; print(sorted(m for m in sys.modules if m.startswith('mbpack') or m in ('msgspec', 'yaml', 'typing')))"
    done = subprocess.run(
        [sys.executable, "-S", "-E", "-c", code], capture_output=True, text=True, cwd=Path(mbpack.__file__).parents[1]
    )
    assert done.stdout.strip() == "['mbpack']", done.stdout + done.stderr
    assert (Path(mbpack.__file__).parent / "py.typed").is_file()
    assert set(typing.get_type_hints(mbpack.check)) >= {"gpus", "bridge", "launcher", "raise_on", "return"}
    assert "torch" not in sys.modules
