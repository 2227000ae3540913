"""The GPUs a run may be on: generation, and memory as PyTorch sees it.

GiB are 2**30 bytes. `usable` is what `torch.cuda.get_device_properties` reports as total: the printed size of the card
less what driver and error correction keep. Sources: published logs of training runs (A100 and H100 80 GB 79.1 GiB, H200
139.8, B200 178.3, GB200 184.0); the others are their data sheets' decimal gigabytes less the same share (`measured`
says which is which).
"""

from __future__ import annotations

from msgspec import Struct


class Gpu(Struct, frozen=True):
    """One kind of GPU.

    `name`: as commands take it. `generation`: compute capability as CUDA compilers name it ("sm80" Ampere, "sm90"
    Hopper, "sm100" Blackwell, "sm103" Blackwell Ultra). `usable`: GiB that PyTorch can allocate from, all processes
    together. `measured`: whether a log says so, rather than the data sheet.
    """

    name: str
    generation: str
    usable: float
    measured: bool = True


_ALL = (
    Gpu("a100-40gb", "sm80", 39.4),
    Gpu("a100-80gb", "sm80", 79.1),
    Gpu("h100-80gb", "sm90", 79.1),
    Gpu("h200", "sm90", 139.8),
    Gpu("b200", "sm100", 178.3),
    Gpu("gb200", "sm100", 184.0),
    Gpu("b300", "sm103", 267.0, measured=False),
    Gpu("gb300", "sm103", 275.0, measured=False),
)

#: Every GPU by its name.
GPUS = {gpu.name: gpu for gpu in _ALL}

#: Names that people and recipes use for one of them.
_ALIASES = {"a100": "a100-80gb", "h100": "h100-80gb", "h100-80": "h100-80gb", "h200-141gb": "h200", "b200-180gb": "b200"}


def find_gpu(name: str) -> Gpu | None:
    """The GPU of a name in any case, with "_" or " " for "-"; None where nothing here has that name."""
    plain = name.strip().lower().replace("_", "-").replace(" ", "-").removeprefix("nvidia-")
    return GPUS.get(_ALIASES.get(plain, plain))


def gpu_in_recipe(name: str) -> Gpu | None:
    """The GPU that a recipe's name ends on (``..._16gpu_h100_bf16_config``), None where it names none."""
    for word in reversed(name.split("_")):
        found = find_gpu(word)
        if found is not None:
            return found
    return None
