"""Launch lines that start: as many processes as GPUs, every node knowing the first one; Slurm scripts the doctor finds clean."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from mbpack.cli.main import run
from mbpack.config.shell import read_launch
from mbpack.wizard.starting import GPUS_PER_NODE, spread, torchrun

JOB = "init --recipe Qwen/Qwen3-8B --data jsonl --data-path /data/sft --checkpoint /ckpt/base --yes".split()


@pytest.mark.parametrize("gpus", [1, 2, 7, 8, 9, 12, 13, 16, 20, 24, 36, 64, 100, 400])
def test_every_node_has_as_many_processes_as_it_can(gpus: int) -> None:
    nodes, per_node = spread(gpus)
    assert nodes * per_node == gpus
    assert 1 <= per_node <= GPUS_PER_NODE
    assert nodes == 1 or per_node == max(n for n in range(1, 9) if gpus % n == 0)
    line = torchrun(gpus)
    assert f"--nproc_per_node={per_node}" in line
    assert ("--rdzv_endpoint" in line) == ("--nnodes=" in line) == (nodes > 1)


def test_a_node_that_does_not_know_the_first_one_does_not_start() -> None:
    line = torchrun(16).replace("uv run python -m torch.distributed.run", "echo")
    silent = subprocess.run(["bash", "-c", line], env={}, capture_output=True, text=True, check=False)
    assert silent.returncode != 0
    assert "name the first node" in silent.stderr
    told = subprocess.run(["bash", "-c", line], env={"HEAD_NODE": "n1"}, capture_output=True, text=True, check=True)
    assert told.stdout.split()[-1] == "--rdzv_endpoint=n1:29500"


@pytest.mark.parametrize("release", ["0.3", "0.4", "0.5", "0.6"])
@pytest.mark.parametrize("gpus", [8, 16, 64])
@pytest.mark.parametrize("workload", ["sft", "lora"])
def test_a_slurm_script_is_read_back_clean(
    release: str, gpus: int, workload: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    recipe = ["--recipe", f"qwen3_8b_{'sft' if workload == 'sft' else 'peft'}_config"] if release > "0.3" else []
    words = "init --data hf --checkpoint /ckpt/base --yes".split() + ([] if recipe else ["--recipe", "Qwen/Qwen3-8B"])
    done = run([*words, *recipe, "--bridge", release, "--workload", workload, "--gpus", str(gpus), "--as", "sbatch"])
    assert done == 0, capsys.readouterr().err
    script = tmp_path / "packing.sbatch"
    text = script.read_text()
    subprocess.run(["bash", "-n", str(script)], check=True)
    launch = read_launch(text)
    assert launch is not None
    assert (launch.gpus, launch.launcher) == (gpus, "run_recipe")
    assert "torch" not in text.replace("no torchrun", "")
    capsys.readouterr()
    code = run(["doctor", str(script), "--format", "json"])
    found = json.loads(capsys.readouterr().out)["files"][0]["findings"]
    assert [f["message"] for f in found if f["severity"] == "error"] == []
    assert code == 0


def test_data_that_no_argument_can_name_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run([*JOB, "--bridge", "0.5", "--workload", "lora", "--gpus", "8", "--as", "sbatch"]) == 2
    assert list(tmp_path.iterdir()) == []


def test_a_slurm_script_starts_run_recipe_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run([*JOB, "--bridge", "0.6", "--workload", "lora", "--gpus", "8", "--as", "sbatch", "--launcher", "script"]) == 2
    assert run([*JOB, "--bridge", "0.6", "--workload", "lora", "--gpus", "8", "--as", "slurm"]) == 2
    assert list(tmp_path.iterdir()) == []
