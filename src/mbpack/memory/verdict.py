"""From an estimate to a range and a verdict of four values.

The range goes from the least that PyTorch may allocate to the most that the run may take on the device. Nine of ten
recorded peaks lie inside it (tests/memory/test_recordings.py counts them). What makes it wide is named.

Source of the widths: recorded peaks and reserved sizes of NVIDIA's functional tests and published runs; what is outside
the allocator (context, communication buffers of each process group) is an assumption.
"""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from mbpack.facts.gpus import Gpu
from mbpack.memory.estimate import GIB, Stage, stages, worst
from mbpack.memory.setup import Setup

#: The share of recorded runs whose peak the range holds, in percent.
RATE = 90
#: Tokens of the busiest rank of an expert group over the mean, with learned routing: usual and at worst.
USUAL_IMBALANCE, WORST_IMBALANCE = 1.1, 1.6
#: Reserved over allocated with expandable segments: usual and at worst.
_RESERVED = (1.04, 1.10)
#: GiB outside the allocator: the process, and each process group, usual and at worst.
_PROCESS, _GROUP = (1.6, 2.6), (0.25, 0.6)
#: GiB that pools of CUDA graphs add at worst, and the share of the peak they do not exceed.
_GRAPHS, _GRAPHS_SHARE = 8.0, 0.15


class Verdict(Enum):
    """Whether a run fits on its GPUs."""

    FITS = "fits"
    LIKELY = "likely fits"
    UNLIKELY = "likely does not fit"
    NOT = "does not fit"
    OPEN = "not judged"


class Estimate(Struct, frozen=True):
    """The estimate of a run. Sizes are bytes; `allocated` is that of the worst stage with balanced routing.

    `low`, `likely`, `high`: bytes on the device, from the least allocated to the most taken. `first_step`: allocated at the
    peak of the first step, before Adam makes its moments. `reasons`: why the range is as wide as it is.
    """

    setup: Setup
    stage: Stage
    allocated: float
    low: float
    likely: float
    high: float
    first_step: float
    verdict: Verdict
    gpu: Gpu | None
    reasons: tuple[str, ...]

    @property
    def fits(self) -> bool:
        """Whether even the high end fits."""
        return self.verdict is Verdict.FITS


def natural_routing(setup: Setup) -> bool:
    """Whether a rank's experts may get more tokens than the mean."""
    return bool(setup.shape.num_moe_experts) and setup.ep > 1 and not setup.forced_balance


def process_groups(setup: Setup) -> int:
    """Communicators of more than one rank."""
    return sum(size > 1 for size in (setup.tp, setup.pp, setup.cp, setup.ep, setup.dp))


def judge(setup: Setup, gpu: Gpu | None = None, unsure: tuple[str, ...] = (), index: int | None = None) -> Estimate:
    """The estimate of a set-up, with a verdict where the GPU is known.

    `index`: of that pipeline stage alone, as a training log reports its last rank; None: of the one that needs most.
    """
    generation = gpu.generation if gpu is not None else "sm90"

    def peak(imbalance: float) -> Stage:
        found = stages(setup, imbalance, generation)
        return found[index] if index is not None else max(found, key=lambda one: one.peak)

    stage = peak(1.0)
    natural, groups = natural_routing(setup), process_groups(setup)
    usual = peak(USUAL_IMBALANCE).peak if natural else stage.peak
    most = peak(WORST_IMBALANCE).peak if natural else stage.peak
    low = lower_end(setup, stage.peak, unsure)
    likely = usual * _RESERVED[0] + (_PROCESS[0] + groups * _GROUP[0]) * GIB
    high = _high(setup, most, stage.peak)
    first = stage.peak - stage.first_step if stage.when != "step" else stage.peak
    return Estimate(setup, stage, stage.peak, low, likely, high, first, _verdict(low, likely, high, gpu), gpu, unsure)


def high_end(setup: Setup, gpu: Gpu) -> float:
    """The high end of the range alone, in bytes."""
    peak = worst(setup, 1.0, gpu.generation).peak
    most = worst(setup, WORST_IMBALANCE, gpu.generation).peak if natural_routing(setup) else peak
    return _high(setup, most, peak)


def _high(setup: Setup, most: float, peak: float) -> float:
    outside = (_PROCESS[1] + process_groups(setup) * _GROUP[1]) * GIB
    return most * _RESERVED[1] + outside + _upper_extra(setup, peak)


def lower_end(setup: Setup, peak: float, unsure: tuple[str, ...] = ()) -> float:
    """The least that may be allocated."""
    share = 0.05
    if setup.shape.num_moe_experts:
        share += 0.03 if setup.forced_balance else 0.07
    if setup.shape.hybrid_layer_pattern or setup.shape.linear_attention_freq:
        share += 0.05
    if setup.fp8:
        share += 0.12
    if setup.graphs or setup.expert_overlap:
        share += 0.05
    if setup.lora is not None:
        share += 0.03
    if any("assumed" in reason for reason in unsure):
        share += 0.05
    return max(0.0, peak * (1 - share) - 0.05 * GIB)


def _upper_extra(setup: Setup, peak: float) -> float:
    extra = 0.0
    if setup.graphs:
        extra += min(_GRAPHS * GIB, _GRAPHS_SHARE * peak)
    if setup.fp8:
        extra += 0.1 * peak
    if setup.fsdp:
        extra += 0.1 * peak
    if setup.shape.encoder is not None:
        extra += _encoder(setup)
    return extra


#: Parameters of an encoder whose number is not on record.
_USUAL_ENCODER = 600_000_000


def _encoder(setup: Setup) -> float:
    """States of an encoder beside the text model, which tensor and pipeline parallelism may leave whole."""
    each = 2.0 if setup.lora is not None else 2 + setup.grad_bytes + 12 / setup.dense_shards
    return (setup.shape.encoder or _USUAL_ENCODER) * each


def _verdict(low: float, likely: float, high: float, gpu: Gpu | None) -> Verdict:
    if gpu is None:
        return Verdict.OPEN
    room = gpu.usable * GIB
    if high <= room:
        return Verdict.FITS
    if low > room:
        return Verdict.NOT
    return Verdict.LIKELY if likely <= room else Verdict.UNLIKELY
