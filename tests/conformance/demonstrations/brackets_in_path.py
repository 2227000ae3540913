"""Before 0.7 brackets alone make no pattern, and a path with them finds no file."""

from upstream import first

RULES = ("DAT110",)
RELEASES = ("0.4", "0.5", "0.6")
EXPECTED = ("ValueError",)


def trial(good: bool) -> str | None:
    import tempfile
    from pathlib import Path

    module = first("megatron.bridge.data.packing.paths", "megatron.bridge.data.datasets.packed_parquet")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "train_0.idx.parquet").touch()
        module.resolve_packed_parquet_paths(f"{folder}/train_[0-9]{'*' if good else ''}.idx.parquet")
    return None
