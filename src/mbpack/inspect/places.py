"""Where a run keeps its packs: explicit paths, or the builder's own directory below the dataset root."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from itertools import islice
from typing import Any, NamedTuple

from mbpack.config.in_effect import TRAIN_PACKS, pack_size, pad_multiple
from mbpack.config.run import Run
from mbpack.config.settings import ABSENT, Object, Unknown, WrongKind
from mbpack.facts.artifacts import (
    NPY_SUFFIX,
    PARQUET_SUFFIXES,
    SPLITS,
    fingerprint,
    glob_characters,
    metadata_file,
    pack_directory,
    pack_file,
    tokenizer_directory,
)
from mbpack.facts.keys import SPECS
from mbpack.facts.releases import R06, Release

EXPLICIT = {"training": TRAIN_PACKS, "validation": f"{SPECS}.packed_val_data_path"}
#: Files of one pattern that are looked at.
MAX_FILES = 10_000


class Place(NamedTuple):
    """What a run opens for one split, as written, and whether the configuration names it."""

    path: str
    explicit: bool


class Found(NamedTuple):
    """Files behind a path, links that lead nowhere, and names that lead to a file already found."""

    files: tuple[str, ...]
    dangling: tuple[str, ...] = ()
    duplicates: tuple[str, ...] = ()


def known(run: Run, key: str) -> Any:
    """A value, or None where it is unknown, absent or an object."""
    try:
        value = run.value(key)
    except (Unknown, WrongKind):
        return None
    return None if value is ABSENT or isinstance(value, (Object, dict)) else value


def text(run: Run, key: str) -> str | None:
    """A value that is text with something in it, else None."""
    value = known(run, key)
    return value if isinstance(value, str) and value.strip() and "\0" not in value else None


def dataset_root(run: Run) -> str | None:
    """The folder with the raw JSONL files, where the configuration says it."""
    return text(run, "dataset.dataset_root") or text(run, "dataset.hf_output_root")


def own_directory(run: Run) -> str | None:
    """Name of the builder's directory for this configuration; None where a part of it is not known."""
    name = text(run, f"{SPECS}.tokenizer_model_name")
    if name is None and known(run, "tokenizer.tokenizer_type") in (None, "HuggingFaceTokenizer"):
        model = text(run, "tokenizer.tokenizer_model")
        name = tokenizer_directory(model) if model else None
    digits = own_fingerprint(run) if run.release >= R06 else None
    if name is None or (run.release >= R06 and digits is None):
        return None
    return pack_directory(run.release, name, _multiple(run), digits)


def _multiple(run: Run) -> int | None:
    """The multiple in the directory's name; null is written as ``None`` there."""
    try:
        return pad_multiple(run)
    except (Unknown, WrongKind):
        return None


def _size(run: Run) -> int | None:
    try:
        return pack_size(run)
    except (Unknown, WrongKind):
        return None


def own_fingerprint(run: Run) -> str | None:
    """The digits of the builder's directory name (0.6 and later); None where an input is not known."""
    try:
        explicit = run.is_set("dataset.preprocessing")
        if explicit:
            kind = run.settings.class_at("dataset.preprocessing")
        elif run.is_set("dataset.hf_dataset"):
            kind = "ChatSFTPreprocessingConfig"
        else:
            kind = "PromptCompletionSFTPreprocessingConfig"
        fields = run.settings.schema.fields(kind) if kind else None
        if kind is None or fields is None:
            return None
        if explicit:
            preprocessing = {name: run.value(f"dataset.preprocessing.{name}") for name in fields}
        else:
            preprocessing = {name: field.default for name, field in fields.items()}
            if kind.startswith("PromptCompletion"):
                preprocessing.update(prompt_column="input", completion_column="output", separator=" ")
        kwargs = run.value("dataset.dataset_kwargs")
        if kwargs is not None:
            entries = run.settings.mapping("dataset.dataset_kwargs")
            kwargs = {name: _plain(entry.value) for name, entry in entries.items()}
        identity: dict[str, Any] = {
            "seq_length": run.value("dataset.seq_length"),
            "seed": run.value("dataset.seed"),
            "preprocessing_explicit": explicit,
            "preprocessing_type": kind,
            "preprocessing": preprocessing,
            "dataset_kwargs": kwargs,
        }
        longest = run.value(f"{SPECS}.max_single_sequence_length")
    except (Unknown, WrongKind):
        return None
    if longest is not None:
        identity["max_single_sequence_length"] = longest
    try:
        return fingerprint(identity)
    except TypeError:  # keys that cannot be sorted; upstream's own digest fails on them too
        return None


