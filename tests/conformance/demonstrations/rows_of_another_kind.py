"""The sampler skips as many rows as the checkpoint counts, whatever rows those were."""

from upstream import first

RULES = ("SCH108",)
RELEASES = ("0.3", "0.4", "0.5", "0.6", "0.7")


def trial(good: bool) -> str | None:
    import inspect

    cls = first("megatron.bridge.data.samplers").MegatronPretrainingBatchSampler
    samples, a_pack, steps, batch = 4000, 5, 10, 8
    rows = samples // a_pack
    given = {
        "total_samples": rows,
        "consumed_samples": steps * batch // (a_pack if good else 1),  # single rows before, packs now
        "micro_batch_size": 1,
        "global_batch_size": batch,
        "data_parallel_rank": 0,
        "data_parallel_size": 1,
        "drop_last": True,
        "shuffle": False,
    }
    asked = inspect.signature(cls.__init__).parameters
    sampler = cls(**{name: value for name, value in given.items() if name in asked})
    first_pack = next(iter(next(iter(sampler), [rows])))
    left_out = first_pack * a_pack - steps * batch
    return f"{left_out} samples that were never seen are skipped" if left_out else None
