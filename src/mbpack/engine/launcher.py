"""What a launcher that nobody named would settle."""

from __future__ import annotations

from msgspec.structs import replace

from mbpack.config.run import Run
from mbpack.config.settings import Unknown, WrongKind
from mbpack.engine.result import Result
from mbpack.facts.releases import R06
from mbpack.rules.base import LAUNCHER_OVERRIDES, LAUNCHER_SETS


def settled_by_launcher(result: Result) -> list[str]:
    """Codes of the errors that ``run_recipe.py`` mends itself: it sets these values before anything checks them.

    Only where no launcher is known; with a user's own script the errors stay.
    """
    run = result.run
    if run is None or run.context.launcher is not None or run.release < R06:
        return []
    under = Run(run.settings, replace(run.context, launcher="run_recipe"), run.evidence, run.overrides)
    rules = {finding.rule.code: finding.rule for finding in result.findings if finding.outcome.severity == "error"}
    settled = []
    for code, rule in rules.items():
        try:
            outcomes = [finding.outcome for finding in rule.check(under)]
        except (Unknown, WrongKind):
            continue
        if any(outcome in (LAUNCHER_OVERRIDES, LAUNCHER_SETS) for outcome in outcomes):
            settled.append(code)
    return settled
