"""Ignore directives: which findings they hide, and which of them hide nothing."""

from __future__ import annotations

from collections.abc import Sequence

from mbpack.config.run import Run
from mbpack.rules.base import Finding
from mbpack.rules.internal import NO_REASON, UNUSED


def apply_ignores(run: Run, findings: Sequence[Finding]) -> tuple[list[Finding], int]:
    """Remove what the file's ``ignore[...]`` directives name; report unused names and missing reasons.

    A suppressed refusal still counts for the verdict: upstream does not read our comments.
    """
    ignores = run.context.ignores
    if not ignores:
        return list(findings), 0
    from mbpack.rules.catalogue import BY_NAME

    hidden: set[int] = set()
    extra: list[Finding] = []
    document = run.settings.layers[0].document if run.settings.layers else None
    for ignore in ignores:
        for code in ignore.codes:
            hits = {
                index
                for index, finding in enumerate(findings)
                if (code.upper() == finding.rule.code or code == finding.rule.slug)
                and (not ignore.only_here or _line(finding) == ignore.line)
            }
            hidden |= hits
            if not hits and document is not None:
                extra.append(UNUSED.about(ignore, code, document, code.upper() in BY_NAME or code in BY_NAME))
        if not ignore.reason and document is not None:
            extra.append(NO_REASON.about(ignore, document))
    kept = [finding for index, finding in enumerate(findings) if index not in hidden]
    return kept + extra, len(hidden)


def _line(finding: Finding) -> int | None:
    item = finding.setting.item
    return item.span.line if item is not None else None
