"""What `mbpack doctor` takes: files, folders, patterns, stdin, scripts, arguments, a recipe alone, and what it refuses."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import BROKEN, RIGHT, WASTEFUL, Call

KUBERNETES = "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n"


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken configuration on standard input."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(BROKEN.encode())))


def paths(data: dict[str, list[dict[str, object]]]) -> list[object]:
    return [file["path"] for file in data["files"]]


def test_several_files_in_the_order_given(doctor: Call, folder: Path) -> None:
    for name, text in (("b.yaml", RIGHT), ("a.yaml", BROKEN), ("c c.yaml", WASTEFUL)):
        (folder / name).write_text(text)
    answer = doctor("c c.yaml", "b.yaml", "./a.yaml")
    assert answer.code == 1
    assert paths(answer.data) == ["c c.yaml", "b.yaml", "./a.yaml"]
    assert answer.data["summary"] == {"files": 3, "errors": 2, "warnings": 1}
    assert doctor("b.yaml").code == 0


def test_layers_are_one_configuration(doctor: Call, folder: Path) -> None:
    (folder / "base.yaml").write_text(BROKEN)
    (folder / "top.yaml").write_text("train:\n  micro_batch_size: 1\ndataset: {offline_packing_specs: {pad_seq_to_mult: 8}}\n")
    answer = doctor("--merge", "base.yaml", "top.yaml")
    assert (answer.code, paths(answer.data), answer.slugs) == (0, ["base.yaml + top.yaml"], [])
    (found,) = [f for f in doctor("--merge", "top.yaml", "base.yaml").data["files"][0]["findings"] if f["code"] == "BAT101"]
    assert (found["path"], found["line"]) == ("base.yaml", 9)


def test_a_folder_is_searched_and_foreign_files_are_counted(mbpack: Call, folder: Path) -> None:
    (folder / "conf" / "deep er").mkdir(parents=True)
    (folder / "conf" / "a.yaml").write_text(BROKEN)
    (folder / "conf" / "deep er" / "b.yml").write_text(RIGHT)
    (folder / "conf" / "pod.yaml").write_text(KUBERNETES)
    (folder / "conf" / "notes.txt").write_text(BROKEN)
    code, out, err = mbpack("doctor", "conf", "--format", "json")
    assert paths(json.loads(out)) == ["conf/a.yaml", "conf/deep er/b.yml"]
    assert (code, err) == (1, "mbpack doctor: 1 YAML file is no Megatron-Bridge configuration and was left out: conf/pod.yaml\n")
    (folder / "conf" / "other.yaml").write_text("services: {web: {image: x}}\n")
    assert (
        "2 YAML files are no Megatron-Bridge configurations and were left out: conf/other.yaml, conf/pod.yaml"
        in mbpack("doctor", "conf").err
    )


def test_a_foreign_file_that_is_named_is_a_finding(doctor: Call, folder: Path) -> None:
    (folder / "pod.yaml").write_text(KUBERNETES)
    answer = doctor("pod.yaml")
    assert (answer.code, answer.slugs, answer.err) == (1, ["cfg/not-bridge"], "")


def test_patterns(doctor: Call, folder: Path) -> None:
    (folder / "x").mkdir()
    for name in ("b.yaml", "a.yaml", "x/c.yaml"):
        (folder / name).write_text(RIGHT)
    assert paths(doctor("*.yaml").data) == ["a.yaml", "b.yaml"]
    assert paths(doctor("**/*.yaml").data) == ["a.yaml", "b.yaml", "x/c.yaml"]
    assert doctor("*.nope")[:2] == (2, "")


def test_a_file_whose_name_looks_like_a_pattern_or_an_override(doctor: Call, folder: Path) -> None:
    for name in ("a[1].yaml", "model.x=1"):
        (folder / name).write_text(RIGHT)
        assert paths(doctor(name).data) == [name]


@pytest.mark.usefixtures("stdin")
def test_stdin(doctor: Call) -> None:
    answer = doctor("-")
    assert (answer.code, paths(answer.data)) == (1, ["-"])
    assert "batch/offline-mbs-one" in answer.slugs


@pytest.mark.usefixtures("stdin")
def test_stdin_in_words_and_twice(mbpack: Call) -> None:
    assert mbpack("doctor", "-", "-") == (2, "", "mbpack doctor: - (stdin) can be read only once\n")
    assert mbpack("doctor", "-").out.startswith("stdin  Megatron-Bridge 0.6")


def test_a_checkpoint_folder(doctor: Call, folder: Path) -> None:
    for step in ("0000100", "0000200"):
        (folder / "ckpt" / f"iter_{step}").mkdir(parents=True)
        (folder / "ckpt" / f"iter_{step}" / "run_config.yaml").write_text(RIGHT)
    (folder / "ckpt" / "tokenizer.yaml").write_text(BROKEN)
    assert paths(doctor("ckpt").data) == ["ckpt/iter_0000200/run_config.yaml"]
    (folder / "ckpt" / "run_config.yaml").write_text(RIGHT)
    assert paths(doctor("ckpt").data) == ["ckpt/run_config.yaml"]


def test_a_launch_script(doctor: Call, folder: Path) -> None:
    (folder / "launch.sh").write_text(
        "#!/bin/bash\n\ntorchrun --nproc-per-node 8 --nnodes 2 scripts/training/run_recipe.py \\\n"
        "  --recipe llama3_8b_sft_config \\\n  train.micro_batch_size=2 train.global_batch_size=16\n"
    )
    answer = doctor("launch.sh", "--bridge", "0.6")
    file = answer.data["files"][0]
    assert (answer.code, file["path"]) == (1, "launch.sh")
    assert file["context"]["sources"] == {
        "bridge": "flag", "recipe": "script", "gpus": "script", "launcher": "script", "nodes": "script",
    }  # fmt: skip
    found = next(f for f in file["findings"] if f["slug"] == "batch/offline-mbs-one")
    assert (found["line"], found["column"]) == (5, 26)
    (folder / "empty.sh").write_text("echo hello\n")
    answer = doctor("empty.sh")
    assert (answer.code, paths(answer.data)) == (2, [])
    assert "no launch command" in answer.err


def test_an_argument_counts_over_the_script(doctor: Call, folder: Path) -> None:
    (folder / "train.sh").write_text(
        "torchrun --nproc-per-node 8 scripts/training/run_recipe.py --recipe llama3_8b_sft_config train.micro_batch_size=1\n"
    )
    assert "batch/offline-mbs-one" not in doctor("train.sh", "--bridge", "0.5").slugs
    assert "batch/offline-mbs-one" in doctor("train.sh", "train.micro_batch_size=2", "--bridge", "0.5").slugs


def test_a_recipe_that_does_not_exist_has_no_source(doctor: Call, folder: Path) -> None:
    (folder / "pyproject.toml").write_text('[tool.mbpack]\nrecipe = "no_such_recipe"\nbridge = "0.6"\n')
    (folder / "a.yaml").write_text("train: {micro_batch_size: 1}\n")
    context = doctor("a.yaml").data["files"][0]["context"]
    assert context["recipe"] is None
    assert context["sources"] == {"bridge": "pyproject"}


def test_arguments_alone_and_on_top_of_a_file(doctor: Call, folder: Path) -> None:
    (folder / "a.yaml").write_text(RIGHT)
    answer = doctor("a.yaml", "train.micro_batch_size=2")
    found = next(f for f in answer.data["files"][0]["findings"] if f["slug"] == "batch/offline-mbs-one")
    assert (found["key"], found["line"], found["column"]) == ("train.micro_batch_size", None, None)
    assert doctor("a.yaml", "train.micro_batch_size=1").code == 0
    answer = doctor("--recipe", "llama3_8b_sft_config", "train.micro_batch_size=2")
    assert (answer.code, paths(answer.data)) == (1, [None])
    assert doctor("train.micro_batch_size=2")[:2] == (2, "")


def test_a_recipe_alone(mbpack: Call, doctor: Call) -> None:
    answer = doctor("--recipe", "llama3_8b_sft_config", "--gpus", "8", "--launcher", "script")
    assert (answer.code, paths(answer.data)) == (0, [None])
    assert answer.data["files"][0]["context"]["recipe"] == "llama3_8b_sft_config"
    assert mbpack("doctor", "--recipe", "llama3_8b_sft_config").out.startswith("llama3_8b_sft_config: no problems found")


def test_a_missing_file_does_not_hide_the_others(doctor: Call, folder: Path) -> None:
    (folder / "sft.yaml").write_text(BROKEN)
    answer = doctor("sft.yml", "sft.yaml")
    assert (answer.code, paths(answer.data)) == (2, ["sft.yaml"])
    assert answer.err == "mbpack doctor: sft.yml: no such file or directory; did you mean sft.yaml?\n"


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ([], "name a file, a directory or a launch script, or a recipe with --recipe NAME"),
        (["train.micro_batch_size"], "an override is written KEY=VALUE"),
        (["no/such.yaml"], "no/such.yaml: no such file or directory"),
        (["empty"], "no run_config.yaml, no YAML file, launch script or program of Megatron-Bridge in this directory"),
        (["a\0b"], "cannot be read"),
        (["--bridge", "9.9", "a.yaml"], "9.9 is not known"),
        (["--bridge", "x", "a.yaml"], "--bridge"),
        (["--recipe", "llama3_8b_sft_confg"], "did you mean llama3_8b_sft"),
        (["--recipe", ""], "has no recipe"),
        (["--gpus", "0", "a.yaml"], "--gpus"),
        (["--gpus", "9" * 10, "a.yaml"], "--gpus"),
        (["--nodes", "-1", "a.yaml"], "--nodes"),
        (["--launcher", "slurm", "a.yaml"], "use run_recipe (scripts/training/run_recipe.py) or script"),
        (["--select", "ALN10X", "a.yaml"], "no rule is called ALN10X; did you mean ALN1"),
        (["--ignore", "align/pad-seq-to-mult", "a.yaml"], "did you mean align/pad-seq-to-mult-"),
        (["--format", "jsn", "a.yaml"], "did you mean json?"),
        (["--format", "json", "--statistics", "a.yaml"], "--statistics prints text"),
        (["--format", "sarif", "--show-resolved", "a.yaml"], "--show-resolved prints text"),
        (["--baseline", "none.json", "a.yaml"], "none.json: cannot be read"),
        (["--baseline", "a.yaml", "a.yaml"], "not a baseline file"),
        (["--lengths", "none.npy", "a.yaml"], "none.npy"),
        (["--output", "empty", "a.yaml"], "empty: cannot be written"),
        (["--output", "no/such/x", "a.yaml"], "cannot be written"),
        (["--output", "a.yaml", "a.yaml"], "one of the files to check"),
        (["--write-baseline", "./a.yaml", "a.yaml"], "one of the files to check"),
    ],
)
def test_what_cannot_be_used_is_one_line_and_2(mbpack: Call, folder: Path, argv: list[str], words: str) -> None:
    (folder / "empty").mkdir()
    (folder / "a.yaml").write_text(RIGHT)
    code, out, err = mbpack("doctor", *argv)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("mbpack doctor: ")
    assert words in err
    assert (folder / "a.yaml").read_text() == RIGHT


def test_options_that_do_not_exist_or_are_no_numbers(mbpack: Call) -> None:
    assert re.search(r"--recipe\b", mbpack("doctor", "--recipes", "x").err)  # the option that was meant is named
    for argv in (["--recipes", "x"], ["--gpus", "many"], ["--gpus"]):
        assert mbpack("doctor", *argv)[:2] == (2, "")


def test_a_file_that_cannot_be_opened(mbpack: Call, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "a.yaml").write_text(RIGHT)
    (folder / "b.yaml").write_text(RIGHT)

    def refuse(path: str, mode: str) -> object:
        if path == "a.yaml":
            raise PermissionError(13, "Permission denied")
        return io.open(path, mode)  # noqa: UP020 (the built-in name is replaced)

    monkeypatch.setattr("mbpack.cli.inputs.open", refuse, raising=False)
    code, out, err = mbpack("doctor", "a.yaml", "b.yaml")
    assert (code, err) == (2, "mbpack doctor: a.yaml: cannot be read: Permission denied\n")
    assert out.startswith("b.yaml: no problems found")


@pytest.mark.parametrize(
    ("data", "slugs"),
    [
        (b"", []),
        (b"\xef\xbb\xbf", []),
        (b"# only a comment\n", []),
        (b"model: {}\n", []),
        (b"\x00\x01\xff\xfe" * 100, ["cfg/unreadable"]),
        (b"\x89PNG\r\n\x1a\n" + bytes(range(256)), ["cfg/unreadable"]),
        ("model: {}\n".encode("utf-16"), ["cfg/unreadable"]),
        (b"model: [", ["cfg/unreadable"]),
        (b"- a\n- b\n", ["cfg/unreadable"]),
        (b"model: {seq_length: 1}\n---\nmodel: {}\n", ["cfg/unreadable"]),
        (b"model: {seq_length: 1, seq_length: 2}\n", ["cfg/dup-key"]),
        (b"[" * 5000, ["cfg/unreadable"]),
    ],
)
def test_files_that_are_empty_or_broken_are_findings(doctor: Call, folder: Path, data: bytes, slugs: list[str]) -> None:
    (folder / "a.yaml").write_bytes(data)
    answer = doctor("a.yaml")
    assert (answer.code, answer.err) == (1 if slugs else 0, "")
    assert set(slugs) <= set(answer.slugs)
    for finding in answer.data["files"][0]["findings"]:
        assert finding["line"] >= 1
        assert finding["column"] >= 1
    if slugs:
        assert answer.data["files"][0]["verdict"] == "rejected"
        assert [finding["fires_first"] for finding in answer.data["files"][0]["findings"]].count(True) == 1


def test_a_file_too_large_is_not_read_to_its_end(doctor: Call, folder: Path) -> None:
    with open(folder / "huge.yaml", "wb") as stream:
        stream.truncate(1 << 34)  # 16 GiB of nothing
    answer = doctor("huge.yaml")
    assert (answer.code, answer.slugs) == (1, ["cfg/unreadable"])
    assert "more than 4 MB" in answer.data["files"][0]["findings"][0]["message"]


def test_a_pipe_as_a_file(folder: Path) -> None:
    (folder / "a.yaml").write_text(BROKEN)
    script = f'"{sys.executable}" -m mbpack doctor <(cat a.yaml) --format github'
    done = subprocess.run(["bash", "-c", script], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "BAT101" in done.stdout


def test_many_files_are_examined_side_by_side(doctor: Call, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mbpack.cli.session.PARALLEL_FROM", 6)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    (folder / "d").mkdir()
    for number in range(60):
        (folder / "d" / f"{number:02}.yaml").write_text((BROKEN, RIGHT, KUBERNETES)[number % 3])
    side = doctor("d", "missing.yaml")
    monkeypatch.setattr("mbpack.cli.session.PARALLEL_FROM", 1000)
    assert doctor("d", "missing.yaml") == side
    assert (side.code, side.data["summary"]["files"], side.data["summary"]["errors"]) == (2, 40, 40)
    assert paths(side.data) == sorted(paths(side.data))
    assert "20 YAML files" in side.err


def test_arguments_of_another_kind_of_program_are_declined_like_its_files(doctor: Call, folder: Path) -> None:
    ours = "torchrun --nproc_per_node=8 own.py model.tensor_model_parallel_size=2 train.micro_batch_size=1"
    (folder / "ours.sh").write_text(f"{ours} trainer.note=1\n")
    (folder / "theirs.sh").write_text(
        "torchrun tune.py trainer.devices=8 trainer.num_nodes=4 model.data.chat=True exp_manager.exp_dir=/out "
        "model.tensor_model_parallel_size=4 model.context_parallel_size=2\n"
    )
    assert [finding["code"] for finding in doctor("theirs.sh").data["files"][0]["findings"]] == ["CFG128"]
    assert "CFG128" not in [finding["code"] for finding in doctor("ours.sh").data["files"][0]["findings"]]
