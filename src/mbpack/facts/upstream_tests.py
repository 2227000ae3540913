"""The upstream pytest selections that cover packing, per release, with the number of tests each selects.

Paths are relative to a Megatron-Bridge checkout (the packages ship no tests). The counts come from counting the test
functions and their parameters in the test files of each release (tags 0.3.0 to 0.6.0 and the 0.7 development tree); the
unit tests of 0.3, 0.5 and 0.6 were also run on CPU: as many, and all pass but those that call a GPU (both of 0.3 and 0.5, one
of 0.6 in `test_vlm_step.py`, one in `test_in_batch.py`). A selection that a release lacks, or that selects
nothing there (pytest then exits with 5), is not listed for it: joining commands with `&&` would otherwise stop at it.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping

from msgspec import Struct, field

from mbpack.facts.modes import ENERGON, GLOBAL_BATCH, IN_BATCH, OFFLINE

#: What a configuration can use: the packing modes, plus these two.
DEFERRED = "deferred"  # in-batch packing left to the step function
CONTEXT_PARALLEL = "context_parallel"
FEATURES = (OFFLINE.name, IN_BATCH.name, ENERGON.name, GLOBAL_BATCH.name, DEFERRED, CONTEXT_PARALLEL)

_PACKED = frozenset({OFFLINE.name, IN_BATCH.name, ENERGON.name, GLOBAL_BATCH.name, DEFERRED})
_IN_BATCH = frozenset({IN_BATCH.name, DEFERRED})
_OFFLINE = frozenset({OFFLINE.name})
_ENERGON = frozenset({ENERGON.name})
_UNIT = "tests/unit_tests"


class Selection(Struct, frozen=True):
    """One pytest call.

    `expected`: the number of tests it selects in this release, None where it is not known. `features`: what it covers.
    `gpus`: how many GPUs it needs, 0 for unit tests, of which few call one. `also`: numbers that other development trees of
    the same release select (0: none, the feature is not in that tree). Printed, it is the command to run.
    """

    path: str
    keyword: str
    expected: int | None
    features: frozenset[str]
    covers: str
    gpus: int = 0
    also: frozenset[int] = frozenset()

    @property
    def command(self) -> str:
        """The command line, to be run in a checkout; tests that need several GPUs start one process for each.

        Source of the launch line: the training scripts in upstream's `tests/functional_tests`.
        """
        return f"uv run python -m {self.modules} {selected(self.path, self.keyword)}"

    @property
    def modules(self) -> str:
        """What `python -m` starts: pytest, under torch's launcher where GPUs are needed."""
        return f"torch.distributed.run --nproc_per_node={self.gpus} --nnodes=1 -m pytest" if self.gpus else "pytest"

    def __str__(self) -> str:
        return self.command


class _Test(Struct, frozen=True):
    path: str
    keyword: str
    counts: Mapping[str, int | None]
    features: frozenset[str]
    covers: str
    gpus: int = 0
    also: Mapping[str, frozenset[int]] = field(default_factory=dict)


class Correction(Struct, frozen=True):
    """A command of the public packing skill that is wrong in a release, and what to run there instead.

    `path` and `keyword` as published (for this release or for a neighbouring one whose text people keep using);
    `instead` is None where the release has nothing of the kind.
    """

    path: str
    keyword: str
    why: str
    instead: Selection | None

    @property
    def published(self) -> str:
        """The command as published."""
        return f"uv run python -m pytest {selected(self.path, self.keyword)}"


def selected(path: str, keyword: str) -> str:
    """A path and its `-k` expression as arguments of pytest."""
    return path + (f" -k {quoted(keyword)}" if keyword else "")


def quoted(keyword: str) -> str:
    """A `-k` expression in double quotes, the way upstream writes its commands."""
    return f'"{keyword}"' if keyword.replace("_", "").replace(" ", "").isalnum() else shlex.quote(keyword)


