"""The upstream pytest selections that cover packing, per release, with the number of tests each selects.

Paths are relative to a Megatron-Bridge checkout (the packages ship no tests). The counts come from counting the test
functions and their parameters in the test files of each release, not from running them. A selection that a release
lacks, or that selects nothing there (pytest then exits with 5), is not listed for it: joining commands with `&&` would
otherwise stop at it.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from mbpack.facts.modes import ENERGON, IN_BATCH, OFFLINE

#: What a configuration can use: the packing modes, plus these two.
DEFERRED = "deferred"  # in-batch packing left to the step function
CONTEXT_PARALLEL = "context_parallel"
FEATURES = (OFFLINE.name, IN_BATCH.name, ENERGON.name, DEFERRED, CONTEXT_PARALLEL)

_PACKED = frozenset({OFFLINE.name, IN_BATCH.name, ENERGON.name, DEFERRED})
_IN_BATCH = frozenset({IN_BATCH.name, DEFERRED})
_OFFLINE = frozenset({OFFLINE.name})
_ENERGON = frozenset({ENERGON.name})
_UNIT = "tests/unit_tests"


@dataclass(frozen=True, slots=True)
class Selection:
    """One pytest call.

    `expected`: the number of tests it selects in this release, None where it is not known. `features`: what it covers.
    `gpus`: how many GPUs it needs, 0 for a unit test that runs on CPU. Printed, it is the command to run.
    """

    path: str
    keyword: str
    expected: int | None
    features: frozenset[str]
    covers: str
    gpus: int = 0

    @property
    def command(self) -> str:
        """The command line, to be run in a checkout."""
        return f"uv run python -m pytest {self.path}" + (f" -k {quoted(self.keyword)}" if self.keyword else "")

    def __str__(self) -> str:
        return self.command


@dataclass(frozen=True, slots=True)
class _Test:
    path: str
    keyword: str
    counts: Mapping[str, int | None]
    features: frozenset[str]
    covers: str
    gpus: int = 0


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
    ),
    _Test(
        f"{_UNIT}/data/builders/test_gpt_sft_config.py",
        "",
        {"0.7": 46},
        frozenset({IN_BATCH.name}),
        "the GPT-SFT dataset configuration",
    ),
    _Test(
        "tests/functional_tests/training/test_seqpacking_cp_example.py",
        "",
        {"0.3": None},
        frozenset({CONTEXT_PARALLEL}),
        "packing with context parallelism, end to end",
        2,
    ),
    _Test(
        "tests/functional_tests/test_groups/training/test_seqpacking_cp_example.py",
        "",
        {"0.4": None, "0.5": None, "0.6": None, "0.7": None},
        frozenset({CONTEXT_PARALLEL}),
        "packing with context parallelism, end to end",
        2,
    ),
)

#: Commands of the public packing skill that select nothing or name a file that is gone, and what to run instead.
#: (release, path as published) -> path that exists in that release.
CORRECTED: Mapping[tuple[str, str], str] = {
    (release, f"{_UNIT}/data/datasets/{old}"): f"{_UNIT}/data/{new}"
    for release in ("0.6", "0.7", "nightly")
    for old, new in (
        ("test_packed_parquet.py", "packing/test_parquet.py"),
        ("test_sft.py", "datasets/test_gpt_sft.py"),
    )
}


def commands(release: str, features: Collection[str] | None = None) -> list[Selection]:
    """The selections of a release that cover any of the features (all selections when `features` is None).

    Nightly has those of 0.7, with unknown counts. Those that need GPUs come last.
    """
    known = "0.7" if release == "nightly" else release
    found = [
        Selection(t.path, t.keyword, None if release == "nightly" else t.counts[known], t.features, t.covers, t.gpus)
        for t in _TESTS
        if known in t.counts and (features is None or t.features & set(features))
    ]
    return sorted(found, key=lambda s: s.gpus > 0)
