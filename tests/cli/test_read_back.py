"""What `init` tells people to write is read back by the doctor, and clean."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

Call = Any
JOBS = {
    "text": ("--bridge", "0.6", "--recipe", "llama3_8b_sft_config", "--gpus", "16", "--cp", "2", "--seq-length", "8192"),
    "0.5": ("--bridge", "0.5", "--recipe", "qwen3_8b_sft_config", "--gpus", "8", "--seq-length", "4096"),
    "0.3": ("--bridge", "0.3", "--recipe", "llama3_8b_sft_config", "--gpus", "8"),
    "lora": (
        "--bridge",
        "0.6",
        "--recipe",
        "qwen3_8b_peft_config",
        "--gpus",
        "8",
        "--data",
        "chat",
        "--data-path",
        "/data/chats",
    ),
    "dora": ("--bridge", "0.6", "--recipe", "qwen3_8b_peft_config", "--gpus", "8", "--workload", "dora"),
    "vlm": ("--bridge", "0.6", "--family", "qwen3_vl", "--size", "8b", "--workload", "sft", "--gpus", "8"),
}


def launch_step(text: str) -> str:
    """The shell text of the step that launches."""
    match = re.search(r"^  \d  launch\b[^\n]*:\n(.*?)^  \d  ", text, re.MULTILINE | re.DOTALL)
    assert match is not None, text
    return match[1]


@pytest.mark.parametrize("job", JOBS)
def test_the_program_and_the_script_are_read_back(mbpack: Call, doctor: Call, folder: Path, job: str) -> None:
    made = mbpack("init", *JOBS[job], "--launcher", "script", "--yes", "--output", "packing.yaml")
    assert made.code == 0, made.err
    plain = doctor("packing.yaml").data["files"][0]
    script = launch_step(made.out)
    program = re.search(r"<<'PY'\n(.*?)^PY$", script, re.MULTILINE | re.DOTALL)
    assert program is not None
    gpus = JOBS[job][JOBS[job].index("--gpus") + 1]
    (folder / "train_packed.py").write_text(program[1])
    (folder / "run.sh").write_text(f"#!/bin/bash\n{script}")
    for path in ("train_packed.py", "run.sh"):
        (entry,) = doctor(path, "--bridge", JOBS[job][1]).data["files"]
        assert [finding for finding in entry["findings"] if finding["severity"] != "info"] == []
        assert entry["verdict"] != "rejected"
        assert entry["mode"] == plain["mode"]
        assert entry["context"]["recipe"] == plain["context"]["recipe"]
        assert entry["context"]["gpus"] == int(gpus)
        assert entry["derived"] == plain["derived"]
    assert doctor("train_packed.py").data["files"][0]["context"]["bridge"] == JOBS[job][1]