_CONFIG = f"{_UNIT}/training/test_config.py"
_COMMON = "context_parallel_seq_length_divisibility or context_parallel_finetuning_validations"
_TESTS = (
    _Test(
        f"{_UNIT}/training/utils/test_packed_seq_utils.py",
        "",
        {"0.3": 8, "0.4": 8, "0.5": 11, "0.6": 19, "0.7": 19},
        _PACKED,
        "packed sequence parameters handed to attention",
    ),
    _Test(
        _CONFIG,
        f"packed_sequence or pack_sequences_in_batch or {_COMMON}",
        {"0.3": 14, "0.4": 14, "0.5": 14},
        _PACKED | {CONTEXT_PARALLEL},
        "validation of packing, batch sizes and context parallelism",
    ),
    _Test(
        _CONFIG,
        f"packed_sequence or enable_in_batch_packing or offline_and_in_batch_packing_are_mutually_exclusive or {_COMMON}",
        {"0.6": 26, "0.7": 26},
        _PACKED | {CONTEXT_PARALLEL},
        "validation of packing, batch sizes and context parallelism",
    ),
    _Test(
        f"{_UNIT}/training/test_vlm_step.py",
        "enable_packing",
        {"0.3": 2, "0.4": 2, "0.5": 2},
        _IN_BATCH,
        "in-batch packing in the VLM step",
    ),
    _Test(
        f"{_UNIT}/data/packing/test_in_batch.py",
        "",
        {"0.6": 15, "0.7": 19},
        _IN_BATCH,
        "in-batch packing of collated rows",
    ),
    _Test(
        f"{_UNIT}/training/test_vlm_step.py",
        "deferred_in_batch_packing or packed_metadata",
        {"0.6": 2, "0.7": 2},
        frozenset({IN_BATCH.name, DEFERRED, ENERGON.name}),
        "packed metadata in the VLM step",
    ),
    _Test(
        f"{_UNIT}/models/qwen_vl/data/test_energon.py",
        "",
        {"0.6": 29, "0.7": 36},
        _ENERGON,
        "the Qwen-VL Energon task encoder",
    ),
    _Test(
        f"{_UNIT}/data/builders/test_energon_builder.py",
        "",
        {"0.6": 11, "0.7": 19},
        _ENERGON,
        "the Energon dataset builder",
    ),
    _Test(
        f"{_UNIT}/tutorials/test_multimodal_data_tutorials.py",
        "native_packing_loader",
        {"0.7": 2},
        _ENERGON,
        "the native packing loader of the multimodal tutorial",
    ),
    _Test(
        f"{_UNIT}/data/datasets/test_packed_parquet.py",
        "negative_index_zeroes_loss_mask",
        {"0.4": 1, "0.5": 1},
        _OFFLINE,
        "loss masks of padding rows in packed parquet",
    ),
    _Test(
        f"{_UNIT}/data/packing/test_parquet.py",
        "negative_index_zeroes_loss_mask",
        {"0.6": 2, "0.7": 2},
        _OFFLINE,
        "loss masks of padding rows in packed parquet",
    ),
    _Test(
        f"{_UNIT}/data/datasets/test_gpt_sft.py",
        "mapped_padding_rows_do_not_contribute_to_loss",
        {"0.6": 2, "0.7": 2},
        _OFFLINE,
        "padding rows and the loss in GPT-SFT",
    ),
    _Test(
        f"{_UNIT}/data/packing/test_offline.py",
        "",
        {"0.6": 13, "0.7": 13},
        _OFFLINE,
        "offline preparation of packed data",
    ),
    _Test(
        f"{_UNIT}/data/datasets/test_gpt_sft.py",
        "in_batch_packing",
        {"0.7": 3},
        frozenset({IN_BATCH.name}),
        "in-batch packing of GPT-SFT text",
        also={"0.7": frozenset({0})},
    ),
    _Test(
        f"{_UNIT}/data/builders/test_gpt_sft_config.py",
        "",
        {"0.7": 46},
        frozenset({IN_BATCH.name}),
        "the GPT-SFT dataset configuration",
        also={"0.7": frozenset({37})},
    ),
    _Test(
        "tests/functional_tests/training/test_seqpacking_cp_example.py",
        "",
        {"0.3": 1},
        frozenset({CONTEXT_PARALLEL}),
        "packing with context parallelism, end to end",
        2,
    ),
    _Test(
        "tests/functional_tests/test_groups/training/test_seqpacking_cp_example.py",
        "",
        {"0.4": 1, "0.5": 1, "0.6": 1, "0.7": 1},
        frozenset({CONTEXT_PARALLEL}),
        "packing with context parallelism, end to end",
        2,
    ),
)

