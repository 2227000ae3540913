"""The names under which a configuration can ask for single precision.

An override's text is turned into a dtype of torch, by attribute name in 0.3 (``training/utils/omegaconf_utils.py``) and by a
table of names from 0.4 on (``utils/activation_map.py``). A complete file names the dtype in full.
"""

from __future__ import annotations

from typing import Final

from mbpack.facts.releases import R03, Release

#: The attributes of torch that are its 32-bit float.
FLOAT32_ATTRIBUTES: Final = frozenset(("float32", "float"))
#: What the table of 0.4 and later calls it.
FLOAT32_NAMES: Final = frozenset(("fp32", "float32", "32", "32-true", "torch.fp32", "torch.float32"))


def is_float32(release: Release, name: str, complete: bool) -> bool:
    """Whether a text becomes ``torch.float32`` in an override, or in a complete file."""
    module, _, attribute = name.rpartition(".")
    if complete:
        return module == "torch" and attribute in FLOAT32_ATTRIBUTES
    return attribute in FLOAT32_ATTRIBUTES if release <= R03 else name in FLOAT32_NAMES


def is_bfloat16(name: str) -> bool:
    """Whether a text stands for ``torch.bfloat16``, in full or by a name of the table (0.4 and later)."""
    return name.removeprefix("torch.") in ("bfloat16", "bf16", "bf16-mixed", "bf16-true")
