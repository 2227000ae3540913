"""What the engine says about one configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from mbpack.config.context import Context
from mbpack.config.document import Document
from mbpack.config.run import Run
from mbpack.facts.formulas import Derived
from mbpack.rules.base import Finding, Rule


class NotChecked(Struct, frozen=True):
    """A rule that could not be judged, and what would let it be."""

    rule: Rule
    needs: tuple[str, ...]
    key: str = ""
    reason: str = ""


class Candidates(Struct, frozen=True):
    """The recipes that a file without one may stand on, and how they answer; ``few`` are findings on hardly any of them."""

    names: tuple[str, ...]
    rejected: int
    accepted: int
    few: tuple[Finding, ...] = ()

    @property
    def open(self) -> int:
        """Recipes for which the verdict is not known."""
        return len(self.names) - self.rejected - self.accepted


class Result(Struct):
    """Findings, verdict, derived values and what was not checked, for one configuration."""

    path: str | None
    context: Context | None
    documents: Sequence[Document]
    mode: str = "unknown"
    verdict: str = "unknown"
    findings: list[Finding] = field(default_factory=list)
    first: Finding | None = None
    not_checked: list[NotChecked] = field(default_factory=list)
    derived: Mapping[str, Derived] = field(default_factory=dict)
    checked: int = 0
    suppressed: int = 0
    run: Run | None = None
    failed_rules: list[str] = field(default_factory=list)
    candidates: Candidates | None = None
    #: Where the release is assumed: what others that fit would find, or not, each with those it holds for.
    by_release: tuple[Finding, ...] = ()
    #: Findings that ``--fix`` takes away, and how many more ``--unsafe-fixes`` does; None where the fixes were not tried.
    fixable: tuple[int, int] | None = None

    @property
    def errors(self) -> int:
        """Findings of severity error."""
        return sum(finding.outcome.severity == "error" for finding in self.findings)

    @property
    def warnings(self) -> int:
        """Findings of severity warning."""
        return sum(finding.outcome.severity == "warning" for finding in self.findings)