_GONE = "the file is gone since 0.6"
#: Commands of the public packing skill that select nothing, name a file that is gone or expect another number: releases, path and keyword as
#: published, why, and path and keyword of what to run instead.
_CORRECTIONS: tuple[tuple[tuple[str, ...], str, str, str, tuple[str, str] | None], ...] = (
    (
        ("0.5",),
        f"{_UNIT}/training/utils/test_packed_seq_utils.py",
        "",
        "the command is right, its success criterion is not: it says 8 passed, 0.5 has 11",
        (f"{_UNIT}/training/utils/test_packed_seq_utils.py", ""),
    ),
    (
        ("0.6", "0.7"),
        f"{_UNIT}/data/datasets/test_packed_parquet.py",
        "negative_index_zeroes_loss_mask",
        _GONE,
        (f"{_UNIT}/data/packing/test_parquet.py", "negative_index_zeroes_loss_mask"),
    ),
    (
        ("0.6", "0.7"),
        f"{_UNIT}/data/datasets/test_sft.py",
        "mapped_padding_rows_do_not_contribute_to_loss",
        _GONE,
        (f"{_UNIT}/data/datasets/test_gpt_sft.py", "mapped_padding_rows_do_not_contribute_to_loss"),
    ),
    (
        ("0.6", "0.7"),
        f"{_UNIT}/training/test_vlm_step.py",
        "enable_packing",
        "published for 0.5; selects nothing since 0.6, where the collate function packs",
        (f"{_UNIT}/training/test_vlm_step.py", "deferred_in_batch_packing or packed_metadata"),
    ),
    (
        ("0.6",),
        f"{_UNIT}/tutorials/test_multimodal_data_tutorials.py",
        "native_packing_loader",
        "published for 0.7; selects nothing in 0.6, native Energon packing starts with 0.7",
        None,
    ),
)


def corrections(release: str, features: Collection[str] | None = None) -> list[Correction]:
    """The published commands that are wrong in a release, as far as their subject is among the features."""
    known = "0.7" if release == "nightly" else release
    by_call = {(selection.path, selection.keyword): selection for selection in commands(release)}
    wanted = {(selection.path, selection.keyword) for selection in commands(release, features)}
    return [
        Correction(path, keyword, why, by_call[instead] if instead else None)
        for releases, path, keyword, why, instead in _CORRECTIONS
        if known in releases and (instead in wanted if instead else features is None or ENERGON.name in features)
    ]


def commands(release: str, features: Collection[str] | None = None) -> list[Selection]:
    """The selections of a release that cover any of the features (all selections when `features` is None).

    Nightly has those of 0.7, with unknown counts. Those that need GPUs come last.
    """
    known = "0.7" if release == "nightly" else release
    found = [
        Selection(
            t.path,
            t.keyword,
            None if release == "nightly" else t.counts[known],
            t.features,
            t.covers,
            t.gpus,
            t.also.get(known, frozenset()),
        )
        for t in _TESTS
        if known in t.counts and (features is None or t.features & set(features))
    ]
    return sorted(found, key=lambda s: s.gpus > 0)
