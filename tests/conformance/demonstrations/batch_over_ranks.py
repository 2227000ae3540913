"""The microbatch calculator asserts that the global batch divides."""

from upstream import first

RULES = ("GBS101",)
RELEASES = ("0.3", "0.4", "0.5", "0.6", "0.7")
EXPECTED = ("AssertionError",)


def trial(good: bool) -> str | None:
    module = first("megatron.core.num_microbatches_calculator")
    module.ConstantNumMicroBatchesCalculator(12 if good else 10, 1, 4, False, 0)
    return None
