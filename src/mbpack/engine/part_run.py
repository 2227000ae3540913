"""A run over a set of recipes: what it amounts to is asked of all of them at once, and what is read for it is noted."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

from mbpack.config.context import Context
from mbpack.config.evidence import NOTHING, Evidence
from mbpack.config.overrides import Override, OverrideProblem
from mbpack.config.run import Run
from mbpack.config.settings import Setting
from mbpack.engine.columns import NOTED, Asked, Column, note, unnoted
from mbpack.engine.part_settings import SettingsOver, alone
from mbpack.facts.recipe_sets import RecipeTable

#: What is read beside settings and is the same before and after a change of the files.
_GIVEN = frozenset({"context", "overrides"})


class PartRun(Run):
    """A run over a set of recipes; the launcher is not noted: what is shared is shared under one launcher."""

    over: RunOver
    kept: dict[str, tuple[Any, Column]]  # answers to what every run is asked

    @property
    def context(self) -> Context:  # type: ignore[override]
        """See :class:`~mbpack.config.reading.Reading`, as the following."""
        note("context")
        found: Context = self.__dict__["context"]
        return found

    @property
    def evidence(self) -> Evidence:  # type: ignore[override]
        note("evidence")
        found: Evidence = self.__dict__["evidence"]
        return found

    @property
    def overrides(self) -> tuple[Override | OverrideProblem, ...]:  # type: ignore[override]
        note("overrides")
        found: tuple[Override | OverrideProblem, ...] = self.__dict__["overrides"]
        return found

    @property
    def stopped(self) -> list[tuple[Setting, str]]:
        note("stopped")
        found: list[tuple[Setting, str]] = self.__dict__["stopped"]
        return found

    @stopped.setter
    def stopped(self, stopped: list[tuple[Setting, str]]) -> None:
        self.__dict__["stopped"] = stopped

    @property
    def launcher(self) -> str:
        """See :class:`~mbpack.config.reading.Reading`, as the following."""
        return unnoted(lambda: super(PartRun, self).launcher)

    @property
    def repaired(self) -> bool:
        return unnoted(lambda: super(PartRun, self).repaired)


class _Shared:
    """A property that is worked out once for all recipes that answer it alike."""

    def __init__(self, name: str, work_out: Callable[[Any], Any]) -> None:
        self.name, self.work_out = name, work_out

    def __get__(self, run: Any, owner: Any = None) -> Any:
        kept = run.kept.get(self.name)
        if kept is None:
            kept = run.kept[self.name] = run.over.told(self.name, run.settings.mask, self.work_out)
        elif NOTED:
            NOTED[-1].add(kept[1])
        return kept[0]


for _name, _held in list(vars(Run).items()):
    if isinstance(_held, cached_property):
        setattr(PartRun, _name, _Shared(_name, _held.func))


class _Among:
    """Whether something of a kind is among what was read, also for other answers on the way; what is found is kept."""

    def __init__(self, is_one: Callable[[Any], bool]) -> None:
        self._is_one = is_one
        self._found: dict[Any, bool] = {}

    def any(self, reads: set[Any]) -> bool:
        """Whether one is in a set."""
        return any(map(self.among, reads))

    def among(self, read: Any) -> bool:
        """Whether something that was read is one, or follows from one."""
        found = self._found.get(read)
        if found is None:
            self._found[read] = True  # what follows from itself: nobody knows
            found = self._found[read] = self.any(read.reads) if read.__class__ is Column else self._is_one(read)
        return found


class RunOver(Asked[PartRun]):
    """What was asked of one configuration under one context.

    ``alone`` is that of the recipes with nothing written over them, ``before`` that of the configuration from which this one differs
    by what its settings say is changed, and by what was found on disk where ``found_other``.
    """

    def __init__(
        self,
        run: Run,
        settings: SettingsOver,
        alone: RunOver | None = None,
        before: RunOver | None = None,
        found_other: bool = False,
    ) -> None:
        super().__init__(settings.everybody, self._run)
        self.settings, self._alone = settings, alone
        self._before = before if settings.before is not None else None
        self._same = _GIVEN if found_other else _GIVEN | {"evidence"}
        self._blank = vars(Run(run.settings, run.context, run.evidence, run.overrides))
        self._sources: dict[Any, RunOver] = {}
        self._own, self._other = _Among(self._is_own), _Among(self._is_other)

    def _run(self, mask: int) -> PartRun:
        new = object.__new__(PartRun)
        vars(new).update(self._blank, settings=self.settings.part(mask), over=self, stopped=[], memo={}, kept={})
        return new

    def told(self, question: Any, mask: int, answer: Callable[[PartRun], Any]) -> tuple[Any, Column]:
        """See :meth:`Asked.told`: others are asked where all that the answer follows from is the same for them."""
        source = self._sources.get(question)
        if source is None:
            source = self._sources[question] = self._source(question, answer)
        return source.told(question, mask, answer) if source is not self else super().told(question, mask, answer)

    def _source(self, question: Any, answer: Callable[[PartRun], Any]) -> RunOver:
        if self._alone is not None:
            if not self._own.among(self._alone.column(question, self.everybody, answer)):
                return self._alone
        if self._before is not None:
            source = self._before._sources.get(question)
            if source is self._before and not self._other.among(source.column(question, self.everybody, answer)):
                return source
        return self

    def is_other(self, reads: set[Any]) -> bool:
        """Whether something that was read for an answer before may be another now."""
        return self._other.any(reads)

    def _is_own(self, read: Any) -> bool:
        return read.__class__ is str or self._alone is None or self.settings.source(read) is not self._alone.settings

    def _is_other(self, read: Any) -> bool:
        return read not in self._same if read.__class__ is str else self.settings.is_changed(read)


_asked: dict[Any, RunOver | None] = {}


def _run_alone(run: Run, table: RecipeTable) -> RunOver | None:
    """What the recipes answer under the launcher of a run; None for the first one, for which it costs more than it saves."""
    mark = run.settings.version, run.context.launcher
    if mark not in _asked:
        _asked[mark] = None
        return None
    found = _asked[mark]
    if found is None:
        settings = alone(run.settings.version, table)
        found = _asked[mark] = RunOver(Run(settings.part(table.all), run.context), settings)
    return found


def over_recipes(run: Run, table: RecipeTable, mask: int, settings: SettingsOver | None = None) -> RunOver:
    """A run without a recipe, put on all recipes of a mask; ``settings``: what its settings were asked already."""
    if settings is None:
        settings = SettingsOver(run.settings, table, mask, alone(run.settings.version, table))
    shares = settings.is_plain and not run.overrides and run.evidence is NOTHING
    return RunOver(run, settings, _run_alone(run, table) if shares else None)


def after_change(run: Run, before: RunOver, settings: SettingsOver, found_other: bool) -> RunOver:
    """A run over the recipes of another; ``settings`` say from what they differ."""
    table = settings.table
    shares = settings.is_plain and not run.overrides and run.evidence is NOTHING
    return RunOver(run, settings, _run_alone(run, table) if shares else None, before, found_other)
