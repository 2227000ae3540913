"""Padding is written with one end token and recognised by another: where they differ it counts as text."""

from upstream import EOS, FIELDS, Tokenizer, first, row

RULES = ("DAT134",)
RELEASES = ("0.3", "0.4", "0.5", "0.6", "0.7")


def trial(good: bool) -> str | None:
    module = first("megatron.bridge.data.packing.gpt_sft", "megatron.bridge.data.datasets.sft")
    held = row([10, 9], 8)  # padded to 16 with the token that ends a document
    if not good:
        held["input_ids"] = [3 if token == EOS else token for token in held["input_ids"]]

    class Rows(module.GPTSFTPackedDataset):  # type: ignore[misc, name-defined]
        def _load_dataset(self) -> None:
            self.indexed_dataset = [held]

    data = Rows("rows.npy", Tokenizer(), max_seq_length=32, pad_to_max_length=True, pad_seq_to_mult=8, **FIELDS)
    batch = data.collate_fn([data[0]])
    key = "cu_seqlens_unpadded" if "cu_seqlens_unpadded" in batch else "cu_seqlens_q"
    first_end = int(batch[key].flatten()[1])
    return None if first_end == 10 else f"a sample of 10 tokens counts as {first_end}"
