"""`mbpack verify` from the command line."""

from __future__ import annotations

import io
import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from mbpack.cli.main import run
from mbpack.facts.upstream_tests import commands

from .tree import checkout, package, write

PARQUET = "tests/unit_tests/data/packing/test_parquet.py"
OFFLINE = """\
# mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8
dataset:
  enable_offline_packing: true
  offline_packing_specs: {packed_sequence_size: 4096, pad_seq_to_mult: 4}
model: {context_parallel_size: 2}
train: {global_batch_size: 8, micro_batch_size: 1}
"""


@pytest.fixture(autouse=True)
def _somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working directory that belongs to no checkout and no project."""
    here = tmp_path / "here"
    here.mkdir()
    (here / ".git").mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def report(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, dict[str, Any]]:
    code = run(["verify", *argv, "--format", "json"])
    return code, json.loads(capsys.readouterr().out)


def test_without_a_checkout_the_commands_can_be_pasted(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["verify", "--bridge", "0.7"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line and not line.startswith("#")]
    assert lines == [selection.command for selection in commands("0.7")]
    assert [shlex.split(line)[:3] for line in lines] == [["uv", "run", "python"]] * len(lines)


def test_a_configuration_narrows_the_selection(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    config = write(tmp_path, "a.yaml", OFFLINE)
    code, data = report(capsys, str(config))
    assert (code, data["release"], data["features"]) == (0, "0.6", ["offline", "context_parallel"])
    assert [s["command"] for s in data["selections"]] == [str(s) for s in commands("0.6", ["offline", "context_parallel"])]
    assert [c["instead"] is not None for c in data["corrections"]] == [True, True]
    assert data["checkout"] is None


def test_a_configuration_that_names_no_release_has_that_of_the_checkout(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stdin:
        buffer = io.BytesIO(b"# mbpack: recipe=llama3_8b_sft_config gpus=8\nmodel: {context_parallel_size: 2}\n")

    monkeypatch.setattr("sys.stdin", Stdin)
    code, data = report(capsys, "-", "--repo", str(checkout(tmp_path / "repo", "0.5")))
    assert (code, data["release"], data["features"], data["notes"]) == (0, "0.5", ["offline", "context_parallel"], [])


def test_features_named_win_over_the_configuration(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    config = write(tmp_path, "a.yaml", OFFLINE)
    _, data = report(capsys, str(config), "--feature", "in-batch", "--feature", "energon")
    assert data["features"] == ["in_batch", "energon"]


def test_an_unpacked_configuration_has_nothing_to_verify(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = "# mbpack: bridge=0.6 recipe=llama3_8b_pretrain_config gpus=8\nmodel: {context_parallel_size: 1}\n"
    config = write(tmp_path, "a.yaml", text)
    assert run(["verify", str(config)]) == 0
    assert "no upstream test covers this" in capsys.readouterr().out


def test_a_launch_script_will_do(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    script = write(
        tmp_path, "a.sh", "torchrun scripts/training/run_recipe.py --recipe llama3_8b_sft_config model.context_parallel_size=2\n"
    )
    code, data = report(capsys, str(script), "--bridge", "0.6")
    assert (code, "context_parallel" in data["features"]) == (0, True)


def test_a_good_checkout(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    root = checkout(tmp_path / "repo")
    code, data = report(capsys, "--repo", str(root))
    assert (code, data["release"], data["checkout"]["version"]) == (0, "0.6", "0.6.0")
    assert {selection["state"] for selection in data["selections"]} == {"ok"}
    assert data["summary"]["as_expected"] == data["summary"]["selections"] == len(commands("0.6"))


def test_what_is_missing_fails_and_is_shown(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    root = checkout(tmp_path / "repo")
    (root / PARQUET).unlink()
    assert run(["verify", "--repo", str(root)]) == 1
    out = capsys.readouterr().out
    assert f"MISSING  uv run python -m pytest {PARQUET}" in out
    assert "9 of 10 selections are as expected, 1 not" in out


def test_corrections_are_shown(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(["verify", "--repo", str(checkout(tmp_path / "repo")), "--feature", "offline"]) == 0
    lines = capsys.readouterr().out.splitlines()
    wrong = next(line for line in lines if line.startswith("- ") and "test_packed_parquet.py" in line)
    after = lines[lines.index(wrong) + 1 :][:2]
    assert after[0].endswith("here: no such file")
    assert after[1].startswith(f"+ uv run python -m pytest {PARQUET} ")
    assert after[1].endswith("# 2 tests")


SKILL = """# Packing

