"""The command line as a whole: names, versions, exit codes, readers who leave, and Ctrl-C."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import mbpack as package
from mbpack.cli import main
from mbpack.cli.main import COMMANDS
from tests.cli.conftest import BROKEN, Call


def test_version(mbpack: Call) -> None:
    for flag in ("--version", "-V"):
        assert mbpack(flag) == (0, f"mbpack {package.__version__}\n", "")


def test_without_arguments_the_commands_are_listed(mbpack: Call) -> None:
    code, out, _ = mbpack()
    assert code == 2
    listed = [line.split()[0] for line in out.partition("Commands:")[2].splitlines() if line.startswith("  ")]
    assert listed[: len(COMMANDS)] == list(COMMANDS)


def test_help_is_no_error(mbpack: Call) -> None:
    assert mbpack("--help").code == 0
    for name in COMMANDS:
        code, out, err = mbpack(name, "--help")
        assert (code, err) == (0, ""), name
        assert out.startswith(f"Usage: mbpack {name}")


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["docter"], "did you mean doctor?"),
        (["nosuch"], "commands: init, doctor"),
        ([""], "no command is called ''"),
        (["--nosuch"], "No such option"),
    ],
)
def test_unknown_commands(mbpack: Call, argv: list[str], words: str) -> None:
    code, out, err = mbpack(*argv)
    assert (code, out) == (2, "")
    assert words in err


def test_ctrl_c_is_130(mbpack: Call, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    (folder / "a.yaml").write_text(BROKEN)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("mbpack.cli.session.judge", interrupted)
    code, out, err = mbpack("doctor", "a.yaml")
    assert (code, out) == (130, "")
    assert "Traceback" not in err


def test_ctrl_c_while_starting_is_130(mbpack: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(main, "import_module", interrupted)
    assert mbpack("explain") == (130, "", "aborted\n")


def test_a_defect_is_one_line_and_70(mbpack: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise AssertionError("first\nsecond")

    monkeypatch.setattr("mbpack.cli.doctor.split_arguments", broken)
    code, out, err = mbpack("doctor", "a.yaml")
    assert (code, out, err.count("\n")) == (70, "", 1)
    assert "AssertionError: first second" in err
    monkeypatch.setenv("MBPACK_TRACEBACK", "1")
    with pytest.raises(AssertionError):
        mbpack("doctor", "a.yaml")


def test_a_reader_who_leaves(folder: Path) -> None:
    (folder / "a.yaml").write_text(BROKEN)
    arguments = " ".join(["a.yaml"] * 60)  # more than a pipe holds
    script = f'"{sys.executable}" -m mbpack doctor {arguments} 2>err | head -1; echo "${{PIPESTATUS[0]}}"'
    done = subprocess.run(["bash", "-c", script], cwd=folder, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[0].startswith("a.yaml")
    assert done.stdout.splitlines()[1] == "1"
    assert (folder / "err").read_text() == ""


def test_streams_that_are_closed_or_full(folder: Path) -> None:
    (folder / "a.yaml").write_text(BROKEN)
    script = f"""
        mbpack() {{ "{sys.executable}" -m mbpack "$@"; }}
        mbpack doctor a.yaml >&- 2>err; echo $?; cat err
        mbpack doctor - <&- 2>err; echo $?; cat err
        mbpack doctor a.yaml >/dev/full 2>err; echo $?; cat err
    """
    done = subprocess.run(["bash", "-c", script], cwd=folder, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "1",
        "2",
        "mbpack doctor: -: standard input is closed",
        "2",
        "mbpack: No space left on device",
    ]


def test_a_terminal_without_unicode(folder: Path) -> None:
    (folder / "a.yaml").write_text(BROKEN.replace("seq_length: 8192", "seq_length: '漢é'"))
    environment = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-m", "mbpack", "doctor", "a.yaml"]
    done = subprocess.run(command, cwd=folder, capture_output=True, env=environment, check=False)
    assert (done.returncode, done.stderr) == (1, b"")
    assert b"\\u6f22\\xe9" in done.stdout
    machine = subprocess.run([*command, "--format", "json"], cwd=folder, capture_output=True, env=environment, check=False)
    assert "漢é" in machine.stdout.decode("utf-8")
