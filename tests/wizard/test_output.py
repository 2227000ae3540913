"""Preview and atomic writing."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from mbpack.cli.main import run as mbpack
from mbpack.wizard.output import OutputError, existing, preview, write


def test_a_new_file_is_all_additions() -> None:
    assert preview("a.yaml", None, "x: 1\n") == ["--- /dev/null", "+++ a.yaml", "@@ -0,0 +1 @@", "+x: 1"]


def test_a_change_is_a_unified_diff() -> None:
    lines = preview("a.yaml", "x: 1\ny: 2\n", "x: 1\ny: 3\n")
    assert lines[:2] == ["--- a.yaml", "+++ a.yaml"]
    assert "-y: 2" in lines
    assert "+y: 3" in lines


def test_mode_and_symlink_are_kept(tmp_path: Path) -> None:
    target, link = tmp_path / "real.yaml", tmp_path / "link.yaml"
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to(target)
    write(str(link), "new\n")
    assert link.is_symlink()
    assert target.read_text() == "new\n"
    assert target.stat().st_mode & 0o777 == 0o640


def test_a_new_file_has_the_usual_mode(tmp_path: Path) -> None:
    mask = os.umask(0o022)
    try:
        write(str(tmp_path / "a.yaml"), "x\n")
    finally:
        os.umask(mask)
    assert (tmp_path / "a.yaml").stat().st_mode & 0o777 == 0o644


def test_nothing_is_left_behind_when_writing_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("old")

    def broken(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", broken)
    with pytest.raises(OutputError, match=r"a\.yaml: cannot be written: No space left"):
        write(str(path), "new")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.yaml"]


def test_missing_folders_and_unreadable_files_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="cannot be written"):
        write(str(tmp_path / "no" / "a.yaml"), "x")
    (tmp_path / "b.yaml").write_bytes(b"\xff\xfe")
    with pytest.raises(OutputError, match="no UTF-8 text"):
        existing(str(tmp_path / "b.yaml"))
    with pytest.raises(OutputError, match="cannot be read"):
        existing(str(tmp_path))
    assert existing(str(tmp_path / "c.yaml")) is None


def test_what_is_no_file_is_written_into(tmp_path: Path) -> None:
    """A device such as /dev/null must not be replaced by a file."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write(str(pipe), "x\n")
        assert os.read(reader, 10) == b"x\n"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(os.stat(pipe).st_mode)
    assert os.listdir(tmp_path) == ["pipe"]


def test_targets_are_looked_at_before_anything_is_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for target, reason in ((str(tmp_path), "is a directory"), (str(tmp_path / "no" / "a.yaml"), "there is no folder")):
        for flag in ("--output", "--save-answers"):
            assert mbpack(["init", flag, target]) == 2
            error = capsys.readouterr().err
            assert reason in error
            assert error.count("\n") == 1
