"""0.4 does not hand the padding multiple to the dataset of parquet packs."""

import contextlib
from unittest import mock

from upstream import Tokenizer, first

RULES = ("DAT114",)
RELEASES = ("0.4", "0.5.0")


def trial(good: bool) -> str | None:
    module = first("megatron.bridge.data.datasets.sft")
    parquet = first("megatron.bridge.data.datasets.packed_parquet")
    path = "rows.npy" if good else "rows.idx.parquet"
    with contextlib.ExitStack() as stack:
        for cls in (module.GPTSFTPackedDataset, parquet.GPTSFTPackedParquetDataset):
            stack.enter_context(mock.patch.object(cls, "_load_dataset", lambda self: setattr(self, "indexed_dataset", [])))
        data = module.create_sft_dataset(path=path, tokenizer=Tokenizer(), pad_seq_to_mult=4)
    return None if data._pad_seq_to_mult == 4 else f"the dataset works with {data._pad_seq_to_mult}"
