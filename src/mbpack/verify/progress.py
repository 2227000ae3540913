"""What a run shows while it goes on: bars at a terminal, a line per selection elsewhere. Always on stderr."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any

from mbpack.facts.upstream_tests import Selection


class Progress:
    """Shows which selection runs and how many of its tests are done."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._number = 0
        self._bars: Any = None
        self._task: Any = None

    def __enter__(self) -> Progress:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
            from rich.progress import Progress as Bars

            columns = (
                SpinnerColumn(),
                TextColumn("{task.description}"),
                BarColumn(20),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
            )
            self._bars = Bars(*columns, console=Console(stderr=True), transient=True)
            self._bars.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._bars is not None:
            self._bars.stop()

    def begin(self, selection: Selection, tests: int | None) -> None:
        """A selection starts; ``tests`` is how many it should run."""
        self._number += 1
        name = selection.path.rpartition("/")[2]
        if self._bars is None:
            print(f"[{self._number}/{self._total}] {name}: {selection.covers}", file=sys.stderr, flush=True)
            return
        if self._task is not None:
            self._bars.remove_task(self._task)
        self._task = self._bars.add_task(f"{self._number}/{self._total} {name}", total=tests)

    def advance(self, done: int) -> None:
        """So many tests of the selection are done."""
        if self._bars is not None:
            self._bars.update(self._task, completed=done)
