"""Metadata that are one object instead of a list stop the first row that is collated."""

from upstream import packed_dataset, row

RULES = ("DAT104",)
RELEASES = ("0.3", "0.4", "0.5", "0.6", "0.7")
EXPECTED = ("TypeError",)


def trial(good: bool) -> str | None:
    import json
    import tempfile

    numbers = {"max_samples_per_bin": 4, "dataset_max_seqlen": 20, "min_packed_seqlen": 20}
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        json.dump([numbers] if good else numbers, file)
        file.flush()
        data = packed_dataset([row([9, 11])], 32, pad_to_max_length=True, pad_cu_seqlens=True, pack_metadata_file_path=file.name)
    data.collate_fn([data[0]])
    return None
