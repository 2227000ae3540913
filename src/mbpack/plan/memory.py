"""Whether a pack length fits the GPU, as a plan shows it; worked out by whoever knows the recipe and the GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fit:
    """One pack length: GiB on the device (least, likely, most), the verdict in words, and whether it surely fits."""

    low: float
    likely: float
    high: float
    verdict: str
    fits: bool


@dataclass(frozen=True, slots=True)
class Memory:
    """All pack lengths of a plan on one kind of GPU. ``longest``: the longest row in tokens that surely fits, 0 for none."""

    recipe: str
    gpu: str
    gpus: int
    usable: float
    by_pack: Mapping[int, Fit]
    longest: int

    def cell(self, pack: int) -> str:
        """What the table says of a pack length."""
        found = self.by_pack[pack]
        return f"{found.verdict} ({found.likely:.0f} GiB)" if found.fits else f"! {found.verdict} ({found.likely:.0f} GiB)"

    def hint(self) -> str:
        """What follows for the choice of a pack length."""
        where = f"{self.gpus} x {self.gpu} ({self.usable:.0f} GiB), {self.recipe} with this topology and its own recompute"
        if not self.longest:
            return f"no row fits for certain on {where}: see `mbpack fit`"
        return f"the longest row that fits for certain on {where}: {self.longest:,} tokens"
