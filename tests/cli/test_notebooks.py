"""Notebooks as inputs of the doctor: what their Python makes and their shell starts, at the lines of the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mbpack.config.notebook import NotebookError, read_cells

Call = Any
CELLS = [
    ("markdown", "# About\nimport nothing\n"),
    ("code", "%load_ext autoreload\n!pip install megatron-bridge\nimport os\nfiles = !ls \\\n"),
    ("code", "from megatron.bridge.recipes.llama import llama3_8b_sft_config\ncfg = llama3_8b_sft_config()\n"),
    ("code", "%%capture\nif True:\n    !nvidia-smi\n    cfg.train.micro_batch_size = 2\ncfg.train.global_batch_size = 128\n"),
    ("code", "%%html\n<b>cfg.train.micro_batch_size = 7</b>\n"),
    ("code", ""),
    (
        "code",
        "from megatron.bridge.training.finetune import finetune\n"
        "from megatron.bridge.training.gpt_step import forward_step\nfinetune(cfg, forward_step)\n",
    ),
]
SHELL = (
    "%%bash\nexport CP=3\ntorchrun --nproc_per_node=8 scripts/training/run_recipe.py --recipe llama3_8b_sft_config \\\n"
    "  model.context_parallel_size=$CP\n"
)


def notebook(cells: list[tuple[str, str]]) -> str:
    made = [
        {"cell_type": kind, "metadata": {"source": [1]}, "outputs": [], "source": text.splitlines(keepends=True)}
        for kind, text in cells
    ]
    return json.dumps({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1) + "\n"


def line_of(text: str, part: str) -> int:
    return next(number for number, line in enumerate(text.splitlines(), 1) if part in line)


def test_a_configuration_made_in_cells(doctor: Call, folder: Path) -> None:
    text = notebook(CELLS)
    (folder / "train.ipynb").write_text(text)
    answer = doctor("train.ipynb", "--bridge", "0.6", "--gpus", "8")
    (entry,) = answer.data["files"]
    assert (answer.code, entry["verdict"], entry["context"]["recipe"]) == (1, "rejected", "llama3_8b_sft_config")
    (found,) = [one for one in entry["findings"] if one["code"] == "BAT101"]
    assert found["line"] == line_of(text, "micro_batch_size = 2")
    assert doctor("train.ipynb", "--bridge", "0.6", "--gpus", "8", "--fix", "--unsafe-fixes").code == 1
    assert (folder / "train.ipynb").read_text() == text


def test_a_launch_in_a_cell_for_the_shell(doctor: Call, folder: Path) -> None:
    text = notebook([*CELLS[:2], ("code", SHELL)])
    (folder / "launch.ipynb").write_text(text)
    (entry,) = doctor(".", "--bridge", "0.4").data["files"]
    found = {one["code"]: one["line"] for one in entry["findings"]}
    assert found["TOP102"] == line_of(text, "model.context_parallel_size=$CP")
    doctor("launch.ipynb", "--bridge", "0.4", "--fix", "--unsafe-fixes")
    assert (folder / "launch.ipynb").read_text() == text


def test_a_command_behind_an_exclamation_mark(doctor: Call, folder: Path) -> None:
    command = "!torchrun --nproc_per_node=8 scripts/training/run_recipe.py \\\n  --recipe llama3_8b_sft_config model.context_parallel_size=3\n"
    (folder / "launch.ipynb").write_text(notebook([("code", "size = 3\n" + command + "size = 4\n")]))
    (entry,) = doctor("launch.ipynb", "--bridge", "0.4").data["files"]
    assert "TOP102" in {one["code"] for one in entry["findings"]}


def test_a_notebook_without_a_configuration_is_named(doctor: Call, folder: Path) -> None:
    (folder / "other.ipynb").write_text(notebook([("code", "import megatron\nprint(1)\n")]))
    answer = doctor("other.ipynb")
    assert answer.code == 2
    assert "no cell of this notebook makes a configuration" in " ".join(answer.err.split())


def test_lines_of_cells_stand_where_they_are() -> None:
    text = notebook([*CELLS, ("code", SHELL)])
    cells = read_cells(text)
    for part in ("import os", "cfg = llama3", "global_batch_size = 128", "finetune(cfg"):
        assert line_of(cells.program, part) == line_of(text, part)
    assert "    pass" in cells.program.splitlines()
    assert "nothing" not in cells.program
    assert "= 7" not in cells.program + cells.script
    assert line_of(cells.script, "torchrun") == line_of(text, "torchrun")
    assert "pip install" in cells.script
    compile(cells.program, "cells", "exec")


@pytest.mark.parametrize("text", ["{}", "[1]", "no json", notebook(CELLS).replace("\n", " ")])
def test_what_cannot_be_read_line_by_line_says_so(text: str) -> None:
    with pytest.raises(NotebookError):
        read_cells(text)


def test_a_cell_that_is_one_text() -> None:
    text = notebook([("markdown", ""), ("code", "")]).replace('"source": []', '"source": "x = 1"')
    assert line_of(read_cells(text).program, "x = 1") == [n for n, line in enumerate(text.splitlines(), 1) if "x = 1" in line][1]
