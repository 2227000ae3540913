"""Run the rules over one configuration and put the answer together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from mbpack.config.context import ContextError
from mbpack.config.run import Run
from mbpack.config.settings import Origin, Unknown, WrongKind
from mbpack.engine.derived import derived_values
from mbpack.engine.first import first_of
from mbpack.engine.result import Candidates, NotChecked, Result
from mbpack.engine.suppress import apply_ignores
from mbpack.facts.order import position
from mbpack.rules.base import Finding, Rule
from mbpack.rules.internal import INTERNAL
from mbpack.rules.registry import rules_for
from mbpack.rules.training.refused import FOUND, OPEN

if TYPE_CHECKING:
    from mbpack.engine.over_recipes import Overall

#: Needs that only the machine that trains can meet; they never decide a verdict.
ENVIRONMENT = frozenset({"filesystem", "hardware", "environment", "libraries", "data", "nodes", "step", "gpu"})

#: Order of findings in reports: refusals first, then silent damage before crashes before ignored before waste.
_CONSEQUENCES = {"rejected": 0, "silent": 1, "crash": 2, "ignored": 3, "waste": 4, "note": 5}
#: More than a file has characters.
_AFTER_FILES = 1 << 40
_SEVERITIES = {"error": 0, "warning": 1, "info": 2}
_ASKED = "rules to ask"


class Selection(Struct, frozen=True):
    """Which rules to run: by code, slug or topic; empty means all."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()

    def wants(self, rule: Rule) -> bool:
        """Whether findings of a rule are reported."""
        if self.select and not any(_names(rule, name) for name in self.select):
            return False
        return not any(_names(rule, name) for name in self.ignore)


def check_names(selection: Selection) -> None:
    """Refuse names of rules that do not exist.

    Raises:
        ContextError: with the name and close ones.
    """
    names = (*selection.select, *selection.ignore)
    if not names:
        return
    from mbpack.rules.catalogue import ALL_RULES, BY_NAME

    for name in names:
        if not any(_names(rule, name) for rule in ALL_RULES):
            from difflib import get_close_matches

            near = get_close_matches(name, [*BY_NAME, *(rule.topic for rule in ALL_RULES)], n=3)
            hint = f"; did you mean {', '.join(dict.fromkeys(near))}?" if near else ""
            raise ContextError(f"no rule is called {name}{hint}")


def _names(rule: Rule, name: str) -> bool:
    return rule.code.startswith(name.upper()) or rule.slug == name or rule.topic == name


def check(run: Run, result: Result, selection: Selection | None = None, problems: Sequence[Finding] = ()) -> Result:
    """Judge a run: fill a result with findings, verdict, derived values and what could not be checked.

    ``problems`` are findings about the files themselves. A refusal that is hidden, by an ignore directive or a
    selection of rules, leaves the verdict open: nobody can then say what the start-up would do.
    """
    over = _over_recipes(run) if run.stands_on_a_recipe and not run.settings.base_known else None
    if over is None:
        found, not_checked = _run_rules(run, result)
        if run.context.launcher is None or run.context.gpus is None or run.context.gpu is None:
            from mbpack.engine.over_context import spread

            found, not_checked = spread(run, found, not_checked, asked(run))
    else:
        found, not_checked = over.findings, over.not_checked
        result.checked, result.failed_rules = over.checked, over.failed_rules
    findings = [*problems, *found]
    selection = selection or Selection()
    kept = [finding for finding in findings if selection.wants(finding.rule)]
    result.findings, result.suppressed = apply_ignores(run, kept)
    refusals = [finding for finding in result.findings if _refuses(finding)]
    hidden = sum(_refuses(finding) for finding in findings) - len(refusals)
    result.first = first_of(run, refusals, _fires(run))
    hidden += sum(finding.outcome.consequence == "rejected" and finding.holds_for is not None for finding in findings)
    result.verdict = "unknown" if hidden and not refusals else _verdict(refusals, not_checked)
    if over is not None:
        result.verdict, result.candidates = _verdict_over(over, result.first, bool(hidden))
    result.mode = _mode(run)
    result.derived = derived_values(run)
    result.run = run
    result.findings.sort(key=_report_order(run, result.first))
    result.not_checked = [entry for entry in not_checked if selection.wants(entry.rule) and entry.rule.reports_unknown]
    return result


