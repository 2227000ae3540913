"""Up to 0.5 the dataset refuses static boundaries over rows of varying width."""

from upstream import packed_dataset, row

RULES = ("DAT102",)
RELEASES = ("0.3", "0.4", "0.5", "0.7")
EXPECTED = ("AssertionError",)


def trial(good: bool) -> str | None:
    import tempfile

    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        file.write("[]")
        file.flush()
        packed_dataset([row([9])], 32, pad_to_max_length=good, pad_cu_seqlens=True, pack_metadata_file_path=file.name)
    return None
