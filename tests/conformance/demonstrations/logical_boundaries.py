"""pad_cu_seqlens leaves the logical boundaries of a row as long as its samples are many."""

from upstream import packed_dataset, row

RULES = ("GRA119",)
RELEASES = ("0.3", "0.4", "0.5")


def trial(good: bool) -> str | None:
    import json
    import tempfile

    multiple = 1 if good else 4
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        json.dump([{"max_samples_per_bin": 20, "dataset_max_seqlen": 60, "min_packed_seqlen": 100}], file)
        file.flush()
        more = {
            "pad_to_max_length": True,
            "pad_cu_seqlens": True,
            "pack_metadata_file_path": file.name,
            "pad_seq_to_mult": multiple,
        }
        data = packed_dataset([row([30] * 3, multiple), row([7] * 12, multiple)], 128, **more)
    batches = [data.collate_fn([data[number]]) for number in (0, 1)]
    differ = [key for key in batches[0] if key.startswith("cu_seqlens") and batches[0][key].shape != batches[1][key].shape]
    return f"{differ[0]} has lengths {[batch[differ[0]].shape[1] for batch in batches]}" if differ else None
