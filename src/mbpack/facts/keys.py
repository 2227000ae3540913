"""Configuration keys under one canonical name, and what each release calls them.

Canonical names are those of 0.6. Only what differs is listed; every other key has the same path in every release.
Old names are not aliases upstream: a key of the other generation is ignored in an override and refused in a complete
file, which is why the renames are facts of their own.
"""

from __future__ import annotations

from functools import cache, lru_cache

from msgspec import Struct

from mbpack.facts.releases import NIGHTLY, R04, R05, R06, R07, Release


class Rename(Struct, frozen=True):
    """One key (or section of keys) with another name before a release.

    ``old`` and ``new`` are dotted paths; ``since`` is the first release that knows the new name; ``old_works_until``
    is the last release in which the old name still has an effect, None where it stops at ``since``.
    """

    old: str
    new: str
    since: Release
    old_works_until: Release | None = None
    note: str = ""


RENAMES: tuple[Rename, ...] = (
    Rename(
        "dataset.packed_sequence_specs",
        "dataset.offline_packing_specs",
        R06,
        note="together with dataset.enable_offline_packing: true",
    ),
    Rename("dataset.pack_sequences_in_batch", "dataset.enable_in_batch_packing", R06),
    Rename("dataset.rewrite", "dataset.hf_rewrite", R06, note="its default changed from true to false"),
    Rename("dist.lazy_init", "dist.lazy_mpu_init", R04),
    Rename("train.eval_iters", "validation.eval_iters", R04, R07),
    Rename("train.eval_interval", "validation.eval_interval", R04, R07),
    Rename("train.skip_train", "validation.skip_train", R04, R07),
    Rename("model.cuda_graph_scope", "model.cuda_graph_modules", R05, NIGHTLY),
)

#: Keys that exist only from a release on and have no older name (renames are above, other fields in the schema).
OFFLINE_SWITCH = "dataset.enable_offline_packing"
SPECS = "dataset.offline_packing_specs"
IN_BATCH = "dataset.enable_in_batch_packing"

#: Parallel sizes, and those whose product is the GPUs that one copy of the model takes.
COPY = TP, PP, CP = tuple(f"model.{name}_parallel_size" for name in ("tensor_model", "pipeline_model", "context"))
EP, ETP = "model.expert_model_parallel_size", "model.expert_tensor_parallel_size"
VPP = "model.virtual_pipeline_model_parallel_size"

LAYERS = "model.num_layers"

#: How long to train: one of three; and the warm-up as a share of that.
ITERS, SAMPLES, EPOCHS = "train.train_iters", "train.train_samples", "train.num_epochs"
WARM_UP_FRACTION = "scheduler.lr_warmup_fraction"

#: The section of the adapter.
ADAPTER = "peft"

#: Where ``PackedSequenceSpecs`` lives.
SPECS_CLASS = "PackedSequenceSpecs"
_SPECS_TARGETS = {
    True: "megatron.bridge.data.packing.config.PackedSequenceSpecs",
    False: "megatron.bridge.data.datasets.packed_sequence.PackedSequenceSpecs",
}

#: Constructor keywords that are no fields: the pretraining dataset takes ``seq_length`` for ``sequence_length``.
KEYWORD_ALIASES: dict[str, tuple[str, ...]] = {
    "GPTDatasetConfig": ("seq_length",),
    "MockGPTDatasetConfig": ("seq_length",),
    "GPTFIMDatasetConfig": ("seq_length",),
}

#: Canonical keys whose rename is a matter of two live keys, not of one key with two names.
_NOT_TRANSLATED = ("model.cuda_graph_modules",)


def specs_target(release: Release) -> str:
    """The ``_target_`` that offline packing specs need in a release."""
    return _SPECS_TARGETS[release >= R06]


@lru_cache(maxsize=4096)
def path_in(release: Release, canonical: str) -> str:
    """The dotted path a release uses for a canonical key.

    >>> from mbpack.facts.releases import R05
    >>> path_in(R05, "dataset.offline_packing_specs.pad_seq_to_mult")
    'dataset.packed_sequence_specs.pad_seq_to_mult'
    """
    for rename in RENAMES:
        if release < rename.since and rename.new not in _NOT_TRANSLATED:
            if canonical == rename.new:
                return rename.old
            if canonical.startswith(rename.new + "."):
                return rename.old + canonical[len(rename.new) :]
    return canonical


def canonical_name(release: Release, written: str) -> str:
    """The canonical key of a path as a release spells it: the inverse of :func:`path_in`.

    >>> from mbpack.facts.releases import R05
    >>> canonical_name(R05, "dataset.packed_sequence_specs.pad_seq_to_mult")
    'dataset.offline_packing_specs.pad_seq_to_mult'
    """
    for rename in RENAMES:
        if release < rename.since and rename.new not in _NOT_TRANSLATED:
            if written == rename.old or written.startswith(rename.old + "."):
                return rename.new + written[len(rename.old) :]
    return written


class _Parts(dict[str, tuple[str, ...]]):
    """Canonical key -> the parts of its path in one release, worked out once."""

    def __init__(self, release: Release) -> None:
        super().__init__()
        self.release = release

    def __missing__(self, canonical: str) -> tuple[str, ...]:
        if len(self) > 8192:
            self.clear()
        parts = self[canonical] = tuple(path_in(self.release, canonical).split("."))
        return parts


@cache
def paths(release: Release) -> dict[str, tuple[str, ...]]:
    """Canonical key -> the parts of its path in a release."""
    return _Parts(release)


def parts_in(release: Release, canonical: str) -> tuple[str, ...]:
    """:func:`path_in`, split at the dots."""
    return paths(release)[canonical]


def rename_of(release: Release, written: str) -> Rename | None:
    """The rename that explains why a written key does nothing in this release: an old name, or one not yet known."""
    for rename in RENAMES:
        stale = release >= rename.since and (rename.old_works_until is None or release > rename.old_works_until)
        if stale and (written == rename.old or written.startswith(rename.old + ".")):
            return rename
        if release < rename.since and (written == rename.new or written.startswith(rename.new + ".")):
            return rename
    if release < R06 and written == OFFLINE_SWITCH:
        return RENAMES[0]
    return None


def modern_name(release: Release, written: str) -> str | None:
    """What a written old name is called in this release, or the old name of one that is not yet known; None otherwise."""
    rename = rename_of(release, written)
    if rename is None:
        return None
    if written == OFFLINE_SWITCH:
        return rename.old
    old, new = (rename.old, rename.new) if release >= rename.since else (rename.new, rename.old)
    return new + written[len(old) :]
