"""Questions about a run's packed data that several rule modules ask.

Each raises :class:`~mbpack.config.settings.Unknown` when an input is unknown, like the properties of a run.
"""

from __future__ import annotations

from math import lcm

from mbpack.config.in_effect import EVAL_CP, TRAIN_PACKS, cp_size
from mbpack.config.run import Run
from mbpack.config.settings import Object
from mbpack.config.shared import shared
from mbpack.facts.artifacts import NPY_SUFFIX, SPLITS
from mbpack.facts.classes import DatasetKind
from mbpack.facts.keys import SPECS
from mbpack.facts.releases import R04, R05, R06
from mbpack.rules.base import Outcome

VAL_PACKS, METADATA_PATH = f"{SPECS}.packed_val_data_path", f"{SPECS}.packed_metadata_path"
PAD_CU, WORKERS = f"{SPECS}.pad_cu_seqlens", f"{SPECS}.num_tokenizer_workers"
TOKENIZER_NAME, TOKENIZER_TYPE = f"{SPECS}.tokenizer_model_name", "tokenizer.tokenizer_type"
KWARGS, PREPROCESSING = "dataset.dataset_kwargs", "dataset.preprocessing"
ROOT, HF_ROOT, HF_SOURCE = "dataset.dataset_root", "dataset.hf_output_root", "dataset.hf_dataset"
DO_VALIDATION, DO_TEST = "dataset.do_validation", "dataset.do_test"
PATHS = {"training": TRAIN_PACKS, "validation": VAL_PACKS}

WARN_CRASH_DATA = Outcome("warning", "crash", "data")
WARN_SILENT = Outcome("warning", "silent", "always")
WARN_NOTE = Outcome("warning", "note", "always")


@shared
def prepares(run: Run) -> bool:
    """Whether the run packs GPT-SFT data offline with specs that are an object."""
    return run.offline and run.dataset is DatasetKind.GPT_SFT and run.has_specs


def packed_splits(run: Run) -> tuple[str, ...]:
    """The splits that are packed. Raises Unknown without ``do_validation``."""
    return SPLITS if run.flag(DO_VALIDATION) else SPLITS[:1]


def splits(run: Run) -> tuple[str, ...]:
    """Training, and validation where its packs are named or were seen."""
    named = isinstance(run.maybe(PATHS["validation"]), str) or "validation" in run.evidence.packs
    return SPLITS if named and run.maybe(DO_VALIDATION, True) else SPLITS[:1]


def given(run: Run, split: str) -> str | None:
    """The path the configuration names for a split's packs; None when the builder keeps them in its own place."""
    path = run.value(PATHS[split])
    return path if isinstance(path, str) and path else None


def all_given(run: Run) -> bool:
    """Whether the configuration names the packs of every split, so that the run builds none."""
    return all(given(run, split) is not None for split in packed_splits(run))


def ready(run: Run) -> bool | None:
    """Whether the packs of every split are there: seen on disk, or named and not looked for. None when not known."""
    answer: bool | None = True
    for split in packed_splits(run):
        seen = run.evidence.packs.get(split)
        if seen is not None and seen.missing:
            return False
        if seen is None and given(run, split) is None:
            answer = None
    return answer


def pieces(run: Run) -> int:
    """Into how many pieces context parallelism cuts a sample: 2*CP, together with evaluation's; 1 without it."""
    sizes = (cp_size(run), run.maybe(EVAL_CP) or 1)
    return lcm(*(2 * size for size in sizes if isinstance(size, int) and size > 1))


def is_npy(path: str | None) -> bool:
    """Whether a path is a legacy NumPy pack."""
    return path is not None and path.lower().endswith(NPY_SUFFIX)


@shared
def forgets_multiple(run: Run) -> bool:
    """Whether the release does not hand pad_seq_to_mult to the dataset of the run's parquet packs (0.4, 0.5.0)."""
    if run.release is not R04 and (run.release is not R05 or run.patch != "0.5.0"):
        return False
    return prepares(run) and not is_npy(given(run, "training"))


def is_chat(run: Run) -> bool:
    """Whether samples are conversations: by ``dataset_kwargs.chat``, from 0.6 on also by the preprocessing."""
    if run.release >= R06:
        preprocessing = run.value(PREPROCESSING)
        if preprocessing is not None:
            name = run.settings.class_at(PREPROCESSING)
            return bool(name and name.startswith("Chat"))
        if run.value(f"{KWARGS}.chat") is None:
            return run.is_set(HF_SOURCE)
    return bool(run.value(f"{KWARGS}.chat"))


def answers_only(run: Run) -> bool:
    """Whether only answers are to carry loss."""
    if run.release >= R06 and isinstance(run.value(PREPROCESSING), Object):
        return bool(run.value(f"{PREPROCESSING}.loss_mode") != "full")
    return run.value(f"{KWARGS}.answer_only_loss", True) is not False


def downloads(run: Run) -> bool:
    """Whether the raw data come from Hugging Face into the default cache."""
    if run.release >= R06:
        return run.is_set(HF_SOURCE) and not run.is_set(HF_ROOT)
    return run.dataset_class == "HFDatasetConfig" and not run.is_set(ROOT)