def _plain(value: Any) -> Any:
    if isinstance(value, Object):
        return value.item.plain if value.item is not None else None
    if isinstance(value, list):
        return [_plain(element) for element in value]
    return value


def places(run: Run, base: str) -> dict[str, Place]:
    """What the run opens per split, where that is known."""
    found: dict[str, Place] = {}
    size = _size(run)
    root, own = dataset_root(run), own_directory(run)
    for split in SPLITS:
        if split == "validation" and known(run, "dataset.do_validation") is False:
            continue
        path = text(run, EXPLICIT[split])
        written = run.settings.peek(EXPLICIT[split])
        if path is not None:
            found[split] = Place(path, True)
        elif written is not None and written.value is None and root and size is not None:
            directory = own or _likely_directory(os.path.join(base, root, "packed"), run, split, size)
            if directory is not None:
                name = pack_file(run.release, split, size)
                found[split] = Place(os.path.join(root, "packed", directory, name), False)
    return found


def _likely_directory(packed: str, run: Run, split: str, size: int) -> str | None:
    """When the tokenizer's name is not known: the one directory with such a pack, or a pattern that none matches."""
    name = f"*_pad_seq_to_mult{_multiple(run)}*"
    pattern = os.path.join(glob.escape(packed), name, pack_file(run.release, split, size))
    matches = list(islice(glob.iglob(pattern), 2))
    if len(matches) > 1:
        return None
    return os.path.basename(os.path.dirname(matches[0])) if matches else name


def metadata_place(run: Run, packs: dict[str, Place]) -> str | None:
    """The metadata file the run reads."""
    path = text(run, f"{SPECS}.packed_metadata_path")
    size = _size(run)
    written = run.settings.peek(f"{SPECS}.packed_metadata_path")
    if path is not None or size is None or written is None or written.value is not None:
        return path
    own = [place.path for place in packs.values() if not place.explicit]
    if own:
        return os.path.join(os.path.dirname(own[0]), metadata_file(size))
    root, directory = dataset_root(run), own_directory(run)
    return os.path.join(root, "packed", directory, metadata_file(size)) if root and directory else None


def is_remote(path: str) -> bool:
    """Whether a path is an address in some store rather than a file."""
    return "://" in path


def resolve(path: str, base: str, release: Release) -> Found | None:
    """The files behind a path, as the release's loader resolves it; None where its folder cannot be seen from here."""
    if is_remote(path):
        return None
    full = os.path.join(base, path)
    try:
        if any(character in path for character in glob_characters(release)):
            folder = os.path.dirname(_before_pattern(full, release))
            matches: Sequence[str] = sorted(islice(glob.iglob(full), MAX_FILES))
            matches = [match for match in matches if match.lower().endswith(PARQUET_SUFFIXES)]
        elif os.path.isdir(full):
            folder = full
            names = sorted(islice((entry.name for entry in os.scandir(full)), MAX_FILES))
            matches = [os.path.join(full, name) for name in names if name.endswith(PARQUET_SUFFIXES)]
        else:
            folder = os.path.dirname(full)
            matches = [full] if os.path.lexists(full) and full.lower().endswith((*PARQUET_SUFFIXES, NPY_SUFFIX)) else []
        if not matches:
            return Found(()) if os.path.isdir(folder) else None
    except (OSError, ValueError):
        return None
    dangling = tuple(match for match in matches if not os.path.exists(match))
    real: dict[str, str] = {}
    duplicates = []
    for match in matches:
        if real.setdefault(os.path.realpath(match), match) != match:
            duplicates.append(match)
    return Found(tuple(match for match in matches if match not in dangling), dangling, tuple(duplicates))


def _before_pattern(path: str, release: Release) -> str:
    """The part of a pattern up to its first special character."""
    first = min(path.find(character) for character in glob_characters(release) if character in path)
    return path[:first]
