"""Which attention backends Transformer Engine offers for an input: its own selection, asked once and kept as a table.

`data/attention-backends.tsv` is written by `tools/attention_backends.py`, which runs `get_attention_backend` of each
version. A row of digits has one place for every version, GPU generation and cuDNN; behind it stand the inputs that
give these answers, as ranges of numbers. An input's number counts through the axes, the last one fastest.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Final, NamedTuple

from mbpack.facts.releases import NIGHTLY, R03, R04, R05, R06, R07, Release
from mbpack.facts.schema import read_data

FLASH, FUSED, UNFUSED = 1, 2, 4
ANY = FLASH | FUSED | UNFUSED

#: The version of the table that a release pins. Nightly is asked as the newest one.
PINNED: Final = {R03: "2.12.0", R04: "2.14.1", R05: "2.16.0", R06: "2.17.1", R07: "2.18.0", NIGHTLY: "2.18.0"}
#: GPU generations of the table, and what people call them.
GENERATIONS: Final = {80: "Ampere", 90: "Hopper", 100: "Blackwell", 120: "RTX Blackwell"}


class Input(NamedTuple):
    """What the selection looks at, in the words of the table.

    ``rows``: sbhd (one sample a row), thd (packed), thd+padding (packed, with padding between samples). ``comm``: none
    without context parallelism, else its communication. ``width``, ``values``: elements of a head of the queries and of
    the values. ``fp8``: none, or the recipe of FP8 attention.
    """

    rows: str
    comm: str = "none"
    width: int = 128
    values: int = 128
    softmax: str = "vanilla"
    window: bool = False
    fp8: str = "none"


class Place(NamedTuple):
    """A GPU generation (80, 90, 100, 120) with a cuDNN (91801 is 9.18.1)."""

    generation: int
    cudnn: int


@lru_cache(maxsize=4096)
def available(release: Release, asked: Input) -> Mapping[Place, int]:
    """The backends that are left on each GPU generation and cuDNN, as a sum of FLASH, FUSED and UNFUSED."""
    table = _table()
    digits = table.answers[table.number(asked)]
    places = [Place(int(gpu), int(cudnn)) for gpu in table.axes["gpu"] for cudnn in table.axes["cudnn"]]
    start = table.axes["version"].index(PINNED[release]) * len(places)
    return {place: int(digit) for place, digit in zip(places, digits[start : start + len(places)], strict=True)}


class _Table(NamedTuple):
    axes: dict[str, list[str]]
    answers: dict[int, str]

    def number(self, asked: Input) -> int:
        places = (
            ("rows", asked.rows),
            ("comm", asked.comm),
            ("heads", self._heads(asked)),
            ("softmax", "vanilla" if asked.softmax == "vanilla" else "learnable"),
            ("window", "window" if asked.window else "full"),
            ("fp8", asked.fp8),
        )
        number = 0
        for axis, value in places:
            number = number * len(self.axes[axis]) + self.axes[axis].index(value)
        return number

    def _heads(self, asked: Input) -> str:
        if asked.width != asked.values:
            return "192x128"
        return next(name for name in self.axes["heads"] if name == _square(asked.width))


def known_heads(width: int, values: int) -> bool:
    """Whether the table has an answer for heads: equal widths in steps of 8, or those of unpadded latent attention."""
    if width != values:
        return 128 < width <= 192 and values == 128 and width % 8 == 0
    return 0 < width <= 512 and width % 8 == 0


def _square(width: int) -> str:
    """The narrowest of the table's heads that a width fits into."""
    held = next(size for size in (128, 192, 256, 512) if width <= size)
    return f"{held}x{held}"


@cache
def _table() -> _Table:
    axes: dict[str, list[str]] = {}
    answers: dict[int, str] = {}
    for line in read_data("attention-backends.tsv").decode().splitlines():
        if line.startswith("#"):
            continue
        head, *rest = line.split("\t")
        if head.startswith("."):
            axes[head[1:]] = rest
            continue
        for part in rest[0].split(","):
            first, _, last = part.partition("-")
            answers.update(dict.fromkeys(range(int(first), int(last or first) + 1), head))
    return _Table(axes, answers)
