"""What was changed and what is left to do, in lines for people."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.fix.mend import Done, Mended, fixable
from mbpack.rules.base import Edit


def lines(mended: Mended, verb: str = "fixed") -> Iterator[str]:
    """The changes of one configuration, then what is left to the user."""
    name = mended.after.path or (mended.after.context.recipe if mended.after.context is not None else None) or "configuration"
    name = "stdin" if name == "-" else name
    total = mended.before.errors + mended.before.warnings
    yield f"{name}: {mended.gone} of {total} {verb}" if mended.done else f"{name}: nothing to fix"
    for done in mended.done:
        yield from _done(done)
    waiting = _waiting(mended)
    if waiting:
        yield f"  {waiting} more with --unsafe-fixes"
    named = {id(entry.finding) for entry in mended.manual}
    rest = [found for found in mended.after.findings if found.outcome.severity == "error" and found.fix is None]
    rest = [found for found in rest if id(found) not in named]
    if rest:
        yield f"  {len(rest)} {'errors have' if len(rest) > 1 else 'error has'} no fix: mbpack doctor {name}"
    manual = [entry for entry in mended.manual if entry.finding.outcome.severity != "info"]
    if manual:
        yield "  left to you"
    for entry in manual:
        fix = entry.finding.fix
        yield f"    {entry.finding.rule.code}  {entry.finding.message}"
        if fix is not None:
            yield f"            {fix.title}"
        if entry.reason:
            yield f"            not done by machine: {entry.reason}"


def _done(done: Done) -> Iterator[str]:
    changes = "; ".join(change(edit) for edit in done.edits)
    yield f"  {done.finding.rule.code}  {changes}"
    if not done.fix.safe:
        yield f"          unsafe: {done.fix.title}"


def change(edit: Edit) -> str:
    """One edit in words."""
    from mbpack.config.spelling import word

    if edit.op == "delete":
        return f"{edit.key} removed"
    if edit.op == "rename" and edit.to == f"+{edit.key}":
        return f"{edit.key} added with a plus sign"
    if edit.op == "rename":
        return f"{edit.key} renamed to {edit.to}"
    return f"{edit.key}: {word(edit.value)}"


def _waiting(mended: Mended) -> int:
    """Fixes that only wait for ``--unsafe-fixes``."""
    manual = {id(entry.finding) for entry in mended.manual}
    return sum(id(finding) not in manual for finding in fixable(mended.after, True))


def changed_arguments(mended: Mended, all_of_them: bool) -> list[str]:
    """The KEY=VALUE arguments as they should be: all of them in order, or those that are new or different; empty where
    none changed."""
    before, after = mended.start.overrides, mended.state.overrides
    if before == after:
        return []
    return [argument for argument in after if all_of_them or argument not in before]


def dropped_arguments(mended: Mended) -> list[str]:
    """Arguments that are no longer there, also those that another one replaces."""
    return [argument for argument in mended.start.overrides if argument not in mended.state.overrides]
