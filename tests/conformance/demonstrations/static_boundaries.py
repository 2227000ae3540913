"""A row with more samples than the metadata say does not fit the buffers of a captured iteration."""

from upstream import first, packed_dataset, row

RULES = ("GRA116",)
RELEASES = ("0.3", "0.4", "0.5", "0.6", "0.7")
EXPECTED = ("RuntimeError",)


def trial(good: bool) -> str | None:
    import json
    import tempfile

    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        json.dump([{"max_samples_per_bin": 20 if good else 4, "dataset_max_seqlen": 60, "min_packed_seqlen": 100}], file)
        file.flush()
        data = packed_dataset(
            [row([30] * 3), row([8] * 12)], 128, pad_to_max_length=True, pad_cu_seqlens=True, pack_metadata_file_path=file.name
        )
    shapes = [data.collate_fn([data[number]]) for number in (0, 1)]
    key = "cu_seqlens" if "cu_seqlens" in shapes[0] else "cu_seqlens_q"
    return _replayed(shapes[0][key], shapes[1][key])


def _replayed(captured, now) -> str | None:
    """The copy into static buffers, as the release's full-iteration graph makes it."""
    module = first("megatron.core.full_cuda_graph")
    held = module.copy_tensors_in_struct({"boundaries": captured})
    module.clone_tensors_in_struct(held, {"boundaries": now})
    return None
