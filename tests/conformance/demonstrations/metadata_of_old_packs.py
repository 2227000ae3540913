"""Metadata of packs made before stay in the file, and every row carries as many boundaries as those had."""

from upstream import collated, packed_into

RULES = ("DAT105",)
RELEASES = ("0.3", "0.4", "0.5", "0.6", "0.7")


def trial(good: bool) -> str | None:
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "metadata.jsonl"
        if not good:
            packed_into(folder, [3] * 20, 64, path)
        packed_into(folder, [20, 30], 64, path)
        batch = collated([[20, 30]], 64, pad_to_max_length=True, pad_cu_seqlens=True, pack_metadata_file_path=str(path))
    key = "cu_seqlens" if "cu_seqlens" in batch else "cu_seqlens_q"
    places = int(batch[key].shape[-1])
    return f"{places} boundaries for two samples" if places > 8 else None
