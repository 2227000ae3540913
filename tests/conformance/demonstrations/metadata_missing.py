"""Static boundaries without the metadata file."""

from upstream import packed_dataset, row

RULES = ("DAT103",)
RELEASES = ("0.3", "0.4", "0.5", "0.6", "0.7")
EXPECTED = ("FileNotFoundError",)


def trial(good: bool) -> str | None:
    import tempfile

    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        file.write("[]")
        file.flush()
        path = file.name if good else file.name + ".gone"
        packed_dataset([row([9])], 32, pad_to_max_length=True, pad_cu_seqlens=True, pack_metadata_file_path=path)
    return None
