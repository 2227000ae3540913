"""Packed data on disk: where each release keeps it, what it is called, what is inside, and a few reported limits.

Source: ``data/builders/gpt_sft.py``, ``data/packing/`` (0.6, 0.7); ``data/builders/finetuning_dataset.py``,
``data/datasets/`` (0.3 to 0.5).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from mbpack.facts.patterns import lazy
from mbpack.facts.releases import R03, R06, R07, Release

#: Columns every parquet pack must have.
COLUMNS = ("input_ids", "loss_mask", "seq_start_id")
#: Entries of one metadata object. The file holds one JSON list of such objects, whatever its name says.
METADATA_KEYS = (
    "dataset_max_seqlen",
    "max_samples_per_bin",
    "packing_factor",
    "packing_efficiency",
    "pack_size",
    "min_packed_seqlen",
)
#: Names under which other tools add the number of packed rows to a metadata object.
ROW_COUNT_KEYS = ("rows", "num_rows", "packed_rows", "num_packs")

SPLITS = ("training", "validation")
PARQUET_SUFFIXES, NPY_SUFFIX = (".parquet", ".pq"), ".npy"

#: Share of a pack's tokens that carry loss from which on a mask cannot be one of answers only (reported limit).
FULL_MASK = 0.99
#: Rows a second that one node tokenises and packs (reported: 1.4 million in about 25 minutes), and seconds the other
#: ranks wait in a collective before they give up (the default of sub-groups).
PACKED_ROWS_PER_SECOND, COLLECTIVE_TIMEOUT = 930, 600
#: Host memory while packing, in bytes a token: a reference and an integer object in Python lists; and a size in bytes
#: that a node is not sure to have.
PACKING_BYTES_PER_TOKEN, LARGE_HOST_MEMORY = 36, 200 * 10**9
#: Environment variables that move the cache in which Bridge keeps data it downloads (below the home directory).
CACHE_VARIABLES = ("NEMO_DATASETS_CACHE", "NEMO_HOME")

_MULTIPLE = lazy(r"pad_seq_to_mult(\d{1,9}|None)(?:_sft_([0-9a-f]{12}))?(?![0-9a-f])")
_STEM = lazy(r"(training|validation)_(\d{1,9})(?:\.idx)?\.(?:parquet|pq|npy)$", re.IGNORECASE)


class Location(NamedTuple):
    """What a path says about packed data by its names; None where it says nothing."""

    multiple: int | None = None
    size: int | None = None
    split: str | None = None
    fingerprint: str | None = None


def read_location(path: str) -> Location:
    """Read the pad multiple from a directory name, the split and pack size from a file name."""
    folder, _, name = path.replace("\\", "/").rpartition("/")
    directory = None
    for part in folder.split("/"):
        directory = _MULTIPLE.search(part) or directory
    stem = _STEM.search(name)
    return Location(
        int(directory[1]) if directory and directory[1] != "None" else None,
        int(stem[2]) if stem else None,
        stem[1].lower() if stem else None,
        directory[2] if directory else None,
    )


def pack_directory(release: Release, tokenizer: str, multiple: int | None, fingerprint: str | None = None) -> str:
    """Name of the builder's own directory below ``<dataset root>/packed``."""
    name = f"{tokenizer}_pad_seq_to_mult{multiple}"
    return f"{name}_sft_{fingerprint}" if release >= R06 else name


def pack_file(release: Release, split: str, size: int) -> str:
    """Name of one split's pack in the builder's directory."""
    return f"{split}_{size}.npy" if release <= R03 else f"{split}_{size}.idx.parquet"


def metadata_file(size: int) -> str:
    """Name of the metadata file in the builder's directory."""
    return f"{size}_metadata.jsonl"


def tokenizer_directory(path: str) -> str:
    """How a Hugging Face tokenizer's path becomes part of a directory name."""
    parts = path.split("/")
    if path.endswith("context/nemo_tokenizer"):
        return "--".join(parts[-4:-2])
    if path.endswith("nemo_tokenizer"):
        return "--".join(parts[-3:-1])
    return "--".join(parts)


def glob_characters(release: Release) -> str:
    """The characters that make a packed path a pattern in a release."""
    return "*?[" if release >= R07 else "*?"


def fingerprint(identity: Mapping[str, Any]) -> str:
    """The 12 hex digits that the builder's directory name carries from 0.6 on.

    Source: ``_packing_fingerprint`` in ``data/builders/gpt_sft.py`` (0.6, 0.7).
    """
    import json  # an identity is rare: most packs are named or not there

    text = json.dumps(identity, sort_keys=True, separators=(",", ":"), default=str)
    import hashlib  # loads OpenSSL

    return hashlib.sha256(text.encode()).hexdigest()[:12]


def steps_per_epoch(rows: int, gbs: int, keeps_last: bool) -> int:
    """Optimizer steps of one pass over the packed rows; the incomplete batch counts when the sampler keeps it."""
    return -(-rows // gbs) if keeps_last else rows // gbs


def packed_batches(gbs: int, packing_factor: float, dp: int) -> list[int]:
    """Global batches in packs, multiples of the data parallel size, that hold about ``gbs`` samples."""
    below = int(gbs / packing_factor) // dp * dp
    return sorted({max(below, dp), max(below + dp, dp)} if gbs % dp or below * packing_factor != gbs else {below})
