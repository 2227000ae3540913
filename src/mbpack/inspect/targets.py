"""What a path on the command line stands for: packs of one size, with the metadata file beside them."""

from __future__ import annotations

import glob
import os

from msgspec import Struct, field

from mbpack.facts.artifacts import NPY_SUFFIX, PARQUET_SUFFIXES, metadata_file, read_location

_METADATA = (".json", ".jsonl")


class TargetError(ValueError):
    """A path that cannot be looked at; the message is one line."""


class Target(Struct, frozen=True):
    """Packs that belong together: a path per split, the metadata file, and what the names say about them."""

    label: str
    paths: dict[str, str] = field(default_factory=dict)
    metadata: str | None = None
    size: int | None = None
    multiple: int | None = None
    fingerprint: str | None = None


def find_targets(path: str) -> list[Target]:
    """The packs behind a file, a directory or a pattern: one target for each pack size.

    Raises:
        TargetError: nothing is there, or nothing that could be packed data.
    """
    if os.path.isdir(path):
        return _directory(path)
    pattern = any(sign in path for sign in "*?[") and not os.path.exists(path)
    if pattern and not glob.glob(path):
        raise TargetError(f"{path}: no file matches")
    if not pattern and not os.path.isfile(path):
        raise TargetError(f"{path}: no such file or directory")
    suffixes = (*PARQUET_SUFFIXES, NPY_SUFFIX)
    if not pattern and path.lower().endswith(_METADATA):
        return [Target(path, metadata=path)]
    if not path.lower().endswith(suffixes) and not pattern:
        raise TargetError(f"{path}: packed data end in {', '.join(suffixes)}; metadata in {' or '.join(_METADATA)}")
    return [_one(path, path)]


def _one(label: str, path: str) -> Target:
    location = read_location(os.path.abspath(path))
    metadata = None
    if location.size is not None:
        beside = os.path.join(os.path.dirname(path), metadata_file(location.size))
        metadata = beside if os.path.isfile(beside) else None
    paths = {location.split or "training": path}
    return Target(label, paths, metadata, location.size, location.multiple, location.fingerprint)


def _directory(path: str) -> list[Target]:
    """The builder's directory, sorted by pack size; any other directory is one data set of parquet files."""
    try:
        names = sorted(entry.name for entry in os.scandir(path))
    except OSError as error:
        raise TargetError(f"{path}: {error.strerror or error}") from None
    found: dict[int, dict[str, str]] = {}
    for name in names:
        location = read_location(name)
        if location.size is not None and location.split is not None:
            found.setdefault(location.size, {})[location.split] = os.path.join(path, name)
    if found:
        return [_sized(path, size, found[size]) for size in sorted(found)]
    if not any(name.lower().endswith(PARQUET_SUFFIXES) for name in names):
        raise TargetError(f"{path}: no packed data in this directory (*.parquet, *.pq, training_<size>.npy)")
    return [_one(path, path)]


def _sized(path: str, size: int, paths: dict[str, str]) -> Target:
    location = read_location(os.path.join(os.path.abspath(path), "x"))
    beside = os.path.join(path, metadata_file(size))
    metadata = beside if os.path.isfile(beside) else None
    return Target(f"{path} ({size})", paths, metadata, size, location.multiple, location.fingerprint)
