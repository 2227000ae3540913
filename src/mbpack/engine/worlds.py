"""Judge a configuration that a program makes: what is certain, what holds with the defaults, what under a condition.

The report is about the program as it runs when nothing is given from outside. A finding that holds in every world is
reported as it is; one that needs a default or a condition says so, and is a warning.
"""

from __future__ import annotations

import re

from msgspec.structs import replace

from mbpack.config.python import Variant
from mbpack.engine.doctor import Request, judge
from mbpack.engine.result import Result
from mbpack.engine.weaken import Mark, mark, soften, weaker
from mbpack.rules.base import Finding, in_yaml


def judge_worlds(request: Request) -> Result:
    """The result for the usual world, with what the others add.

    Raises:
        ContextError: a flag cannot be used: an unknown release or recipe.
    """
    certain, usual, *others = request.variants
    result = _judged(request, usual)
    sure = result if usual.documents == certain.documents else _judged(request, certain)
    if sure is not result:
        soften(result, sure, lambda finding: usual.label)
    known = {mark for finding in result.findings for mark in _marks(finding)}
    for variant in others:
        more = _judged(request, variant)
        for finding in more.findings:
            if known.isdisjoint(_marks(finding)) and finding.outcome.severity != "info":
                known.update(_marks(finding))
                result.findings.append(weaker(finding, variant.label))
    spelled = [in_python(finding, request.variable) for finding in result.findings]
    result.first = next((new for old, new in zip(result.findings, spelled, strict=True) if old is result.first), None)
    result.findings = spelled
    return result


def _judged(request: Request, variant: Variant) -> Result:
    overrides = (*variant.overrides, *request.overrides)
    return judge(replace(request, documents=variant.documents, overrides=overrides, variants=()))


def _marks(finding: Finding) -> tuple[Mark, Mark]:
    return mark(finding), (finding.rule.code, finding.message)


def in_python(finding: Finding, variable: str) -> Finding:
    """The finding with its fix spelled as the program spells it: ``cfg.train.micro_batch_size = 1``."""
    fix = finding.fix
    if fix is None:
        return finding
    title = fix.title
    for edit in fix.edits:
        if edit.op != "set" or isinstance(edit.value, (dict, list)):
            continue
        spelled = f"{variable}.{edit.key} = {edit.value!r}"
        written = rf"(?:[A-Za-z_][\w.]*\.)?{re.escape(edit.key.rpartition('.')[2])}: {re.escape(in_yaml(edit.value))}(?![\w.])"
        title, replaced = re.subn(written, lambda _: spelled, title, count=1)  # noqa: B023
        if not replaced:
            title = f"{spelled} ({title})"
    return replace(finding, fix=fix._replace(title=title))
