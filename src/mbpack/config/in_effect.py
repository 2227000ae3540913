"""Packing values as they are in effect when a run starts, after what ``run_recipe.py`` repairs (0.6 and later).

Everything here is read, nothing is checked. Each function raises :class:`~mbpack.config.settings.Unknown` when an input
is unknown.
"""

from __future__ import annotations

from typing import Any

from mbpack.config.run import COLLATING, Run
from mbpack.config.settings import Unknown
from mbpack.config.shared import shared
from mbpack.facts import formulas
from mbpack.facts.classes import DatasetKind
from mbpack.facts.formulas import Derived
from mbpack.facts.keys import SPECS
from mbpack.facts.patterns import lazy
from mbpack.facts.releases import R06, R07
from mbpack.facts.widths import IN_BATCH_FIXED_SINCE

PACK_SIZE, PAD_MULT = f"{SPECS}.packed_sequence_size", f"{SPECS}.pad_seq_to_mult"
TRAIN_PACKS = f"{SPECS}.packed_train_data_path"
KWARGS_WIDTH = "dataset.dataset_kwargs.pad_to_max_length"
IN_BATCH = "dataset.enable_in_batch_packing"
DATA_SEQ, MODEL_SEQ = "dataset.seq_length", "model.seq_length"
EVAL_CP = "dist.eval_context_parallel_size"
CP_KEY, TP_KEY = "model.context_parallel_size", "model.tensor_model_parallel_size"

_NAMED_MULTIPLE = lazy(r"pad_seq_to_mult(\d+)")
#: Dataset classes whose samples in-batch packing concatenates, up to 0.5 and from 0.6 on.
_PACKS_IN_BATCH = {
    False: (DatasetKind.CONVERSATION, DatasetKind.ENERGON, DatasetKind.MOCK_VLM, DatasetKind.OTHER),
    True: (*COLLATING, DatasetKind.OTHER),
}


def whole(value: Any, key: str) -> int | None:
    """A number as an int, None for null. Raises Unknown for fractions, infinities and the like."""
    if value is None:
        return None
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    raise Unknown(key, (), "it is no whole number")


def size(value: Any, key: str) -> int:
    """A parallel size as a positive int. Raises Unknown for anything else."""
    number = whole(value, key)
    if number is None or number < 1:
        raise Unknown(key, (), "it is no positive whole number")
    return number


@shared
def count(run: Run, key: str) -> int | None:
    """The whole number a key holds, None where it is null or has no field."""
    return whole(run.number(key), key)


@shared
def cp_size(run: Run) -> int:
    """Context parallel size."""
    return size(run.cp, CP_KEY)


@shared
def tp_size(run: Run) -> int:
    """Tensor parallel size."""
    return size(run.tp, TP_KEY)


@shared
def eval_cp_size(run: Run) -> int | None:
    """Evaluation context parallel size where one is set."""
    return None if run.eval_cp is None else size(run.eval_cp, EVAL_CP)


@shared
def needed_multiple(run: Run) -> Derived:
    """The multiple every packed sample needs for this topology, in tokens."""
    return formulas.pad_multiple(tp_size(run), cp_size(run), run.sp, eval_cp_size(run))


@shared
def likely_multiple(run: Run) -> Derived:
    """The needed multiple as far as the topology is known, for wording and fixes.

    What nobody gave counts as 1 or off.
    """
    tp, cp, eval_cp = (_known(run, key) for key in (TP_KEY, CP_KEY, EVAL_CP))
    return formulas.pad_multiple(tp or 1, cp or 1, bool(run.maybe("model.sequence_parallel", False)), eval_cp)


def _known(run: Run, key: str) -> int | None:
    """A parallel size as far as it is known and usable."""
    value = run.maybe(key)
    return value if isinstance(value, int) and value > 0 else None


@shared
def pack_size(run: Run) -> int | None:
    """Tokens of an offline pack: ``run_recipe.py`` replaces the size by ``dataset.seq_length``."""
    return count(run, DATA_SEQ if run.repaired else PACK_SIZE)


@shared
def pad_multiple(run: Run) -> int | None:
    """What samples are padded to before offline packing: ``run_recipe.py`` takes the lcm with what is needed."""
    own = count(run, PAD_MULT)
    if not run.repaired:
        return own
    return formulas.lcm(own if own is not None and own > 0 else 1, needed_multiple(run).value)


@shared
def sample_limit(run: Run) -> int | None:
    """Tokens a single sample is cut to before offline packing."""
    own = count(run, f"{SPECS}.max_single_sequence_length") if run.release >= R06 else None
    return own or count(run, DATA_SEQ)


@shared
def fixed_width(run: Run) -> bool:
    """Whether every row has the same width; GPT-SFT datasets only have the switch in ``dataset_kwargs``."""
    if run.value(KWARGS_WIDTH) is True:
        return True
    return run.dataset is not DatasetKind.GPT_SFT and run.is_true("dataset.pad_to_max_length")


def packs_given(run: Run) -> str | None:
    """Where packs lie that the run does not build itself, None when the builder manages them."""
    path = run.value(TRAIN_PACKS)
    return path if isinstance(path, str) and path else None


def multiple_named(path: str) -> int | None:
    """The padding multiple in the directory name of a pack, as the builder writes it; None when the path has none."""
    found = _NAMED_MULTIPLE.search(path)
    return int(found[1]) if found else None


@shared
def packs_in_batch(run: Run) -> bool:
    """Whether in-batch packing happens: the switch is on, on a class of the release that knows it."""
    if not run.in_batch:
        return False
    if run.dataset is DatasetKind.GPT_SFT:
        return run.release >= R07
    return run.dataset in _PACKS_IN_BATCH[run.release >= R06]


@shared
def in_batch_fixed(run: Run) -> bool:
    """Whether in-batch rows all have the same width (0.7 and later; pipeline and expert parallelism switch it on)."""
    if run.release < IN_BATCH_FIXED_SINCE:
        return False
    return fixed_width(run) or (run.dataset in COLLATING and (run.pp > 1 or run.ep > 1))


@shared
def width_unit(run: Run) -> Derived:
    """What the width of a row is split over: CP, times TP with sequence parallel."""
    return formulas.local_width_divisor(tp_size(run), cp_size(run), run.sp)
