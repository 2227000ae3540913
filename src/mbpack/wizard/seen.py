"""What a path says about the data behind it, as far as it can be read from here; nothing is fetched."""

from __future__ import annotations

import json
import os
import re
from functools import lru_cache
from typing import NamedTuple

from mbpack.config.evidence import CONVERSATIONS
from mbpack.facts.hf_presets import HF_PRESET_SPLITS
from mbpack.wizard.answers import CHAT, ENERGON_DATA, HF, INDEXED, JSONL

TRAINING, VALIDATION = "training.jsonl", "validation.jsonl"
#: A name on the Hugging Face Hub: an owner and a repository. Owners named like a folder of data are taken for a folder.
_HUB = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_FOLDERS = frozenset("data dataset datasets home mnt tmp scratch raw".split())
_FILES = (".json", ".jsonl", ".parquet", ".bin", ".idx")
#: Columns of prompt and completion, in the order they are looked for.
_PAIRS = (("input", "output"), ("prompt", "completion"), ("question", "answer"), ("instruction", "response"))
#: Bytes of a training file from which lengths are estimated, and the characters that are taken for one token.
_SAMPLE, CHARACTERS = 1 << 21, 4


class Seen(NamedTuple):
    """What a path holds: the kind of data (None: nothing here says it), how that is known, and the columns of the two texts.

    ``wrong``: why no data set can be read from the path, where that is sure. ``folder``: what to name instead of a file.
    """

    kind: str | None
    why: str = ""
    columns: tuple[str, str] | None = None
    wrong: str = ""
    folder: str = ""
    no_validation: bool = False


@lru_cache(maxsize=32)
def look(path: str) -> Seen:
    """What a path, or a name on the Hub, says of itself."""
    place = os.path.expanduser(path)
    if os.path.isdir(place):
        return _folder(place)
    if os.path.isfile(place):
        return _file(place)
    if os.path.isfile(place + ".bin") and os.path.isfile(place + ".idx"):
        return Seen(INDEXED, "its .bin and .idx files are there")
    if path.replace("-", "_") in HF_PRESET_SPLITS:
        return Seen(HF, "a data set that Megatron-Bridge knows by this name")
    if _HUB.fullmatch(path) and path.partition("/")[0].lower() not in _FOLDERS and not path.endswith(_FILES):
        return Seen(HF, "a name on the Hugging Face Hub, and no folder here")
    return Seen(None)


def _folder(place: str) -> Seen:
    if os.path.isdir(os.path.join(place, ".nv-meta")):
        return Seen(ENERGON_DATA, "it holds .nv-meta, as energon prepare makes it")
    training = os.path.join(place, TRAINING)
    if os.path.isfile(training):
        missing = not os.path.exists(os.path.join(place, VALIDATION))
        return _rows(training)._replace(no_validation=missing)
    return Seen(None)


def _file(place: str) -> Seen:
    if place.endswith((".bin", ".idx")):
        return Seen(INDEXED, "its name says so", wrong="name the two files without .bin and .idx")
    if not place.endswith((".json", ".jsonl")):
        return Seen(None)
    folder, name = os.path.split(place)
    return _folder(folder or ".")._replace(folder=folder or ".") if name == TRAINING else _rows(place)


def _rows(place: str) -> Seen:
    from mbpack.inspect.first_rows import first_rows

    rows = [row for row in first_rows(place) if not row.problem]
    name = os.path.basename(place)
    if not rows:
        return Seen(None)
    many = f"the first {len(rows)} rows" if len(rows) > 1 else "the first row"
    talks = next((column for column in CONVERSATIONS if any(column in row.columns for row in rows)), None)
    if talks is not None:
        return Seen(CHAT, f"{many} of {name} hold `{talks}`")
    for pair in _PAIRS:
        if all(column in row.columns for row in rows for column in pair):
            return Seen(JSONL, f"{many} of {name} hold `{pair[0]}` and `{pair[1]}`", pair)
    held = rows[0].columns
    if len(held) == 2:
        return Seen(JSONL, f"{many} of {name} hold `{held[0]}` and `{held[1]}`", (held[0], held[1]))
    return Seen(None)


@lru_cache(maxsize=4)
def lengths(path: str) -> tuple[int, ...]:
    """Lengths of the first rows of a training file in tokens, counted as one to :data:`CHARACTERS` characters; () where unread."""
    place = os.path.expanduser(path)
    place = os.path.join(place, TRAINING) if os.path.isdir(place) else place
    try:
        size = os.path.getsize(place)
        with open(place, "rb") as file:
            head = file.read(_SAMPLE)
    except OSError:
        return ()
    lines = head.split(b"\n")
    found = []
    for line in lines[:-1] if size > len(head) else lines:
        try:
            signs = _signs(json.loads(line)) if line.strip() else 0
        except (ValueError, RecursionError):
            continue
        if signs:
            found.append(max(1, signs // CHARACTERS))
    return tuple(found)


def _signs(held: object) -> int:
    """Characters of all texts in a row."""
    if isinstance(held, str):
        return len(held)
    if isinstance(held, dict):
        return sum(_signs(value) for value in held.values())
    return sum(_signs(value) for value in held) if isinstance(held, list) else 0
