"""A sample longer than the pack stops packing."""

from upstream import first

RULES = ("SEQ102",)
RELEASES = ("0.3", "0.4", "0.5", "0.6", "0.7")
EXPECTED = ("KeyError", "IndexError")


def trial(good: bool) -> str | None:
    module = first("megatron.bridge.data.packing.algorithms", "megatron.bridge.data.datasets.packing_utils")
    length = 30 if good else 50
    data = [{"input_ids": [5] * (length + 1), "answer_start_idx": 1}]
    sequences, histogram = module.create_hist(data, 64)
    assignments, *_ = module.create_packing_strategy(histogram, 40, "first_fit_shuffle")
    module.fill_packing_strategy(assignments, sequences, 40, 0)
    return None
