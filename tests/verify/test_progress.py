"""What a run shows while it goes on."""

from __future__ import annotations

import io
import sys

import pytest

from mbpack.facts.upstream_tests import commands
from mbpack.verify.progress import Progress


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def _show() -> None:
    first, second, *_ = commands("0.6")
    with Progress(2) as progress:
        progress.begin(first, 19)
        progress.advance(7)
        progress.begin(second, None)
        progress.advance(1)


def test_a_line_for_each_selection_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    _show()
    captured = capsys.readouterr()
    assert captured.out == ""
    assert [line.partition(":")[0] for line in captured.err.splitlines()] == [
        "[1/2] test_packed_seq_utils.py",
        "[2/2] test_config.py",
    ]


def test_bars_at_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    _show()
    assert "2/2 test_config.py" in terminal.getvalue()
    assert capsys.readouterr().out == ""
