"""In 0.7 the fill of a sample, up to its multiple, carries loss where the sample has no mask of its own."""

from upstream import EOS, first, packed_dataset, tokenized

RULES = ("DAT129",)
RELEASES = ("0.7",)


def trial(good: bool) -> str | None:
    algorithms = first("megatron.bridge.data.packing.algorithms")
    samples = [dict(sample) for sample in tokenized([21, 10], 64, 8)]
    for sample in samples:
        if good:
            sample["loss_mask"] = [int(token != EOS) for token in sample["input_ids"]]  # as explicit preprocessing gives it
        else:
            del sample["loss_mask"]
    sequences, histogram = algorithms.create_hist(samples, 64)
    plan, *_ = algorithms.create_packing_strategy(histogram, 64, "first_fit_shuffle")
    packs = algorithms.fill_packing_strategy(plan, sequences, 64, EOS)
    data = packed_dataset(list(packs), 64, pad_to_max_length=True, pad_seq_to_mult=8)
    batch = data.collate_fn([data[0]])
    wrong = int(((batch["labels"] == EOS) & (batch["loss_mask"] > 0) & (batch["tokens"] == EOS)).sum())
    return f"{wrong} tokens of padding carry loss" if wrong else None
