"""Examine documents: the one entry for every command that wants a verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mbpack.config.assemble import build_run
from mbpack.config.context import Given, resolve_context
from mbpack.config.document import Document
from mbpack.config.evidence import NOTHING, Evidence
from mbpack.config.overrides import Override, OverrideProblem
from mbpack.engine.check import Selection, check
from mbpack.engine.result import Result
from mbpack.rules.documents import document_findings


def examine(
    documents: Sequence[Document],
    flags: Given | None = None,
    project: Given | None = None,
    selection: Selection | None = None,
    overrides: Sequence[Override | OverrideProblem] = (),
    environ: Mapping[str, str] | None = None,
    path: str | None = None,
    evidence: Evidence = NOTHING,
) -> Result:
    """Judge one configuration made of layers.

    Raises:
        ContextError: the context cannot be used: an unknown release, recipe or directive.
    """
    context = resolve_context(flags or Given(), project or Given(), documents)
    result = Result(path, context, documents)
    problems = [finding for document in documents for finding in document_findings(document)]
    fatal = [finding for finding in problems if finding.outcome.consequence == "rejected"]
    if fatal and any(document.root is None for document in documents):
        result.findings, result.first, result.verdict = problems, fatal[0], "rejected"
        return result
    run = build_run(context, documents, overrides, environ, evidence)
    check(run, result, selection, problems)
    return result
