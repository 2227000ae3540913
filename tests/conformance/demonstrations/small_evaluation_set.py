"""An evaluation set below one batch: 0.6 asserts, before it no batch ever comes."""

from upstream import first

RULES = ("GBS107",)
RELEASES = ("0.3", "0.4", "0.5", "0.6")
EXPECTED = ("AssertionError",)


def trial(good: bool) -> str | None:
    cls = first("megatron.bridge.data.samplers").MegatronPretrainingBatchSampler
    sampler = cls(
        total_samples=40 if good else 3,
        consumed_samples=0,
        micro_batch_size=1,
        global_batch_size=32,
        data_parallel_rank=0,
        data_parallel_size=4,
        drop_last=True,
    )
    return None if list(sampler) else "not one batch, and the loop over the loader starts over without end"
