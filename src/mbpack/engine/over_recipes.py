"""A file without a recipe, judged over every recipe it may stand on.

What holds for all of them is what it is with one recipe; what holds for some is a warning at most and says with how many and
with which; a fault that a recipe has by itself is not the file's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from mbpack.config.context import Context
from mbpack.config.run import Run
from mbpack.config.settings import Setting, Settings, Unknown, WrongKind
from mbpack.engine.candidates import candidates, fitting
from mbpack.engine.columns import NOTED
from mbpack.engine.merge import Said, by_place, covered, merged, some
from mbpack.engine.over_context import launcher, over_values
from mbpack.engine.part_run import RunOver, after_change
from mbpack.engine.part_settings import SettingsOver, alone
from mbpack.engine.reads import Touched
from mbpack.engine.result import NotChecked
from mbpack.engine.split import Part, answers, part_of, whole
from mbpack.facts.recipe_sets import Fork, table
from mbpack.rules.base import Finding, HoldsFor, Rule
from mbpack.rules.internal import INTERNAL

#: Findings on a smaller share of the recipes than this are only counted.
FEW = 0.1
#: Unknown for this share of the recipes, a rule counts as not checked.
MOSTLY = 0.5
#: Where a run keeps what was said over all recipes.
_OVERALL = "over recipes"


class _Stop(Struct, frozen=True):
    """A value of the wrong kind that stopped a rule, and the station at which upstream stops too."""

    setting: Setting
    station: str


class Leaf(Struct, frozen=True):
    """What a rule says for some recipes, why it stopped there, and what it read."""

    mask: int
    findings: list[Finding]
    stop: Unknown | _Stop | None
    reads: set[Any]


class Overall(Struct):
    """What the rules say over all candidates; masks are those of recipes."""

    part: Part
    findings: list[Finding] = field(default_factory=list)
    few: list[Finding] = field(default_factory=list)
    not_checked: list[NotChecked] = field(default_factory=list)
    failed_rules: list[str] = field(default_factory=list)
    checked: int = 0
    rejected: int = 0  # the mask of those that refuse the file for a reason of the file
    unjudged: int = 0  # the mask of those for which a refusing check could not be judged
    elsewhere: int = 0  # how many recipes accept what all candidates refuse: some key of the file does nothing there
    under: dict[str | None, Part] = field(
        default_factory=dict
    )  # the candidates under each launcher that was asked; None: as it is
    leaves: dict[str | None, dict[Rule, list[Leaf]]] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """The candidates."""
        return self.part.names


class _Answer(Struct):
    """What one rule says over a set of recipes."""

    rule: Rule
    leaves: list[Leaf] = field(default_factory=list)

    @property
    def said(self) -> list[Said]:
        return [Said(leaf.mask, finding) for leaf in self.leaves for finding in leaf.findings]

    @property
    def unknown(self) -> list[tuple[int, Unknown]]:
        return [(leaf.mask, leaf.stop) for leaf in self.leaves if isinstance(leaf.stop, Unknown)]


def judge_over_recipes(run: Run, rules: Sequence[Rule], decides: Callable[[NotChecked], bool]) -> Overall:
    """Ask every rule about a run on all recipes that fit it; ``decides`` says whether an unjudged rule leaves a verdict open."""
    part = candidates(run)
    overall = Overall(part)
    wanted = _wanted(run, rules)
    overall.checked = len(rules) - len(wanted)
    _ask_all(overall, run, wanted, decides)
    rest = part.table.all & ~part.mask
    if overall.rejected == part.mask and rest:
        _ask_the_others(overall, whole(run, part.table, rest), wanted)
    run.memo[_OVERALL] = overall
    return overall


def findings_over(
    run: Run, rules: Sequence[Rule], base: Run, changed: set[tuple[str, ...]], found_other: bool
) -> tuple[list[Rule], list[Finding]] | None:
    """Which of some rules may say something else about a run than about ``base``, and what they say; None where its recipes are others.

    ``changed``: at and below which paths the two differ; ``found_other``: and in what was found on disk.
    """
    before: Overall = base.memo[_OVERALL]
    table, mask = before.part.table, before.part.mask
    if fitting(run, table) != mask:
        return None
    over, known = before.part.run.over, before.part.run.over.settings
    settings = SettingsOver(run.settings, table, mask, alone(run.settings.version, table), known, changed)
    part = part_of(after_change(run, over, settings, found_other))
    part.near = before.part.near
    overall = Overall(part)
    again = [rule for rule in _wanted(run, rules) if _may_differ(part.run.over, rule, before)]
    _ask_all(overall, run, again, lambda _: False, before, found_other)
    asked = {*again, *(rule for rule in rules if rule.reads_findings)}
    return None if overall.failed_rules else (list(asked), overall.findings)


def _may_differ(over: RunOver, rule: Rule, before: Overall) -> bool:
    """Whether a rule has to be asked after a change."""
    found = [leaves[rule] for leaves in before.leaves.values() if rule in leaves]
    if over.settings.before is None or not found or rule.late:
        return True
    return any(over.is_other(leaf.reads) for leaves in found for leaf in leaves)


def _wanted(run: Run, rules: Sequence[Rule]) -> list[Rule]:
    touched = Touched.of_run(run)
    return [rule for rule in rules if not rule.reads_findings and touched.by(rule)]


def _ask_all(
    overall: Overall,
    run: Run,
    rules: Sequence[Rule],
    decides: Callable[[NotChecked], bool],
    before: Overall | None = None,
    found_other: bool = False,
) -> None:
    """Ask rules over the candidates; those that ask for a launcher nobody named under each."""
    unknown = launcher(run)
    depend = {rule for rule in rules if unknown is not None and unknown.is_asked_by(rule)}
    for answer in _survey(overall, None, [rule for rule in rules if rule not in depend], before):
        for finding in _noted(overall, overall.part, answer, decides):
            _keep(overall, finding)
    if unknown is None or not depend:
        return
    said: dict[Rule, list[list[Finding]]] = {rule: [] for rule in rules if rule in depend}
    rejected: list[int] = []
    refusing, checked = overall.rejected, overall.checked
    for value in unknown.values:
        one, settings = unknown.run(run, value), overall.part.run.over.settings
        if before is not None and value in before.under:
            part = part_of(after_change(one, before.under[value].run.over, settings, found_other))
        else:
            part = whole(one, overall.part.table, overall.part.mask, settings)
        part.near = overall.part.near
        overall.under[value] = part
        overall.rejected = refusing
        for answer in _survey(overall, value, said, before):
            said[answer.rule].append(_noted(overall, part, answer, decides))
        rejected.append(overall.rejected)
    overall.rejected = rejected[0] & rejected[1]
    overall.unjudged |= (rejected[0] | rejected[1]) & ~overall.rejected
    for findings in said.values():
        for finding in over_values(unknown, findings):
            _keep(overall, finding)
    left = {entry.rule for entry in overall.not_checked}
    overall.checked = checked + sum(rule not in left for rule in depend)


def _noted(overall: Overall, part: Part, answer: _Answer, decides: Callable[[NotChecked], bool]) -> list[Finding]:
    """What a rule says about the file, with what it leaves open and refuses noted."""
    _note_unknown(overall, answer, decides)
    said = _of_the_file(part, answer)
    overall.rejected |= covered([entry for entry in said if entry.finding.outcome.consequence == "rejected"])
    return [merged(part, entries) for entries in by_place(said)]


def _survey(overall: Overall, value: str | None, rules: Iterable[Rule], before: Overall | None = None) -> Iterator[_Answer]:
    """What rules say under a value of the launcher; before a change they said what their leaves there hold."""
    part = overall.under.setdefault(value, overall.part)
    held = overall.leaves.setdefault(value, {})
    known = before.leaves.get(value, {}) if before is not None and part.run.over.settings.before is not None else {}
    return _asked_one_by_one(part, rules, overall.failed_rules, held, known)


def _asked_one_by_one(
    part: Part, rules: Iterable[Rule], failed: list[str], held: dict[Rule, list[Leaf]], known: Mapping[Rule, Sequence[Leaf]]
) -> Iterator[_Answer]:
    stops: list[tuple[int, _Stop]] = []
    for rule in rules:
        answer, mask = _Answer(rule), part.mask
        for leaf in known.get(rule, ()):
            if not part.run.over.is_other(leaf.reads):
                answer.leaves.append(leaf)
                mask &= ~leaf.mask
        asking = partial(_ask, rule, stops, failed)
        for wanted, (findings, stop, reads) in answers(part.part(mask), mask, asking) if mask else ():
            if rule.notes_only and not findings and stop is None:
                answer.leaves.clear()
                held.pop(rule, None)
                break  # a note is told where every recipe brings it
            answer.leaves.append(Leaf(wanted, findings, stop, reads))
        else:
            held[rule] = answer.leaves
        stops += [(leaf.mask, leaf.stop) for leaf in answer.leaves if isinstance(leaf.stop, _Stop)]
        yield answer


def _ask(
    rule: Rule, stops: Sequence[tuple[int, _Stop]], failed: list[str], part: Part
) -> tuple[list[Finding], Unknown | _Stop | None, set[Any]]:
    if rule.late:
        part.run.stopped = list(_stopped(part, stops))
    NOTED.append(set())
    try:
        findings, stop = _said(rule, part, failed)
    finally:
        reads = NOTED.pop()
    return findings, stop, reads


def _said(rule: Rule, part: Part, failed: list[str]) -> tuple[list[Finding], Unknown | _Stop | None]:
    found: list[Finding] = []  # what is said before an input is unknown counts
    try:
        for finding in rule.check(part.run):
            found.append(finding)
        return found, None
    except Unknown as unknown:
        return found, unknown
    except WrongKind as wrong:
        return found, _Stop(wrong.setting, rule.stops_at(part.run))
    except Fork:
        raise
    except Exception as error:
        if rule.code in failed:
            return [], None
        failed.append(rule.code)
        return [INTERNAL.about(part.run, rule, error)], None


def _stopped(part: Part, stops: Sequence[tuple[int, _Stop]]) -> Iterator[tuple[Setting, str]]:
    """What stopped other rules for all recipes of a part. Raises Fork where it stopped them for some."""
    for mask, stop in stops:
        shared = mask & part.mask
        if shared and shared != part.mask:
            raise Fork((shared, part.mask & ~mask))
        if shared:
            yield stop.setting, stop.station


def _note_unknown(overall: Overall, answer: _Answer, decides: Callable[[NotChecked], bool]) -> None:
    told: dict[NotChecked, int] = {}
    for mask, unknown in sorted(answer.unknown, key=lambda pair: pair[0] & -pair[0]):
        if unknown.needs or unknown.reason != "moot":
            entry = NotChecked(answer.rule, unknown.needs, unknown.key, unknown.reason)
            told[entry] = told.get(entry, 0) | mask
            if decides(entry):
                overall.unjudged |= mask
    if told and sum(map(int.bit_count, told.values())) >= MOSTLY * overall.part.mask.bit_count():
        if not any(entry.rule is answer.rule for entry in overall.not_checked):
            overall.not_checked.append(max(told, key=lambda entry: told[entry].bit_count()))
    else:
        overall.checked += 1


def _keep(overall: Overall, finding: Finding) -> None:
    held = finding.holds_for
    if held is None:
        overall.findings.append(finding)
    elif finding.outcome.severity != "info":  # a note that some recipes bring is no note about the file
        seldom = held.input == "recipe" and held.number < FEW * held.of
        near = seldom and any(overall.part.table.bit(name) & overall.part.near for name in held.such_as)
        (overall.few if seldom and not near else overall.findings).append(finding)


def _ask_the_others(overall: Overall, others: Part, rules: Iterable[Rule]) -> None:
    """Recipes on which some key of the file would do nothing may accept what all candidates refuse; then no verdict is certain."""
    refusing = (rule for rule in rules if rule.rejects)
    asked = _asked_one_by_one(others, refusing, overall.failed_rules, {}, {})
    answered = (_of_the_file(others, answer) for answer in asked)
    refused = covered([entry for said in answered for entry in said if entry.finding.outcome.consequence == "rejected"])
    accepting = others.mask & ~refused
    overall.elsewhere = accepting.bit_count()
    if not accepting:
        return
    count, total = overall.part.mask.bit_count(), overall.part.table.all.bit_count()
    held = HoldsFor(count, total, some(overall.part, overall.part.mask), some(others, accepting))
    overall.findings = [
        replace(finding, holds_for=held) if finding.outcome.consequence == "rejected" and finding.holds_for is None else finding
        for finding in overall.findings
    ]


def _of_the_file(part: Part, answer: _Answer) -> list[Said]:
    """What a rule says that is not the same with nothing written over the recipe, at a key that the file does not write."""
    own = _own_faults(part, answer)
    kept = []
    for entry in answer.said:
        mask = entry.mask if entry.finding.setting.item is not None else entry.mask & ~own.get(_words(entry.finding), 0)
        if mask:
            kept.append(Said(mask, entry.finding))
    return kept


def _words(finding: Finding) -> tuple[str, str]:
    return finding.setting.key, finding.message


def _own_faults(part: Part, answer: _Answer) -> dict[tuple[str, str], int]:
    """What the rule says about recipes alone, each with its recipes."""
    wanted = covered([entry for entry in answer.said if entry.finding.setting.item is None])
    own: dict[tuple[str, str], int] = {}
    if wanted:
        for mask, (findings, _, _) in answers(_alone(part.run.context), wanted, partial(_ask, answer.rule, (), [])):
            for finding in findings:
                own[_words(finding)] = own.get(_words(finding), 0) | mask
    return own


def _alone(context: Context) -> Part:
    """All recipes of a release with nothing written over them; kept, since every file asks for it."""
    kept = _alone_by(context.version.text, context.gpus, context.launcher)
    if not kept:
        from mbpack.facts.schema import schema

        held = table(context.version.release.name)
        run = Run(Settings(context.version, schema(context.version.release.name), ()), context)
        kept.append(whole(run, held, held.all))
    return kept[0]


@lru_cache(maxsize=8)
def _alone_by(release: str, gpus: int | None, launcher: str | None) -> list[Part]:
    return []
