"""The breakdown of `mbpack fit` on a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.progress_bar import ProgressBar
from rich.table import Table

from mbpack.engine.fitting import Fitted
from mbpack.report.fit import breakdown, gib

_BAR = 24


def show(found: Fitted, width: int) -> None:
    """Print the rows of the peak as a table with bars."""
    table = Table(box=None, pad_edge=True, header_style="dim")
    table.add_column("at the peak", no_wrap=True, overflow="ellipsis", max_width=max(24, width - _BAR - 24))
    table.add_column("GiB", justify="right")
    table.add_column("", width=_BAR)
    table.add_column("", style="dim")
    for piece in breakdown(found):
        bar = ProgressBar(total=1, completed=piece.share, width=_BAR)
        table.add_row(piece.title, gib(piece.size), bar, "unverified" if piece.unverified else "")
    Console(width=width, force_terminal=True).print(table)
