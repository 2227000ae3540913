"""A file that names no recipe: what the report says about it, and how its context gets into the file."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.conftest import Call

BARE = "model: {context_parallel_size: 2, calculate_per_token_loss: false}\n"


def test_the_report_says_with_which_recipes(folder: Path, mbpack: Call) -> None:
    (folder / "qwen3_8b_sft.yaml").write_text(BARE)
    out = " ".join(mbpack("doctor", "qwen3_8b_sft.yaml", "--bridge", "0.6").out.split())
    assert "recipe unknown: 327 recipes of 0.6 fit (qwen3_8b_sft_" in out
    assert "of 327 recipes, such as" in out
    assert "--recipe NAME settles" in out


def test_a_recipe_by_name_needs_none_of_that(folder: Path, mbpack: Call) -> None:
    (folder / "a.yaml").write_text(BARE)
    out = mbpack("doctor", "a.yaml", "--bridge", "0.6", "--recipe", "llama3_8b_sft_config").out
    assert "recipe unknown" not in out
    assert "such as" not in out


def test_candidates_are_listed_when_asked_for(folder: Path, mbpack: Call) -> None:
    (folder / "a.yaml").write_text("dataset: {enable_offline_packing: true}\nmodel: {expert_model_parallel_size: 4}\n")
    out = mbpack("doctor", "a.yaml", "--bridge", "0.6", "--show-candidates").out
    data = json.loads(mbpack("doctor", "a.yaml", "--bridge", "0.6", "--show-candidates", "--format", "json").out)
    names = data["files"][0]["candidates"]["names"]
    assert f"Candidates ({len(names)})" in out
    assert all(f"  {name}\n" in out + "\n" for name in names)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (BARE, "# mbpack: bridge=0.6 recipe=llama3_8b_sft_config\n" + BARE),
        ("# mine\r\n" + BARE, "# mbpack: bridge=0.6 recipe=llama3_8b_sft_config\r\n# mine\r\n" + BARE),
        (
            "# mbpack: ignore[ALN101] known\n# mbpack: gpus=8 recipe=old\n" + BARE,
            "# mbpack: ignore[ALN101] known\n# mbpack: gpus=8 recipe=llama3_8b_sft_config bridge=0.6\n" + BARE,
        ),
    ],
)
def test_the_context_is_written_into_the_file(folder: Path, mbpack: Call, before: str, after: str) -> None:
    (folder / "a.yaml").write_bytes(before.encode())
    call = ("doctor", "a.yaml", "--bridge", "0.6", "--recipe", "llama3_8b_sft_config", "--write-context")
    mbpack(*call)
    assert (folder / "a.yaml").read_bytes() == after.encode()
    mbpack(*call)
    assert (folder / "a.yaml").read_bytes() == after.encode()


@pytest.mark.parametrize("argv", [("a.yaml",), ("run.sh", "--gpus", "8"), ("broken.yaml", "--gpus", "8")])
def test_a_context_that_cannot_be_written_leaves_the_file(folder: Path, mbpack: Call, argv: tuple[str, ...]) -> None:
    for name, text in (
        ("a.yaml", BARE),
        ("run.sh", "python scripts/training/run_recipe.py --recipe x\n"),
        ("broken.yaml", "a: [\n"),
    ):
        (folder / name).write_text(text)
    before = (folder / argv[0]).read_bytes()
    answer = mbpack("doctor", *argv, "--write-context")
    assert answer.code == 2
    assert "Traceback" not in answer.err
    assert (folder / argv[0]).read_bytes() == before


CP = "model: {context_parallel_size: 2, seq_length: 4096}\ndataset: {seq_length: 4096}\n"


def test_the_id_of_a_model_stands_for_its_recipes(mbpack: Call, folder: Path) -> None:
    (folder / "a.yaml").write_text(CP)
    out = " ".join(mbpack("doctor", "a.yaml", "--bridge", "0.6", "--recipe", "Qwen/Qwen3-8B", "--show-candidates").out.split())
    assert "Qwen/Qwen3-8B is a model, of which Megatron-Bridge 0.6 has 5 recipes: qwen3_8b_" in out
    _, _, listed = out.partition("Candidates (5) ")
    assert [word for word in listed.split()[:5] if not word.startswith("qwen3_8b_")] == []
    same = mbpack("doctor", "a.yaml", "--bridge", "0.6", "--recipe", "qwen/qwen3-8b-base", "--show-candidates").out
    assert "Candidates (5)" in same
    assert "(not known)" in mbpack("doctor", "a.yaml", "--bridge", "0.6", "--recipe", "Qwen/Qwen9-8B").out


def test_the_start_up_says_what_it_needs_to_be_told(mbpack: Call, folder: Path) -> None:
    (folder / "a.yaml").write_text(CP)
    asked = ("doctor", "a.yaml", "--bridge", "0.6", "--recipe", "Qwen/Qwen3-8B")
    assert "without --launcher NAME and --gpus N" in " ".join(mbpack(*asked).out.split())
    whole = " ".join(mbpack(*asked, "--launcher", "script", "--gpus", "8").out.split())
    assert re.search(r"Start-up refused with \d of 5 recipes, accepted with \d", whole), whole
    assert "not to be told" not in whole
