"""0.4 does not hand the padding multiple to the dataset of parquet packs."""

from upstream import Tokenizer, first

RULES = ("DAT114",)
RELEASES = ("0.4", "0.5.0")


def trial(good: bool) -> str | None:
    module = first("megatron.bridge.data.datasets.sft")
    parquet = first("megatron.bridge.data.datasets.packed_parquet")
    for cls in (module.GPTSFTPackedDataset, parquet.GPTSFTPackedParquetDataset):
        cls._load_dataset = lambda self: setattr(self, "indexed_dataset", [])
    path = "rows.npy" if good else "rows.idx.parquet"
    data = module.create_sft_dataset(path=path, tokenizer=Tokenizer(), pad_seq_to_mult=4)
    return None if data._pad_seq_to_mult == 4 else f"the dataset works with {data._pad_seq_to_mult}"