```bash
uv run python -m pytest tests/unit_tests/training/utils/test_packed_seq_utils.py -v && \\
uv run python -m pytest tests/a/test_moved.py tests/unit_tests/training/test_config.py -k "nothing_like_this" -v && \\
uv run python -m pytest tests/unit_tests/data/datasets/test_sft.py -k "mapped_padding_rows_do_not_contribute_to_loss" -v && \\
uv run python -m pytest tests/unit_tests/training/test_config.py -k "(open"
python -m pytest 'unfinished
```
"""


def test_commands_of_the_checkouts_own_skill_are_checked(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    root = checkout(tmp_path / "repo")
    write(root, "skills/perf-sequence-packing/SKILL.md", SKILL)
    write(root, "skills/other/SKILL.md", "uv run python -m pytest tests/not/there.py\n")
    write(root, "tests/b/test_moved.py", "")
    code, data = report(capsys, "--repo", str(root))
    further = data["corrections"][4:]
    assert code == 0
    assert [(entry["why"].rpartition(" ")[2], entry["published_here"]["state"]) for entry in further] == [
        ("5", "missing"),
        ("5", "empty"),
        ("7", "unreadable"),  # its -k expression
    ]
    assert "tests/b/test_moved.py" in further[0]["published_here"]["note"]


def test_the_checkout_decides_the_release_and_a_difference_is_said(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    config = write(tmp_path, "a.yaml", OFFLINE)
    code, data = report(capsys, str(config), "--repo", str(checkout(tmp_path / "repo", "0.5")))
    assert (code, data["release"]) == (0, "0.5")
    assert any("is for 0.6" in note for note in data["notes"])


def test_the_checkout_around_is_found(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = checkout(tmp_path / "repo", "0.4")
    monkeypatch.chdir(root / "tests")
    code, data = report(capsys)
    assert (code, data["release"], data["checkout"]["path"]) == (0, "0.4", "..")


def test_run_executes_and_sums_up(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    root = checkout(tmp_path / "repo", "0.4")
    arguments = ["--repo", str(root), "--run", "--python", sys.executable, "--feature", "context_parallel"]
    code, data = report(capsys, *arguments)
    summary = data["summary"]
    assert (code, summary["passed"], summary["failed"], summary["ok"]) == (0, 14, 0, True)
    assert [selection["run"] and selection["run"]["state"] for selection in data["selections"]] == ["passed", None]


def test_run_names_failures_and_leaves_out_what_needs_gpus(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    root = checkout(tmp_path / "repo", "0.4")
    config = next(s for s in commands("0.4") if s.path.endswith("test_config.py"))
    bad = "\n\ndef test_packed_sequence_extra():\n    assert False, 'padding lost'\n"
    write(root, config.path, (root / config.path).read_text() + bad)
    assert run(["verify", "--repo", str(root), "--run", "--python", sys.executable, "--feature", "context_parallel"]) == 1
    captured = capsys.readouterr()
    assert "FAILED  uv run python -m pytest" in captured.out
    assert "padding lost" in captured.out
    assert f"run with {sys.executable} instead of `uv run python`" in captured.out
    assert "not run: needs 2 GPUs (--gpu-tests)" in captured.out
    assert "14 tests passed, 1 failed; 1 of 2 selections are as expected; 1 not run" in captured.out
    assert "[1/1] test_config.py" in captured.err


def test_tests_that_do_not_take_part_are_noticed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    root = checkout(tmp_path / "repo", "0.4")
    write(root, "conftest.py", "def pytest_collection_modifyitems(items):\n    del items[1:]\n")
    arguments = ["--repo", str(root), "--run", "--python", sys.executable, "--feature", "context_parallel"]
    code, data = report(capsys, *arguments)
    assert code == 1
    assert data["selections"][0]["run"]["not_collected"] == 13


def test_a_newer_checkout_is_looked_at_as_nightly(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    root = package(checkout(tmp_path / "repo", "0.7"), 0, 8, 0)
    code, data = report(capsys, "--repo", str(root))
    assert (code, data["release"]) == (0, "nightly")
    assert any("newer than 0.7" in note for note in data["notes"])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--repo", "nowhere"], "nowhere: no such directory"),
        (["--repo", "."], ".: not a Megatron-Bridge checkout"),
        (["--run"], "--run needs a checkout"),
        (["--bridge", "9.9"], "9.9 is not known"),
        (["--feature", "speed"], "--feature speed: not known; use offline"),
        (["--format", "xml"], "--format xml"),
        (["nothing.yaml"], "nothing.yaml: no such file"),
        (["."], ".: a directory"),
        (["list.yaml"], "list.yaml: cannot be used as a configuration"),
        (["bytes.yaml"], "bytes.yaml: cannot be used as a configuration"),
        (["--repo", "good", "--run", "--python", "no-such-python"], "no-such-python: cannot be started"),
        (["--repo", "good", "--run", "--python", "'"], "--python '"),
        (["--timeout", "0"], "--timeout"),
        (["--unknown"], "--unknown"),
    ],
)
def test_bad_input_is_one_clear_line(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    write(Path.cwd(), "list.yaml", "- 1\n- 2\n")
    (Path.cwd() / "bytes.yaml").write_bytes(b"\xff\xfe\x00a: [")
    checkout(Path.cwd() / "good")
    assert run(["verify", *arguments]) == 2
    captured = capsys.readouterr()
    assert says in captured.err
    assert "Traceback" not in captured.err
    assert captured.out == ""
