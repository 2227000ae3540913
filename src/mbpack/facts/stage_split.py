"""How layers are counted out to pipeline stages when a configuration names the counts of some stages or counts more than layers.

Source: Megatron-Core `transformer_config.py`, `TransformerConfig.__post_init__` (the same in all releases).
"""

from __future__ import annotations

import enum

#: What has its own place at an end of the pipeline and can be counted as a layer there.
EXTRAS = ("embedding", "loss")


class Fault(enum.Enum):
    """Why the start-up refuses a split, in the order it looks."""

    FIRST_EMPTY = enum.auto()
    FIRST_VIRTUAL = enum.auto()
    LAST_EMPTY = enum.auto()
    LAST_VIRTUAL = enum.auto()
    MISMATCH = enum.auto()
    MIDDLE = enum.auto()
    MIDDLE_VIRTUAL = enum.auto()
    STAGES = enum.auto()
    STAGES_VIRTUAL = enum.auto()


def middle(layers: float, pp: int, first: float | None, last: float | None) -> tuple[float, int]:
    """Layers and stages that are left between the stages with a count of their own."""
    for count in (first, last):
        if count is not None:
            layers, pp = layers - count, pp - 1
    return layers, pp


def uneven(layers: float, pp: int, vpp: int | None, first: float | None, last: float | None) -> Fault | None:
    """What is wrong with counts of layers for the first and the last stage; None when nothing is, or neither is given.

    A virtual pipeline of 0 divides nothing: upstream stops with a division by zero at the same place.
    """
    if first is None and last is None:
        return None
    for count, empty, virtual in ((first, Fault.FIRST_EMPTY, Fault.FIRST_VIRTUAL), (last, Fault.LAST_EMPTY, Fault.LAST_VIRTUAL)):
        if count is not None and count <= 0:
            return empty
        if count is not None and not _divides(vpp, count):
            return virtual
    left, stages = middle(layers, pp, first, last)
    if bool(left) != bool(stages):
        return Fault.MISMATCH
    if not stages:
        return None
    if left % stages:
        return Fault.MIDDLE
    return None if _divides(vpp, left // stages) else Fault.MIDDLE_VIRTUAL


def counted(layers: float, pp: int, vpp: int | None) -> Fault | None:
    """What is wrong with an even split of layers that embedding or loss are already added to."""
    if layers % pp:
        return Fault.STAGES
    return None if _divides(vpp, layers // pp) else Fault.STAGES_VIRTUAL


def _divides(vpp: int | None, layers: float) -> bool:
    return vpp is None or (vpp != 0 and layers % vpp == 0)


def fitting(layers: int, pp: int, vpp: int | None, first: int | None, last: int | None, *, change_first: bool) -> int | None:
    """The nearest count for the first (or last) stage with which the split works out; None where there is none."""
    now = first if change_first else last
    for count in sorted(range(1, layers + 1), key=lambda count: abs(count - (now or 0))):
        ends = (count, last) if change_first else (first, count)
        left, _ = middle(layers, pp, *ends)
        if left >= 0 and uneven(layers, pp, vpp, *ends) is None:
            return count
    return None
