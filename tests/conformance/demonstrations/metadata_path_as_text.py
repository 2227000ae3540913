"""The path of the metadata as text, as it comes out of a file, has no method of a path."""

from upstream import packed_into

RULES = ("DAT106",)
RELEASES = ("0.3", "0.4", "0.5", "0.6", "0.7")
EXPECTED = ("AttributeError",)


def trial(good: bool) -> str | None:
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "metadata.jsonl"
        packed_into(folder, [20, 9], 32, path if good else str(path))
    return None
