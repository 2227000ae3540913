"""What nobody named beside the file and what has few values: the launcher, the number of GPUs, their kind.

The rules that ask for it are asked under each of its values. What holds under all of them is what it is; what holds under some is a
warning at most and says under which, and a note where it is a number of GPUs: every batch is refused from some number on. Recipes are many, and are asked another way (`mbpack.engine.over_recipes`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from mbpack.config.answers import Unknown, WrongKind
from mbpack.config.context import LAUNCHERS
from mbpack.config.run import Run
from mbpack.engine.merge import at_most_a_warning, place_of, ranged
from mbpack.engine.reads import reads
from mbpack.engine.result import NotChecked
from mbpack.facts.formulas import product
from mbpack.facts.gpus import GPUS
from mbpack.facts.keys import COPY
from mbpack.rules.base import SEVERITIES, Finding, HoldsFor, Rule

#: Data parallel sizes that stand for all: a copy of the model, and two, four ... of them.
_COPIES = tuple(2**power for power in range(11))
#: GPUs beyond which nobody asks.
_MOST_GPUS = 4096
#: The generation that long packed runs are hardly on any more.
_SELDOM = "sm80"

Answers = dict[Rule, list[list[Finding] | None]]


class Input(Struct, frozen=True):
    """Something that is not known: its name in the context, and the values it may have."""

    name: str
    values: tuple[Any, ...]

    def run(self, run: Run, value: Any) -> Run:
        """The same run with one of the values."""
        context = replace(run.context, **{self.name: value})
        new = Run(run.settings, context, run.evidence, run.overrides)
        new.stopped = list(run.stopped)
        return new

    def is_asked_by(self, rule: Rule) -> bool:
        """Whether a rule may ask for it."""
        known = reads().get(rule.slug)
        return known is None or any(f"@{self.name}" in keys for keys in known)


def launcher(run: Run) -> Input | None:
    """The launcher where nobody names it."""
    return Input("launcher", LAUNCHERS) if run.context.launcher is None else None


def inputs(run: Run) -> Iterator[Input]:
    """What is not known beside the recipe."""
    unknown = launcher(run)
    if unknown is not None:
        yield unknown
    if run.context.gpus is None:
        counts = _counts(run)
        if counts:
            yield Input("gpus", counts)
    if run.context.gpu is None and run.gpu is None:
        yield Input("gpu", tuple(GPUS))


def _counts(run: Run) -> tuple[int, ...]:
    """Numbers of GPUs that hold whole copies of the model; none where its sizes are not known."""
    try:
        size = product(map(run.given_size, COPY))
    except (Unknown, WrongKind):
        return ()
    return tuple(size * copies for copies in _COPIES if size * copies <= _MOST_GPUS) if isinstance(size, int) and size > 0 else ()


def spread(
    run: Run, found: Sequence[Finding], not_checked: Sequence[NotChecked], rules: Sequence[Rule]
) -> tuple[list[Finding], list[NotChecked]]:
    """The findings and open rules of a run when each unknown input takes each of its values."""
    findings, left = list(found), list(not_checked)
    for unknown in inputs(run):
        lacking = {entry.rule for entry in left if unknown.name in entry.needs}
        wanted = [
            rule
            for rule in rules
            if not rule.reads_findings and (rule in lacking or (unknown.name == "launcher" and unknown.is_asked_by(rule)))
        ]
        for rule, answers in _ask(run, unknown, wanted).items():
            said = [one for one in answers if one is not None]
            if len(said) < len(answers):
                continue  # something else is missing too
            if unknown.name == "gpu" and not _on_usual_gpus(unknown, said):
                continue  # a word about it would be wrong for nearly everybody: it stays among what is not checked
            findings = [finding for finding in findings if finding.rule is not rule] + list(over_values(unknown, said))
            left = [entry for entry in left if entry.rule is not rule]
    return findings, left


def _on_usual_gpus(unknown: Input, said: Sequence[Sequence[Finding]]) -> bool:
    """Whether what is found is found on a GPU that releases are trained on, or nothing is found at all."""
    found = [value for value, findings in zip(unknown.values, said, strict=True) if findings]
    return not found or any(GPUS[value].generation != _SELDOM for value in found)


def _ask(run: Run, unknown: Input, rules: Sequence[Rule]) -> Answers:
    answers: Answers = {rule: [] for rule in rules}
    for value in unknown.values if rules else ():
        new = unknown.run(run, value)
        for rule in rules:
            try:
                answers[rule].append(list(rule.check(new)))
            except (Unknown, WrongKind):
                answers[rule].append(None)
    return answers


def over_values(unknown: Input, said: Sequence[Sequence[Finding]]) -> Iterator[Finding]:
    """What a rule says under each value, in the order of the values, as one finding a place."""
    places: dict[Any, dict[int, Finding]] = {}
    for index, findings in enumerate(said):
        for finding in findings:
            places.setdefault(place_of(finding), {}).setdefault(index, finding)
    for entries in places.values():
        merged = _merged(unknown, entries)
        if merged is not None:
            yield merged


def _merged(unknown: Input, entries: dict[int, Finding]) -> Finding | None:
    """One finding; None for a note that only some values bring. Where some bring a graver one, that is what is told."""
    everywhere = len(entries) == len(unknown.values)
    worst = min(map(_severity, entries.values()))
    if SEVERITIES[worst] == "info":
        return entries[0] if everywhere else None
    held = {index: finding for index, finding in entries.items() if _severity(finding) == worst}
    first = next(iter(held.values()))
    shown = replace(first, message=ranged([one.message for one in held.values()], first.message))
    if len(held) == len(unknown.values):
        milder = next((one for one in held.values() if one.outcome.consequence != "rejected"), first)
        return replace(shown, outcome=milder.outcome)
    names = [str(value) for value in unknown.values]
    with_it = tuple(name for index, name in enumerate(names) if index in held)
    return dependent(shown, unknown, with_it, tuple(name for index, name in enumerate(names) if index not in held))


def dependent(finding: Finding, unknown: Input, held: tuple[str, ...], others: tuple[str, ...]) -> Finding:
    """A finding that some values of an unknown input bring; one that depends on the recipe already says both."""
    fix = finding.fix._replace(safe=False) if finding.fix is not None else None
    outcome = at_most_a_warning(finding.outcome)
    if unknown.name == "gpus":  # nothing is wrong with the file, and nobody knows what to mend
        outcome, fix = outcome.as_info(), None
    if finding.holds_for is not None:
        holds = finding.holds_for._replace(also=f"{unknown.name} {' or '.join(held)}")
    else:
        holds = HoldsFor(len(held), len(unknown.values), held, others, unknown.name)
    return replace(finding, outcome=outcome, fix=fix, holds_for=holds)


def _severity(finding: Finding) -> int:
    return SEVERITIES.index(finding.outcome.severity)
