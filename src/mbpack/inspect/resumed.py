"""The checkpoint a run starts again from: what its saved configuration says of rows and batches.

Looked for where `checkpoint.load` names a folder that can be seen from here. Source: 0.3 to 0.7 `training/checkpointing.py`,
`training/utils/checkpoint_utils.py` (`latest_checkpointed_iteration.txt`, `iter_<seven digits>/run_config.yaml`).
"""

from __future__ import annotations

import os
from typing import Any

from mbpack.config.evidence import SavedRun
from mbpack.config.run import Run
from mbpack.config.settings import Unknown, WrongKind
from mbpack.inspect.places import is_remote

LOAD = "checkpoint.load"
_TRACKER = "latest_checkpointed_iteration.txt"
#: Bytes of a saved configuration that are read.
_MOST = 2_000_000


def saved_run(run: Run, base: str) -> SavedRun | None:
    """What the newest checkpoint below `checkpoint.load` was trained on; None where the run starts anew or nothing is there."""
    try:
        folder = run.value(LOAD) if run.wrote(LOAD) else None
        if not isinstance(folder, str) or is_remote(folder) or run.maybe("checkpoint.finetune") is True:
            return None
    except (Unknown, WrongKind):
        return None
    text = _read(os.path.join(base, folder, _TRACKER)).strip()
    if not text.isascii() or not text.isdigit():
        return None
    iteration = int(text)
    saved = _read(os.path.join(base, folder, f"iter_{iteration:07d}", "run_config.yaml"))
    return _of(saved, folder, iteration) if saved else None


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(_MOST)
    except (OSError, ValueError):
        return ""


def _of(text: str, folder: str, iteration: int) -> SavedRun | None:
    from mbpack.config.document import parse

    root = parse(text).root
    if root is None:
        return None
    batch = _at(root, "train", "global_batch_size")
    specs = _at(root, "dataset", "offline_packing_specs") or _at(root, "dataset", "packed_sequence_specs")
    on = _at(root, "dataset", "enable_offline_packing") is not False and isinstance(specs, dict)
    size = _number(specs["packed_sequence_size"].value) if on and "packed_sequence_size" in specs else None
    in_batch = any(_at(root, "dataset", key) is True for key in ("enable_in_batch_packing", "pack_sequences_in_batch"))
    return SavedRun(folder, iteration, _number(batch), size if size and size > 0 else None, in_batch)


def _at(item: Any, *keys: str) -> Any:
    """The value at a path of a parsed document, None where there is none."""
    for key in keys:
        if item is None or not isinstance(item.value, dict) or key not in item.value:
            return None
        item = item.value[key]
    return item.value


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
