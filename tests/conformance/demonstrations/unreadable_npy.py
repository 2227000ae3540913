"""A .npy pack that cannot be read ends the process."""

from upstream import FIELDS, Tokenizer, first, row

RULES = ("DAT136",)
RELEASES = ("0.3", "0.4", "0.5", "0.6", "0.7")
EXPECTED = ("SystemExit",)


def trial(good: bool) -> str | None:
    import builtins
    import sys
    import tempfile
    from pathlib import Path

    import numpy

    module = first("megatron.bridge.data.packing.gpt_sft", "megatron.bridge.data.datasets.sft")
    builtins.exit = sys.exit  # what an interactive interpreter has
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "packs.npy")
        numpy.save(path, [row([9, 9])], allow_pickle=True)
        if not good:
            path.write_bytes(path.read_bytes()[:140])
        module.GPTSFTPackedDataset(str(path), Tokenizer(), max_seq_length=32, **FIELDS)
    return None
