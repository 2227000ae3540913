"""`doctor --fix` and its relatives, as a user meets them."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path
from shutil import which

import pytest

from mbpack.cli.main import run

TEXT = (
    "# mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=16 launcher=script\n"
    "model:\n  context_parallel_size: 2   # long rows\n"
    "train:\n  micro_batch_size: 2\n  global_batch_size: 16\n"
    "dataset:\n  offline_packing_specs:\n    pad_seq_to_mult: 1"
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "sft.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + TEXT.replace("\n", "\r\n").encode())
    return path


def test_fix_keeps_bytes_mode_and_link(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.chmod(0o640)
    link = tmp_path / "link.yaml"
    link.symlink_to(file.name)
    assert run(["doctor", "--unsafe-fixes", "--backup", str(link)]) == 0
    assert link.is_symlink()
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    data = file.read_bytes()
    assert data.startswith(b"\xef\xbb\xbf# mbpack")
    assert b"\n" not in data.replace(b"\r\n", b"")
    assert b"context_parallel_size: 2   # long rows\r\n" in data
    assert not data.endswith(b"\n")
    backup = tmp_path / "link.yaml.bak"
    assert backup.read_bytes() == b"\xef\xbb\xbf" + TEXT.replace("\n", "\r\n").encode()
    out = capsys.readouterr().out
    assert "train.micro_batch_size: 1" in out
    assert "unsafe: pad_seq_to_mult" in out
    assert run(["doctor", "--unsafe-fixes", "--backup", str(link)]) == 0
    assert file.read_bytes() == data
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.yaml", "link.yaml.bak", "sft.yaml"]


def test_diff_writes_nothing_and_exits_1(file: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    before = file.read_bytes()
    assert run(["doctor", "--diff", str(file)]) == 1
    assert file.read_bytes() == before
    assert capfdbinary.readouterr().out.startswith(b"--- ")
    assert run(["doctor", "--unsafe-fixes", str(file)]) == 0
    capfdbinary.readouterr()
    assert run(["doctor", "--unsafe-fixes", "--diff", str(file)]) == 0
    assert capfdbinary.readouterr().out == b""


@pytest.mark.parametrize(
    "text", [TEXT, TEXT + "\n", TEXT.replace("\n", "\r\n"), "\ufeff" + TEXT, TEXT.replace("train:", "# \u00e9\ntrain:")]
)
@pytest.mark.parametrize("tool", ["patch", "reader"])
def test_diff_applies_and_reverses_as_a_patch(
    text: str, tool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """By patch(1) where it is installed, and always by a strict reading of the format."""
    patch = (which("patch") or "") if tool == "patch" else ""
    monkeypatch.chdir(tmp_path)
    path, fixed = tmp_path / "my sft.yaml", tmp_path / "fixed.yaml"
    for copy in (path, fixed):
        copy.write_bytes(text.encode())
    assert run(["doctor", "--unsafe-fixes", "--diff", path.name]) == 1
    diff = capfdbinary.readouterr().out
    assert run(["doctor", "--unsafe-fixes", fixed.name]) == 0
    assert apply(patch, tmp_path, path, diff, reverse=False) == fixed.read_bytes()
    assert apply(patch, tmp_path, path, diff, reverse=True) == text.encode()


def apply(patch: str, folder: Path, path: Path, diff: bytes, reverse: bool) -> bytes:
    """The file after patch(1), or after a reading of the diff where patch is not installed."""
    if patch:
        subprocess.run([patch, "-p0", *(["-R"] if reverse else [])], cwd=folder, input=diff, capture_output=True, check=True)
    else:
        path.write_bytes(applied(path.read_bytes(), diff, reverse))
    return path.read_bytes()


def applied(data: bytes, diff: bytes, reverse: bool) -> bytes:
    lines, out, at = data.split(b"\n"), [], 0
    lines = [line + b"\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
    taken, given = (b"+", b"-") if reverse else (b"-", b"+")
    entries = diff.split(b"\n")[2:-1]
    for index, entry in enumerate(entries):
        end = b"" if index + 1 < len(entries) and entries[index + 1].startswith(b"\\") else b"\n"
        if entry.startswith(b"@@"):
            place = entry.split(b" ")[2 if reverse else 1][1:].split(b",")
            start = int(place[0]) - (1 if len(place) == 1 or place[1] != b"0" else 0)
            out += lines[at:start]
            at = start
        elif entry[:1] in (b" ", taken):
            assert lines[at] == entry[1:] + end
            if entry[:1] == b" ":
                out.append(lines[at])
            at += 1
        elif entry[:1] == given:
            out.append(entry[1:] + end)
    return b"".join(out + lines[at:])


def test_arguments_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["doctor", "--fix", "--bridge", "0.6", "--recipe", "llama3_8b_sft_config", "--gpus", "16"]
    assert run([*command, "train.micro_batch_size=2", "train.global_batch_size=16"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["train.micro_batch_size=1", "train.global_batch_size=16"]
    assert all("=" in line for line in lines)


def test_a_launch_script_is_not_edited(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "launch.sh"
    text = (
        "torchrun --nproc-per-node 8 --nnodes 2 scripts/training/run_recipe.py --recipe llama3_8b_sft_config "
        "train.micro_batch_size=2 train.global_batch_size=16\n"
    )
    script.write_text(text)
    run(["doctor", "--fix", "--bridge", "0.6", str(script)])
    assert script.read_text() == text
    assert "train.micro_batch_size=1" in capsys.readouterr().out.splitlines()


def test_stdin_comes_out_fixed() -> None:
    command = [sys.executable, "-m", "mbpack", "doctor", "--unsafe-fixes", "-"]
    done = subprocess.run(command, input=TEXT, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "micro_batch_size: 1" in done.stdout
    assert done.stdout.startswith("# mbpack")
    assert "stdin" in done.stderr


def test_a_file_that_cannot_be_written_stays_whole(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = file.read_bytes()

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "replace", refuse)
    assert run(["doctor", "--fix", str(file)]) == 2
    assert "cannot be written" in capsys.readouterr().err
    assert file.read_bytes() == before
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_many_files_are_summed_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.yaml").write_text(TEXT)
    (tmp_path / "good.yaml").write_text(TEXT.splitlines()[0] + "\ntrain: {global_batch_size: 16}\n")
    assert run(["doctor", "--unsafe-fixes", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "good.yaml" not in out
    assert out.splitlines()[-1].endswith("findings fixed, in 1 of 2 configurations")


def test_what_is_left_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("# mbpack: bridge=0.6 recipe=llama3_8b_peft_config gpus=8 launcher=script\ntrain: {global_batch_size: 8}\n")
    assert run(["doctor", "--unsafe-fixes", str(path)]) == 1
    out = capsys.readouterr().out
    assert "left to you" in out
    assert "PFT101" in out
    assert "the converted base model" in out
