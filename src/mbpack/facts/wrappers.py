"""Keys of programs that wrap Megatron-Bridge: harmless beside real sections, ignored by Bridge itself."""

from __future__ import annotations

from mbpack.facts.patterns import lazy

#: Top-level keys that wrapper programs and launch systems put beside Bridge's sections.
WRAPPER_SECTIONS = frozenset(
    "run recipe defaults data_prep modules policy launcher slurm executor experiment hydra trainer_args job cluster artifacts "
    "env environment container wandb name description tags".split()
)
_PACKED_SOURCE = lazy(r"dataset\.\w+_packed_sft_dir$")
_WRAPPER_DATASET_KEY = lazy(r"dataset\.(?:\w+_packed_sft_dir|dataset_name|split)$")


def is_wrapper_key(path: str) -> bool:
    """Whether a dotted path is a key that wrappers are known to read."""
    return path.partition(".")[0] in WRAPPER_SECTIONS or bool(_WRAPPER_DATASET_KEY.match(path))


def is_packed_source(path: str) -> bool:
    """Whether a dotted path is a key by which a wrapper finds packed data, of which it makes the dataset itself."""
    return bool(_PACKED_SOURCE.match(path))
