"""Evidence for a configuration, or for a path that somebody names."""

from __future__ import annotations

import os
from collections.abc import Callable

from msgspec.structs import replace

from mbpack.config.evidence import NOTHING, Evidence, Metadata, Packs, RawData, RowStatistics, Shard
from mbpack.config.run import Run
from mbpack.config.settings import Unknown, WrongKind
from mbpack.facts.artifacts import NPY_SUFFIX, read_location
from mbpack.facts.classes import DatasetKind
from mbpack.facts.releases import DEFAULT, Release
from mbpack.inspect.first_rows import first_rows
from mbpack.inspect.metadata import read_metadata
from mbpack.inspect.places import (
    dataset_root,
    is_remote,
    metadata_place,
    own_directory,
    places,
    resolve,
)
from mbpack.inspect.resumed import saved_run
from mbpack.inspect.tokenizer import generation_block

#: Bytes of a JSONL file in which lines are counted; of a longer one the first part is taken for the whole.
COUNTED_BYTES = 16 << 20

Progress = Callable[[int], None]


def collect(
    run: Run,
    base: str | None = None,
    *,
    full: bool = False,
    eos: int | None = None,
    progress: Progress | None = None,
) -> Evidence:
    """What can be seen from a working directory of the files an offline-packed run will open.

    Without ``full`` only names, times, parquet footers and the metadata file are read; with it every row is. Never
    raises for what is on the disk, and runs nothing that ``.npy`` packs hold; without pyarrow (or numpy) rows stay unknown.
    """
    base = os.getcwd() if base is None else base
    found = _collected(run, base, full=full, eos=eos, progress=progress)
    saved = saved_run(run, base)
    return found if saved is None else replace(found, saved=saved)


def _collected(run: Run, base: str, *, full: bool, eos: int | None, progress: Progress | None) -> Evidence:
    try:
        if not run.offline:
            return _unpacked(run, base)
    except (Unknown, WrongKind):
        return NOTHING
    found, root, own = places(run, base), dataset_root(run), own_directory(run)
    visible = root is not None and not is_remote(root) and os.path.isdir(os.path.join(base, root))
    packs = {}
    for split, place in found.items():
        seen = look_at(
            place.path,
            base,
            split=split,
            release=run.release,
            explicit=place.explicit,
            full=full,
            eos=eos,
            progress=progress,
        )
        if seen is None and not place.explicit and visible:
            seen = Packs(split, place.path, explicit=False)  # the builder has not made its directory yet
        if seen is not None:
            packs[split] = seen
    metadata = metadata_place(run, found)
    return Evidence(
        packs=packs,
        metadata_file=_metadata(metadata, base) if metadata else None,
        raw_data=_raw_data(root, base) if root else None,
        own_directory=own,
        generation_block=generation_block(run, base),
        other_directories=_other_directories(root, base, own) if root else (),
    )


def _unpacked(run: Run, base: str) -> Evidence:
    """What there is of raw data and of the tokenizer where nothing is packed offline."""
    root = dataset_root(run) if run.dataset is DatasetKind.GPT_SFT else None
    raw = _raw_data(root, base) if root else None
    block = generation_block(run, base)
    return Evidence(raw_data=raw, generation_block=block) if raw is not None or block is not None else NOTHING


def look_at(
    path: str,
    base: str = "",
    *,
    split: str | None = None,
    release: Release = DEFAULT,
    explicit: bool = True,
    full: bool = False,
    eos: int | None = None,
    progress: Progress | None = None,
) -> Packs | None:
    """The packs behind one path (file, directory or pattern); None where its folder cannot be seen from here."""
    found = resolve(path, base, release)
    if found is None:
        return None
    split = split or read_location(path).split or "training"
    shards = tuple(_shard(file) for file in found.files)
    packs = Packs(split, path, explicit, shards, found.dangling, found.duplicates)
    return _scanned(packs, eos, progress) if full and shards else packs


def _shard(path: str) -> Shard:
    from mbpack.inspect import legacy, parquet  # only where there is a file: most configurations name none that is here

    try:
        return legacy.read_shard(path) if path.lower().endswith(NPY_SUFFIX) else parquet.read_shard(path)
    except ImportError:
        return Shard(path)


def _scanned(packs: Packs, eos: int | None, progress: Progress | None) -> Packs:
    from mbpack.inspect import legacy, parquet
    from mbpack.inspect.rows import Scan

    problems: dict[str, str] = {}
    statistics: RowStatistics | None = None
    try:
        if all(shard.path.lower().endswith(NPY_SUFFIX) for shard in packs.shards):
            found = Scan(eos)
            for shard in packs.shards:
                problem = None if shard.problem else legacy.scan(shard.path, found)
                if problem:
                    problems[shard.path] = problem
        else:
            found, problems = parquet.scan(packs.shards, eos, progress)
        statistics = found.result()
    except ImportError:
        return packs
    shards = tuple(replace(shard, problem=problems.get(shard.path, shard.problem)) for shard in packs.shards)
    return replace(packs, shards=shards, statistics=statistics if statistics.rows else None)


def _metadata(path: str, base: str) -> Metadata | None:
    full = os.path.join(base, path)
    if is_remote(path) or not os.path.isdir(os.path.dirname(full) or "."):
        return None
    return replace(read_metadata(full), path=path)


def _raw_data(root: str, base: str) -> RawData | None:
    folder = os.path.join(base, root)
    if not is_remote(root) and os.path.isfile(folder):
        return RawData(root, is_file=True, first=first_rows(folder))
    if is_remote(root) or not os.path.isdir(folder):
        return None
    training, validation = (os.path.join(folder, f"{name}.jsonl") for name in ("training", "validation"))
    times = [os.path.getmtime(path) for path in (training, validation) if os.path.exists(path)]
    size, lines = _size_and_lines(training)
    validation_lines = _size_and_lines(validation)[1]
    return RawData(
        root,
        training=os.path.exists(training),
        validation=os.path.exists(validation),
        first=first_rows(training),
        lines=lines,
        validation_lines=validation_lines,
        bytes=size,
        modified=max(times) if times else None,
    )


def _size_and_lines(path: str) -> tuple[int | None, int | None]:
    """Bytes and, counted or (in a long file) estimated from its first part, lines."""
    try:
        size = os.path.getsize(path)
        with open(path, "rb") as file:
            head = file.read(COUNTED_BYTES)
    except OSError:
        return None, None
    lines = head.count(b"\n") + (size == len(head) and head[-1:] not in (b"\n", b""))
    return size, lines if size <= len(head) else lines * size // len(head)


def _other_directories(root: str, base: str, own: str | None) -> tuple[str, ...]:
    try:
        names = sorted(entry.name for entry in os.scandir(os.path.join(base, root, "packed")) if entry.is_dir())
    except (OSError, ValueError):
        return ()
    return tuple(name for name in names if name != own and read_location(f"{name}/").multiple is not None)
