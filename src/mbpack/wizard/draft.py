"""A job as far as it was answered: explicit answers, defaults with their reasons for the rest, and what follows."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple

from mbpack.config.assemble import build_run
from mbpack.config.context import Context
from mbpack.config.run import Run
from mbpack.facts import formulas
from mbpack.facts.classes import DatasetKind, dataset_kind
from mbpack.facts.formulas import Derived
from mbpack.facts.recipes import Recipe
from mbpack.facts.releases import R04, R06, Release, Version, parse_version
from mbpack.facts.schema import Schema, schema
from mbpack.wizard.answers import PRETRAIN


class Default(NamedTuple):
    """A proposed answer and why it is proposed. ``known`` is False where nothing can be proposed."""

    value: Any
    why: str = ""
    known: bool = True


NO_DEFAULT = Default(None, "", False)


class Refused(Exception):
    """The answers cannot be turned into a configuration; the message is the one clear reason."""

    def __init__(self, reason: str, question: str | None = None) -> None:
        super().__init__(reason)
        self.reason, self.question = reason, question


class Draft:
    """Answers and what they amount to. Never changes: :meth:`having` makes a new one."""

    def __init__(self, answers: Mapping[str, Any]) -> None:
        own = {name for name in ("data_path",) if answers.get(name) is None}  # no path is the recipe's own data
        self.answers = {name: value for name, value in answers.items() if name not in own}
        self._defaults: dict[str, Default] = {}

    def having(self, **more: Any) -> Draft:
        """The draft with further answers."""
        return Draft({**self.answers, **more})

    def given(self, name: str) -> bool:
        """Whether somebody answered the question."""
        return name in self.answers

    def default(self, name: str) -> Default:
        """What would be taken if nobody answers."""
        if name not in self._defaults:
            from mbpack.wizard.defaults import DEFAULTS

            self._defaults[name] = DEFAULTS[name](self)
        return self._defaults[name]

    def get(self, name: str) -> Any:
        """The answer, else the default."""
        return self.answers[name] if name in self.answers else self.default(name).value

    # ------------------------------------------------------------------ release and recipe

    @cached_property
    def version(self) -> Version:
        """The release; raises Refused for an unknown one."""
        try:
            return parse_version(self.get("bridge"))
        except ValueError as error:
            raise Refused(str(error), "bridge") from None

    @property
    def release(self) -> Release:
        return self.version.release

    @cached_property
    def schema(self) -> Schema:
        return schema(self.release.name)

    @cached_property
    def recipe(self) -> Recipe:
        """The recipe; raises Refused when there is none, or none for this workload."""
        from mbpack.wizard.recipe_choice import choose_recipe

        return choose_recipe(self)

    @cached_property
    def base(self) -> Run:
        """The recipe by itself, as the doctor reads it."""
        return build_run(Context(version=self.version, recipe=self.recipe.name), [])

    def recipe_value(self, key: str, default: Any = None) -> Any:
        """What the recipe (or the class default) holds at a canonical key; ``default`` where that is not known."""
        return self.base.maybe(key, default)

    def recipe_count(self, key: str, default: int = 1) -> int:
        """A positive whole number the recipe holds, else ``default``."""
        value = self.recipe_value(key)
        return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else default

    # ------------------------------------------------------------------ kind of job

    @property
    def pretraining(self) -> bool:
        return bool(self.get("workload") == PRETRAIN)

    @cached_property
    def recipe_kind(self) -> DatasetKind:
        """Kind of the dataset the recipe reads."""
        return dataset_kind(self.recipe.dataset_class or "")

    @cached_property
    def dataset_class(self) -> str:
        """Class of the dataset the answers need: the recipe's, or the one that can read the data."""
        from mbpack.wizard.sources import dataset_class

        return dataset_class(self)

    @property
    def kind(self) -> DatasetKind:
        """Kind of that dataset."""
        return dataset_kind(self.dataset_class)

    @property
    def moe(self) -> bool:
        """Whether the model has experts."""
        return self.recipe_value("model.num_moe_experts") is not None

    # ------------------------------------------------------------------ topology

    @property
    def tp(self) -> int:
        return int(self.get("tp"))

    @property
    def pp(self) -> int:
        return int(self.get("pp"))

    @property
    def cp(self) -> int:
        return int(self.get("cp"))

    @property
    def ep(self) -> int:
        return int(self.get("ep"))

    @property
    def etp(self) -> int:
        """Expert tensor parallel size in effect: unset it is 1 with experts spread out from 0.6 on, else TP."""
        size = self.get("etp")
        if size is None:
            return 1 if self.release >= R06 and self.ep > 1 else self.tp
        return int(size)

    @property
    def sp(self) -> bool:
        """Sequence parallel in effect."""
        return self.tp > 1 and bool(self.get("sp"))

    @cached_property
    def dp(self) -> Derived:
        """Data parallel size with its derivation; raises Refused when the GPUs do not divide."""
        try:
            return formulas.data_parallel_size(self.get("gpus"), self.tp, self.pp, self.cp)
        except ValueError as error:
            raise Refused(str(error), "gpus") from None

    @cached_property
    def mult(self) -> Derived:
        """The multiple every packed sample needs, in tokens."""
        eval_cp = self.recipe_value("dist.eval_context_parallel_size")
        return formulas.pad_multiple(self.tp, self.cp, self.sp, eval_cp if isinstance(eval_cp, int) else None)

    @cached_property
    def pack_mult(self) -> Derived:
        """``pad_seq_to_mult`` of offline packs: the multiple, except where 0.4 would lose it on the way to the dataset.

        Without context parallelism it is a precaution: sequence parallelism only needs the row's width to divide.
        """
        if self.release == R04 and self.cp == 1 and self.mult.value > 1:
            return Derived(1, "CP 1, and 0.4 does not hand a larger multiple to parquet packs")
        return self.mult
