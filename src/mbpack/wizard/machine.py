"""The GPUs of the machine the wizard runs on, as the driver lists them in files; nothing is started or loaded."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from typing import NamedTuple

from mbpack.facts.gpus import GPUS

#: Where NVIDIA's driver keeps a folder a GPU.
DRIVER = "/proc/driver/nvidia/gpus"
_MODEL = re.compile(r"^Model:\s*(.+)$", re.MULTILINE)


class Machine(NamedTuple):
    """How many GPUs there are, and their kind where it is one that is known and the same for all."""

    gpus: int
    kind: str | None


@lru_cache(maxsize=4)
def machine(folder: str = DRIVER) -> Machine | None:
    """The GPUs of this machine; None where there are none."""
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return None
    kinds = {_kind(os.path.join(folder, name, "information")) for name in names}
    return Machine(len(names), kinds.pop() if len(kinds) == 1 else None) if names else None


def _kind(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            found = _MODEL.search(file.read(4000))
    except OSError:
        return None
    words = re.split(r"[\s-]+", found[1].lower()) if found else []
    for name in sorted(GPUS, key=len, reverse=True):
        chip, _, memory = name.partition("-")
        if chip in words and (not memory or memory in words or chip == "h100"):
            return name
    return None
