"""A run: what the settings amount to, in the words rules are written in.

Everything here follows from :class:`~mbpack.config.settings.Settings` and the context; nothing is stored twice and
nothing is checked. Each property raises :class:`~mbpack.config.settings.Unknown` when one of its inputs is unknown, and
:class:`~mbpack.config.settings.WrongKind` where text stands in the place of a number.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from mbpack.config.document import Interpolation
from mbpack.config.graphs import Graphs, read_graphs
from mbpack.config.reading import Reading
from mbpack.config.settings import ABSENT, Object, Unknown, WrongKind
from mbpack.facts import formulas
from mbpack.facts.classes import DATASET_MARKERS, DatasetKind, dataset_kind
from mbpack.facts.formulas import Derived
from mbpack.facts.keys import COPY, CP, EP, ETP, OFFLINE_SWITCH, PP, SPECS, TP, VPP
from mbpack.facts.modes import ENERGON, GLOBAL_BATCH, IN_BATCH, NONE, OFFLINE, Mode
from mbpack.facts.releases import NIGHTLY, R04, R05, R06, R07

LANGUAGE_GPUS = "model.dist_train.language_world_size"
#: Reason of an Unknown that another finding explains: the rule ends without a word.
MOOT = "moot"
#: Dataset classes whose collate function pads to a multiple and whose validation runs early (0.6 and later).
COLLATING = (DatasetKind.DIRECT_HF, DatasetKind.ENERGON, DatasetKind.MOCK_VLM)


class Run(Reading):
    """One configuration under one context."""

    # ------------------------------------------------------------------ topology

    @cached_property
    def tp(self) -> int:
        return self._size(TP)

    @cached_property
    def pp(self) -> int:
        return self._size(PP)

    @cached_property
    def cp(self) -> int:
        return self._size(CP)

    @cached_property
    def ep(self) -> int:
        return self._size(EP)

    @cached_property
    def vpp(self) -> int | None:
        return None if self.number(VPP) is None else self._size(VPP)

    @cached_property
    def etp(self) -> int:
        """Expert tensor parallel size; unset, it is 1 with expert parallelism from 0.6 on, else TP."""
        size = self.number(ETP)
        if size is None:
            return 1 if self.release >= R06 and self.ep > 1 else self.tp
        return int(size)

    def given_size(self, key: str) -> int | float:
        """A parallel size as the start-up calculates with it: null is 1, a fraction stays one (cfg/float-int says that it is)."""
        size = self.number(key, 1)
        if size.__class__ is float:
            return int(size) if size == int(size) else float(size)
        return 1 if size is None else int(size)

    def _size(self, key: str) -> int:
        size = self.given_size(key)
        if isinstance(size, float):
            raise WrongKind(self.setting(key))
        return size

    @cached_property
    def sp_asked(self) -> bool:
        """Sequence parallel as it is set, whatever TP is."""
        return self.flag("model.sequence_parallel")

    @cached_property
    def sp(self) -> bool:
        """Sequence parallel in effect: it needs TP above 1."""
        return self.tp > 1 and self.sp_asked

    @cached_property
    def eval_cp(self) -> int | None:
        """Evaluation context parallel size where one is set (0.5 and later)."""
        if self.release < R05 or self.number("dist.eval_context_parallel_size") is None:
            return None
        return self._size("dist.eval_context_parallel_size")

    @cached_property
    def apart(self) -> bool:
        """Whether vision and language run on GPUs of their own (``dist_train`` of Qwen3-VL, 0.5 and later)."""
        if self.release < R05 or self.settings.class_at("model.dist_train") != "DistTrainConfig":
            return False
        return self.is_true("model.dist_train.use_dist_train")

    @cached_property
    def copy_gpus(self) -> int:
        """GPUs that are divided among the copies of the model: all, or those of the language where vision has its own."""
        if not self.apart:
            return self.gpus
        size = self.number(LANGUAGE_GPUS)
        if not isinstance(size, int):
            raise Unknown(LANGUAGE_GPUS, (), MOOT)
        return size

    @cached_property
    def dp(self) -> int:
        """Data parallel size. Raises Unknown when the GPUs do not divide (``topo/world-divisible`` says so)."""
        size = formulas.product(map(self.given_size, COPY))
        if size <= 0 or self.copy_gpus % size:
            raise Unknown("data_parallel_size", (), MOOT)
        return int(self.copy_gpus // size)

    @property
    def known_dp(self) -> int | None:
        """Data parallel size, or None where it is not known: for fixes and wording."""
        try:
            return self.dp
        except (Unknown, WrongKind):
            return None

    @cached_property
    def eval_dp(self) -> int:
        """Data parallel size of the evaluation layout; before 0.6 always that of training."""
        if self.release < R06 or self.eval_cp is None:
            return self.dp
        size = self.given_size(TP) * self.given_size(PP) * self.eval_cp
        if size <= 0 or self.copy_gpus % size:
            raise Unknown("eval_data_parallel_size", (), MOOT)
        return int(self.copy_gpus // size)

    @cached_property
    def mult(self) -> Derived:
        """The multiple every packed sample needs for this topology, in tokens."""
        return formulas.pad_multiple(self.tp, self.cp, self.sp, self.eval_cp)

    @cached_property
    def dynamic_cp(self) -> bool:
        """Whether samples are dealt to groups of ranks of their own size (nightly)."""
        return self.release >= NIGHTLY and self.flag("model.dynamic_context_parallel")

    @cached_property
    def online_multiple(self) -> Derived:
        """The multiple that global-batch packing pads every sample to, in tokens."""
        if self.dynamic_cp:
            return formulas.dynamic_cp_multiple(self.dp, self.tp, self.cp, self.sp, self.eval_cp)
        return self.mult

    # ------------------------------------------------------------------ batch and schedule

    @cached_property
    def mbs(self) -> Any:
        return self.number("train.micro_batch_size")

    @cached_property
    def gbs(self) -> Any:
        return self.number("train.global_batch_size")

    @cached_property
    def eval_mbs(self) -> Any:
        """Evaluation micro batch size; unset (or before 0.5) that of training."""
        size = self.number("validation.eval_micro_batch_size") if self.release >= R05 else None
        return self.mbs if size is None else size

    @cached_property
    def eval_gbs(self) -> Any:
        """Evaluation global batch size; unset (or before 0.5) that of training."""
        size = self.number("validation.eval_global_batch_size") if self.release >= R05 else None
        return self.gbs if size is None else size

    @cached_property
    def microbatches(self) -> Derived:
        """Microbatches per step and rank; raises Unknown where the batch does not divide."""
        mbs, gbs, dp = self.mbs, self.gbs, self.dp
        if not mbs or not gbs or mbs < 0 or gbs < 0 or mbs % 1 or gbs % 1 or gbs % (mbs * dp):  # % 1: fractions, no number
            raise Unknown("num_microbatches", (), MOOT)
        return formulas.num_microbatches(int(gbs), int(mbs), dp)

    # ------------------------------------------------------------------ dataset and packing

    @cached_property
    def dataset_class(self) -> str:
        """Short name of the dataset class; raises Unknown where neither file nor recipe names it."""
        cls = self.settings.class_at("dataset")
        if cls is None:
            raise Unknown("dataset._target_", () if self.settings.base_known else ("recipe",))
        return cls

    @cached_property
    def dataset(self) -> DatasetKind:
        """Kind of dataset: from its class, else from keys that only one kind has."""
        section = self.settings.peek("dataset")
        if (
            section is not None
            and section.item is not None
            and (section.value is None or not isinstance(section.item.value, (dict, Interpolation)))
        ):
            return DatasetKind.NONE  # nothing in which the start-up would find a field of a dataset
        cls = self.settings.class_at("dataset")
        if cls is not None:
            return dataset_kind(cls)
        if self.complete and section is not None and isinstance(section.value, Object) and section.value.target is None:
            return DatasetKind.NONE  # a plain dictionary
        if self.settings.target_at("dataset") is not None:
            return DatasetKind.OTHER
        if not self.settings.base_known or ("dataset",) in self.settings.classes.clouded:
            for name, item, _ in self.settings.sections():
                if name == "dataset" and isinstance(item.value, dict):
                    for marker, kind in DATASET_MARKERS:
                        if marker in item.value:
                            return kind
        raise Unknown("dataset._target_", () if self.settings.base_known else ("recipe",))

    @cached_property
    def finetuning(self) -> bool:
        """Whether the dataset is of a class that fine-tuning checks look at in this release."""
        kind = self.dataset
        return kind is DatasetKind.GPT_SFT or (self.release >= R06 and kind in COLLATING)

    @cached_property
    def specs(self) -> Any:
        """The offline packing specs: an Object, None, or (absent) None for classes without them."""
        return self.value(SPECS)

    @cached_property
    def specs_plain(self) -> bool:
        """Whether the specs are a plain mapping rather than an object, on which upstream's attribute access fails."""
        known = isinstance(self.specs, Object) and self.settings.base_known
        return known and self.settings.class_at(SPECS) is None

    @property
    def has_specs(self) -> bool:
        """Whether there are packing specs that are an object of their class."""
        return self.specs is not None and not self.specs_plain

    @cached_property
    def offline(self) -> bool:
        """Whether offline packing is on: up to 0.5 specs with a positive size, from 0.6 on the switch."""
        if self.release >= R06:
            switch = self.value(OFFLINE_SWITCH, False)
            return bool(switch)
        if self.specs is None or self.dataset is not DatasetKind.GPT_SFT:
            return False
        if self.specs_plain:
            return True
        size = self.number("dataset.offline_packing_specs.packed_sequence_size")
        return size is not None and size > 0

    @cached_property
    def in_batch(self) -> bool:
        """Whether in-batch packing is on."""
        return self.flag("dataset.enable_in_batch_packing")

    @cached_property
    def energon_packing(self) -> bool:
        """Whether the Energon loader packs natively (0.7 and later)."""
        if self.release < R07 or self.dataset is not DatasetKind.ENERGON:
            return False
        return self.is_set("dataset.packing_buffer_size")

    @cached_property
    def global_batch(self) -> bool:
        """Whether global-batch online packing is on (0.7 and later)."""
        return self.release >= R07 and self.flag("dataset.enable_global_batch_packing")

    @cached_property
    def packed(self) -> bool:
        """Whether any packing mode is on; one that is certainly on decides, whatever else is unknown."""
        return self._any_mode() is not NONE

    @cached_property
    def mode(self) -> Mode:
        """The packing mode that is on. Raises Unknown when it cannot be told."""
        return self._any_mode()

    def _any_mode(self) -> Mode:
        unknown: Unknown | None = None
        for name, mode in (
            ("offline", OFFLINE),
            ("global_batch", GLOBAL_BATCH),
            ("energon_packing", ENERGON),
            ("in_batch", IN_BATCH),
        ):
            try:
                if getattr(self, name):
                    return mode
            except Unknown as reason:
                unknown = unknown or reason
        if unknown is not None:
            raise unknown
        return NONE

    @cached_property
    def fixed_width(self) -> bool:
        """Whether every row has the same width: ``pad_to_max_length`` is the boolean true."""
        if self.value("dataset.dataset_kwargs.pad_to_max_length") is True:
            return True
        return self.is_true("dataset.pad_to_max_length")

    @cached_property
    def pack_size(self) -> Any:
        """``packed_sequence_size`` of the offline specs, in tokens."""
        return self.number("dataset.offline_packing_specs.packed_sequence_size")

    @cached_property
    def width(self) -> Any:
        """Width of a row in tokens: the pack size when packed offline, else the dataset's sequence length."""
        return self.pack_size if self.offline else self.number("dataset.seq_length")

    # ------------------------------------------------------------------ model

    @cached_property
    def model_class(self) -> str:
        """Short name of the model class; raises Unknown where neither file nor recipe names it."""
        cls = self.settings.class_at("model")
        if cls is None:
            raise Unknown("model._target_", () if self.settings.base_known else ("recipe",))
        return cls

    @cached_property
    def nested_model(self) -> bool:
        """Whether the model's Megatron-Core settings live in ``model.transformer`` (0.4 and later)."""
        return self.release >= R04 and self.settings.schema.nested_transformer(self.model_class)

    @cached_property
    def moe(self) -> bool:
        """Whether the model has experts; a recipe that spreads them over ranks has, also where nobody knows how many.

        Raises:
            Unknown: nobody knows the public model that the recipe converts.
        """
        experts, recipe = self.setting("model.num_moe_experts"), self.settings.recipe
        if experts.value is not ABSENT and experts.value is not None:
            return True
        if recipe is None or experts.item is not None:
            return False
        if recipe.guessed and not recipe.spreads_experts:
            raise Unknown(experts.key, (), f"what {recipe.hf_id or 'the public model'} holds is not known")
        return recipe.spreads_experts

    @cached_property
    def graphs(self) -> Graphs:
        """CUDA graph settings, read as this release's Megatron-Core reads them."""
        return read_graphs(self)