def _refuses(finding: Finding) -> bool:
    """Whether a finding alone settles that the start-up stops."""
    return finding.outcome.consequence == "rejected" and finding.holds_for is None


def asked(run: Run) -> list[Rule]:
    """The rules that concern a run; what a program sets on the objects is neither loaded nor merged."""
    found: list[Rule] | None = run.settings.memo.get(_ASKED)
    if found is None:
        found = list(rules_for(run.settings))
        if run.settings.python:
            found = [rule for rule in found if rule.programs]
        run.settings.memo[_ASKED] = found
    return found


def _over_recipes(run: Run) -> Overall:
    from mbpack.engine.over_recipes import judge_over_recipes

    return judge_over_recipes(run, asked(run), _leaves_open)


def _verdict_over(over: Overall, first: Finding | None, hidden: bool) -> tuple[str, Candidates]:
    """Rejected when all candidates refuse the file, accepted when all accept it; else it depends on the recipe."""
    everything = over.part.mask
    rejected = everything if first is not None else over.rejected
    accepted = everything & ~rejected & ~over.unjudged
    verdict = "unknown" if hidden and first is None else "accepted" if accepted == everything else "unknown"
    if rejected == everything and not over.elsewhere:
        verdict = "rejected"
    return verdict, Candidates(tuple(over.names), rejected.bit_count(), accepted.bit_count(), tuple(over.few))


def _run_rules(run: Run, result: Result) -> tuple[list[Finding], list[NotChecked]]:
    findings: list[Finding] = []
    not_checked: list[NotChecked] = []
    run.memo[FOUND] = findings
    for rule in asked(run):
        try:
            for finding in rule.check(run):
                findings.append(finding)
        except Unknown as unknown:
            if unknown.needs or unknown.reason != "moot":
                not_checked.append(NotChecked(rule, unknown.needs, unknown.key, unknown.reason))
        except WrongKind as wrong:
            run.stopped.append((wrong.setting, rule.stops_at(run)))
        except Exception as error:
            findings.append(INTERNAL.about(run, rule, error))
            result.failed_rules.append(rule.code)
        else:
            result.checked += 1
    not_checked += [NotChecked(rule, lack.needs, lack.key, lack.reason) for rule, lack in run.memo.get(OPEN, ())]
    return findings, not_checked


def _verdict(refusals: Sequence[Finding], not_checked: Sequence[NotChecked]) -> str:
    if refusals:
        return "rejected"
    return "unknown" if any(map(_leaves_open, not_checked)) else "accepted"


def _leaves_open(entry: NotChecked) -> bool:
    """Whether a rule that could not be judged leaves the verdict open."""
    return entry.rule.rejects and not (entry.needs and ENVIRONMENT.issuperset(entry.needs))


def _mode(run: Run) -> str:
    try:
        return run.mode.name
    except (Unknown, WrongKind):
        return "unknown"


def _fires(run: Run) -> Callable[[Finding], tuple[int, int, int]]:
    """Order of refusals as upstream would meet them; at load, as the file is read, and the arguments after it."""

    def key(finding: Finding) -> tuple[int, int, int]:
        place = position(run.release, finding.station)
        item = finding.setting.item
        offset = 0
        if place == 0:
            offset = finding.offset if finding.offset is not None else item.span.start if item is not None else 0
            offset += _AFTER_FILES if finding.setting.origin is Origin.OVERRIDE else 0
            offset = -1 if finding.rule.slug == "cfg/dup-key" else offset  # the parser sees the whole file before anybody else
        else:
            offset = finding.offset or 0  # behind the station it names
        return place, offset, _SEVERITIES[finding.outcome.severity]

    return key


def _report_order(run: Run, first: Finding | None) -> Callable[[Finding], tuple[int, ...]]:
    fires = _fires(run)

    def key(finding: Finding) -> tuple[int, ...]:
        outcome = finding.outcome
        severity, consequence = _SEVERITIES[outcome.severity], _CONSEQUENCES[outcome.consequence]
        rank = fires(finding) if consequence == 0 else (0, 0, 0)
        line = finding.setting.item.span.start if finding.setting.item is not None else -1
        return severity, consequence, 0 if finding is first else 1, *rank, line

    return key
