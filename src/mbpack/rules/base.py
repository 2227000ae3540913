"""What a rule is, and what it says when it fires.

A rule is one small class: its code and slug, the releases it concerns, its documentation (the docstring, with fixed
headings that ``mbpack explain`` prints and whose YAML the tests execute) and :meth:`Rule.check`, which reads a
:class:`~mbpack.config.run.Run` and yields findings. Rules do no I/O and change nothing. Reading an unknown value ends
the rule; the engine then lists it under "not checked".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, ClassVar, NamedTuple

from msgspec import Struct

from mbpack.config.run import Run
from mbpack.config.settings import Setting
from mbpack.facts.releases import NIGHTLY, R03, Release

#: From the worst to the mildest.
SEVERITIES = ("error", "warning", "info")


class Outcome(NamedTuple):
    """How bad a finding is, what happens if nothing is done, and when."""

    severity: str  # error | warning | info
    consequence: str  # rejected | crash | silent | ignored | waste | note
    when: str  # load | validate | data | first-step | evaluation | resume | always

    def as_warning(self) -> Outcome:
        """The same, as a warning."""
        return self._replace(severity="warning")

    def as_info(self) -> Outcome:
        """The same, as a note in passing."""
        return self._replace(severity="info")


REJECTED = Outcome("error", "rejected", "validate")
REJECTED_LOAD = Outcome("error", "rejected", "load")
CRASH_DATA = Outcome("error", "crash", "data")
CRASH_STEP = Outcome("error", "crash", "first-step")
CRASH_EVAL = Outcome("error", "crash", "evaluation")
CRASH_RESUME = Outcome("error", "crash", "resume")
CRASH_LATER = Outcome("error", "crash", "always")
SILENT = Outcome("error", "silent", "always")
SILENT_EVAL = Outcome("error", "silent", "evaluation")
SILENT_RESUME = Outcome("error", "silent", "resume")
IGNORED = Outcome("error", "ignored", "load")
IGNORED_ATTRIBUTE = Outcome("error", "ignored", "always")
WASTE = Outcome("warning", "waste", "always")
NOTE = Outcome("info", "note", "always")
DERIVED = Outcome("info", "note", "validate")
LAUNCHER_SETS = Outcome("info", "note", "load")
LAUNCHER_OVERRIDES = Outcome("warning", "ignored", "load")


class Edit(NamedTuple):
    """One change of a key, in the names of the release: ``set`` a value, ``delete`` it, or ``rename`` it to ``to``."""

    op: str
    key: str
    value: Any = None
    to: str | None = None


class Fix(NamedTuple):
    """How to mend it. ``safe``: the same training, now valid. Otherwise the title says what else changes.

    A fix without edits is advice in words: nothing follows from the rest of the configuration.
    """

    title: str
    edits: tuple[Edit, ...] = ()
    safe: bool = False


class HoldsFor(NamedTuple):
    """For how many values of an input that nobody named a finding holds, with some of either kind.

    ``input`` is "recipe", "launcher", "gpus", "gpu" or "bridge"; ``also`` is what it needs beside, such as "launcher script".
    """

    number: int
    of: int
    such_as: tuple[str, ...] = ()
    not_with: tuple[str, ...] = ()
    input: str = "recipe"
    also: str = ""


class Finding(Struct, frozen=True):
    """One problem at one place."""

    rule: Rule
    outcome: Outcome
    message: str
    why: str
    setting: Setting
    related: tuple[Setting, ...] = ()
    fix: Fix | None = None
    caret: str = ""
    station: str = ""
    on_key: bool = False  # the place is the key rather than its value
    offset: int | None = None  # among refusals at load: where the loader stops, as a character offset
    holds_for: HoldsFor | None = None  # where something is not known and only some of what it may be bring it about


class Rule:
    """Base of all rules. Subclasses set ``code`` and ``slug``, document themselves and implement :meth:`check`."""

    code: ClassVar[str]
    slug: ClassVar[str]
    #: First and last release the rule concerns.
    releases: ClassVar[tuple[Release, Release]] = (R03, NIGHTLY)
    #: Whether it can refuse a start-up; then an unknown input leaves the verdict open.
    rejects: ClassVar[bool] = False
    #: Whether an unknown input is worth a line under "not checked"; notes and hints are not.
    reports_unknown: ClassVar[bool] = True
    #: Whether it concerns what a program sets on the objects themselves too, and not only files that are loaded and merged.
    programs: ClassVar[bool] = True
    #: Is about objects that the recipe holds: where nobody names one, it may as well be one of the user's own.
    about_the_recipe: ClassVar[bool] = False
    #: Whether its note is the same on nearly every run of a release: the text report leaves it out unless asked for all.
    routine: ClassVar[bool] = False
    #: Says nothing graver than a note: over many recipes it is told only where all of them bring it.
    notes_only: ClassVar[bool] = False
    #: Reads what the others found; over many recipes, where that differs, it is not asked.
    reads_findings: ClassVar[bool] = False
    #: Runs after the others, because it reads what stopped them.
    late: ClassVar[bool] = False

    def check(self, run: Run) -> Iterable[Finding]:
        """Yield what is wrong with a run.

        Raises:
            Unknown: an input is unknown; the rule cannot be judged.
            WrongKind: a value is text where a number is needed; the value rules report that.
        """
        raise NotImplementedError

    def stops_at(self, run: Run) -> str:
        """The station where upstream stops when a value of this rule is text instead of a number; "" where it does not."""
        return self.slug if self.rejects else ""

    def says_the_same(self, before: Run, after: Run, changed: Collection[tuple[str, ...]]) -> bool:
        """Of a rule that reads what others found: whether the change from one run to another certainly leaves its answer as it is."""
        return False

    def applies(self, release: Release) -> bool:
        """Whether the rule concerns a release."""
        return self.releases[0] <= release <= self.releases[1]

    @property
    def topic(self) -> str:
        """What it is about: the first part of the slug, unless the rule says otherwise."""
        return self.slug.partition("/")[0]

    def finding(
        self,
        run: Run,
        outcome: Outcome,
        key: str,
        message: str,
        *,
        why: str = "",
        related: Iterable[str] = (),
        fix: Fix | None = None,
        caret: str = "",
        station: str = "",
        on_key: bool = False,
        setting: Setting | None = None,
        offset: int | None = None,
    ) -> Finding:
        """A finding at a canonical key, with the settings it follows from as related places.

        Raises:
            ValueError: the fix removes a key and calls itself safe; what somebody wrote is never removed unasked. Or the
                outcome is no note though the rule says that it has nothing else.
        """
        if self.notes_only and outcome.severity != "info":
            raise ValueError(f"{self.code}: says of itself that it only has notes")
        if fix is not None and fix.safe and any(edit.op == "delete" for edit in fix.edits):
            raise ValueError(f"{self.code}: removing a key is no safe fix")
        return Finding(
            rule=self,
            outcome=outcome,
            message=message,
            why=why,
            setting=setting or place(run, key),
            related=tuple(place(run, other) for other in related if run.settings.peek(other) is not None),
            fix=fix,
            caret=caret,
            station=station or self.slug,
            on_key=on_key,
            offset=offset,
        )


class RejectingRule(Rule):
    """A rule that upstream checks itself, at load or in ``ConfigContainer.validate``."""

    rejects = True


def place(run: Run, key: str) -> Setting:
    """The setting of a key, or a stand-in without a place where it is unknown."""
    found = run.settings.peek(key)
    if found is not None:
        return found
    from mbpack.config.settings import ABSENT, Origin
    from mbpack.facts.keys import path_in

    return Setting(path_in(run.release, key), ABSENT, Origin.DEFAULT)


def built_at(run: Run, key: str) -> int | None:
    """Where the strict loader builds the object at a canonical key: after everything inside its mapping."""
    setting = run.settings.written(key)
    return setting.item.span.end if setting is not None and setting.item is not None else None


def set_to(run: Run, *pairs: tuple[str, Any]) -> tuple[Edit, ...]:
    """Edits that set canonical keys, spelled as the run's release spells them; none where a value is an object of the file."""
    from mbpack.config.settings import Object
    from mbpack.facts.keys import path_in

    if any(isinstance(value, Object) for _, value in pairs):
        return ()
    return tuple(Edit("set", path_in(run.release, key), value) for key, value in pairs)


def words(items: Iterable[Any], joiner: str = "and") -> str:
    """Items as English: ``a, b and c``."""
    texts = [str(item) for item in items]
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} {joiner} {texts[-1]}" if texts else ""


def in_yaml(value: Any) -> str:
    """A value as a file spells it: ``null``, ``true``; texts without quotes."""
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def is_blank(value: Any) -> bool:
    """Whether a value is no text, or one of white space."""
    return not isinstance(value, str) or not value.strip()


def is_number(value: Any) -> bool:
    """Whether arithmetic works on a value (booleans count as numbers, as in Python)."""
    return isinstance(value, (int, float))
