"""A real terminal for tests: a pseudo-terminal (pexpect) whose output an emulator (pyte) draws."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any

import pexpect
import pyte

ENTER, ESC, DOWN, CTRL_C, CTRL_D = "\r", "\x1b", "\x1b[B", "\x03", "\x04"


class Terminal:
    """``mbpack`` in a terminal of the given size."""

    def __init__(self, *arguments: str, cwd: str, columns: int = 80, rows: int = 24, env: dict[str, str] | None = None) -> None:
        self.screen = pyte.HistoryScreen(columns, rows, history=2000, ratio=1)
        self.stream = pyte.Stream(self.screen)
        self.state = tempfile.TemporaryDirectory()  # nothing of one session is offered to the next, unless a test says where
        own = {"XDG_STATE_HOME": self.state.name, "TERM": "xterm", "COLUMNS": str(columns), "LINES": str(rows)}
        environ = {**os.environ, **own, **(env or {})}
        self.process = pexpect.spawn(
            sys.executable,
            ["-m", "mbpack", *arguments],
            cwd=cwd,
            dimensions=(rows, columns),
            env=environ,
            encoding="utf-8",
            timeout=20,
        )
        self.process.delaybeforesend = None
        self.raw = ""

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.process.close(force=True)
        self.state.cleanup()

    def pump(self) -> bool:
        """Take what the program wrote; False at its end."""
        try:
            chunk = self.process.read_nonblocking(65536, timeout=0.05)
        except pexpect.TIMEOUT:
            return True
        except pexpect.EOF:
            return False
        self.raw += chunk
        self.stream.feed(chunk)
        self._answer_cursor_queries(chunk)
        return True

    def _answer_cursor_queries(self, chunk: str) -> None:
        """prompt_toolkit asks where the cursor is; a terminal answers."""
        for _ in range(chunk.count("\x1b[6n")):
            self.process.send(f"\x1b[{self.screen.cursor.y + 1};{self.screen.cursor.x + 1}R")

    def wait_for(self, text: str, seconds: float = 60) -> None:
        """Read until a text is on the screen."""
        deadline, seen, alive = time.monotonic() + seconds, -1, True
        while True:
            if len(self.raw) != seen:
                seen = len(self.raw)
                if text in self.visible():
                    return
            if not alive or time.monotonic() > deadline:
                raise AssertionError(f"{text!r} never came up; the screen shows:\n{self.visible()}")
            alive = self.pump()

    def send(self, text: str) -> None:
        """Type."""
        self.process.send(text)

    def reply(self, prompt: str, text: str) -> None:
        """Wait for a prompt, type an answer and Enter."""
        self.wait_for(prompt)
        self.send(text + ENTER)

    def visible(self) -> str:
        """The screen as text, without trailing blanks."""
        buffer = self.screen.buffer
        return "\n".join(self._text(buffer.get(row, {})) for row in range(self.screen.lines)).rstrip()

    def _text(self, line: Mapping[int, Any]) -> str:
        """One line of the emulator's buffer; every character here is one column wide."""
        cells = [" "] * self.screen.columns
        for column, cell in line.items():
            cells[column] = cell.data
        return "".join(cells).rstrip()

    def everything(self) -> str:
        """The screen and what scrolled off it."""
        return "\n".join(self._text(line) for line in self.screen.history.top) + "\n" + self.visible()

    def finish(self, seconds: float = 60) -> int:
        """Wait for the end; returns the exit code."""
        deadline = time.monotonic() + seconds
        while self.pump():
            if time.monotonic() > deadline:
                raise AssertionError(f"still running; the screen shows:\n{self.visible()}")
        self.process.close()
        status = self.process.exitstatus
        return status if status is not None else -(self.process.signalstatus or 0)
