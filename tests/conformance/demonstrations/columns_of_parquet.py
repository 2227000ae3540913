"""Parquet packs without one of their columns are refused when the dataset is made."""

from upstream import FIELDS, Tokenizer, first, row

RULES = ("DAT111",)
RELEASES = ("0.4", "0.5", "0.6", "0.7")
EXPECTED = ("ValueError",)


def trial(good: bool) -> str | None:
    import tempfile

    import pyarrow
    import pyarrow.parquet

    module = first("megatron.bridge.data.packing.parquet", "megatron.bridge.data.datasets.packed_parquet")
    held = row([9, 9])
    if not good:
        del held["loss_mask"]
    with tempfile.NamedTemporaryFile(suffix=".idx.parquet") as file:
        pyarrow.parquet.write_table(pyarrow.table({name: [value] for name, value in held.items()}), file.name)
        module.GPTSFTPackedParquetDataset(file.name, Tokenizer(), max_seq_length=32, **FIELDS)
    return None
