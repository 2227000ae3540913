"""The command line at a real terminal: pager, watching, quiet; and what these are elsewhere."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pexpect
import pytest

from tests.cli.conftest import BROKEN, RIGHT, WASTEFUL, Call


def spawn(folder: Path, *words: str, **variables: str) -> pexpect.spawn[str]:
    environment = {**os.environ, "TERM": "xterm", "NO_COLOR": "1", **variables}
    arguments = ["-m", "mbpack", *words]
    return pexpect.spawn(
        sys.executable,
        arguments,
        cwd=str(folder),
        env=environment,  # type: ignore[arg-type]
        encoding="utf-8",
        dimensions=(24, 80),
        timeout=20,
        preexec_fn=_heed_interrupts,
    )


def _heed_interrupts() -> None:
    """As in a terminal: what a shell starts in the background ignores Ctrl-C, and so does all that it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


# ---------------------------------------------------------------------- pager

MARK = "through the pager"


@pytest.mark.parametrize(
    ("words", "variables", "paged"),
    [
        (("explain",), {}, True),
        (("explain", "ALN101"), {}, True),
        (("explain", "dp", "--gpus", "8"), {}, False),  # fits the terminal
        (("explain", "--no-pager"), {}, False),
        (("explain", "--format", "json"), {}, False),
        (("explain",), {"PAGER": ""}, False),
        (("explain",), {"TERM": "dumb"}, False),
        (("explain",), {"PAGER": "no-such-pager"}, False),
        (("explain",), {"MBPACK_PAGER": "", "PAGER": "./pager"}, False),
    ],
)
def test_long_pages_go_through_the_pager(folder: Path, words: tuple[str, ...], variables: dict[str, str], paged: bool) -> None:
    pager = folder / "pager"
    pager.write_text(f"#!/bin/sh\necho '{MARK}'; exec cat\n")
    pager.chmod(0o755)
    shell = spawn(folder, *words, **{"PAGER": "./pager", **variables})
    out = shell.read()
    shell.close()
    assert shell.exitstatus == 0
    assert (MARK in out) is paged
    assert out.strip()


def test_a_reader_who_leaves_the_pager_is_no_error(folder: Path) -> None:
    shell = spawn(folder, "explain", PAGER="true")
    shell.read()
    shell.close()
    assert shell.exitstatus == 0


def test_no_pager_without_a_terminal(mbpack: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAGER", "false")
    assert "Pitfalls" in mbpack("explain").out


# ---------------------------------------------------------------------- watch


def test_watching_sees_changes_new_files_and_those_that_go(folder: Path) -> None:
    (folder / "configs").mkdir()
    (folder / "configs" / "a.yaml").write_text(BROKEN)
    shell = spawn(folder, "doctor", "configs", "--watch", "--format", "concise")
    shell.expect("BAT101.*watching 1 file; Ctrl-C ends")
    (folder / "configs" / "a.yaml").write_text(RIGHT)
    shell.expect("watching 1 file;")
    assert "BAT101" not in shell.before
    (folder / "configs" / "b.yaml").write_text(BROKEN)
    shell.expect("b.yaml.*BAT101.*watching 2 files;")
    (folder / "configs" / "b.yaml").unlink()
    shell.expect("watching 1 file;")
    (folder / "pyproject.toml").write_text("[tool.mbpack]\nselect = []\n")
    shell.expect("watching 2 files;")
    shell.sendintr()
    shell.expect(pexpect.EOF)
    shell.close()
    assert shell.exitstatus == 0  # that of the last run


def test_watching_sees_what_a_file_inherits(folder: Path) -> None:
    (folder / "base.yaml").write_text(BROKEN)
    (folder / "a.yaml").write_text("defaults: [base]\ntrain: {global_batch_size: 8}\n")
    shell = spawn(folder, "doctor", "a.yaml", "--watch", "--format", "concise")
    shell.expect("BAT101.*watching 2 files;")
    (folder / "base.yaml").write_text(RIGHT)
    shell.expect("watching 2 files;")
    assert "BAT101" not in shell.before
    shell.close(force=True)


@pytest.mark.parametrize("words", [("a.yaml", "--fix"), ("-",), ("a.yaml", "--write-baseline", "b.json")])
def test_watching_only_looks(mbpack: Call, folder: Path, words: tuple[str, ...]) -> None:
    (folder / "a.yaml").write_text(BROKEN)
    answer = mbpack("doctor", *words, "--watch")
    assert (answer.code, answer.out) == (2, "")
    assert "--watch only looks" in answer.err
    assert (folder / "a.yaml").read_text() == BROKEN


# ---------------------------------------------------------------------- quiet


def test_quiet_is_errors_and_warnings_alone(mbpack: Call, folder: Path) -> None:
    for name, text in (("broken", BROKEN), ("right", RIGHT), ("waste", WASTEFUL)):
        (folder / f"{name}.yaml").write_text(text)
    assert mbpack("doctor", "right.yaml", "-q") == (0, "", "")
    loud, quiet = (mbpack("doctor", "broken.yaml", *flag).out for flag in ((), ("--quiet",)))
    assert re.findall(r"^error \w+", quiet, re.M) == re.findall(r"^error \w+", loud, re.M)
    assert "note" in loud
    assert not re.search(r"^(note|Derived|Not checked|Upstream|\d+ error)", quiet, re.M)
    assert quiet.rstrip("\n") in loud
    all_three = mbpack("doctor", "broken.yaml", "right.yaml", "waste.yaml", "-q")
    assert all_three.code == 1
    assert "right.yaml" not in all_three.out
    assert "configurations:" not in all_three.out


def test_quiet_fixing_says_what_is_left(mbpack: Call, folder: Path) -> None:
    (folder / "a.yaml").write_text(BROKEN)
    assert mbpack("doctor", "a.yaml", "--fix", "--unsafe-fixes", "-q") == (0, "", "")
    assert (folder / "a.yaml").read_text() != BROKEN


def test_quiet_migration_says_what_is_to_be_decided(mbpack: Call, folder: Path) -> None:
    (folder / "a.yaml").write_text("# mbpack: bridge=0.5\nmodel: {seq_length: 4096}\ndataset: {packed_sequence_specs: {}}\n")
    answer = mbpack("migrate", "a.yaml", "--to", "0.6", "-q")
    assert answer.code == 0
    assert "changed" not in answer.out
    assert "next:" not in answer.out


# ---------------------------------------------------------------------- differences in colour


def test_differences_are_coloured_where_it_is_wanted(folder: Path) -> None:
    (folder / "a.yaml").write_text(BROKEN)
    command = [sys.executable, "-m", "mbpack", "doctor", "a.yaml", "--fix", "--diff"]
    plain = subprocess.run(command, cwd=folder, capture_output=True, check=False).stdout
    painted = subprocess.run([*command, "--color=always"], cwd=folder, capture_output=True, check=False).stdout
    assert b"\x1b[32m+  micro_batch_size: 1\x1b[0m\n" in painted
    assert re.sub(rb"\x1b\[\d+m", b"", painted) == plain
