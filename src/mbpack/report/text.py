"""The report for people: what is wrong, on which line, what happens, why, and the fix."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mbpack.config.document import Document
from mbpack.config.settings import ABSENT, Object, Origin, Setting
from mbpack.engine.features import test_commands
from mbpack.engine.result import NotChecked, Result
from mbpack.report.json import distinct, place
from mbpack.report.style import Style
from mbpack.rules.base import Finding

_WHEN = {
    "load": "while the file is read",
    "validate": "at start-up",
    "data": "while data or model are built",
    "first-step": "at the first step",
    "evaluation": "at the first evaluation",
    "resume": "on resume",
    "always": "",
}
_LABELS = {
    "data_parallel_size": "data parallel",
    "pad_seq_to_mult": "pad multiple",
    "collate_alignment": "collate alignment",
    "pad_to_multiple_of": "pad_to_multiple_of",
    "num_microbatches": "microbatches",
    "token_slots_per_step": "token slots per step",
    "pack_capacity": "pack capacity",
}
_FLAGS = {"recipe": "--recipe", "gpus": "--gpus", "launcher": "--launcher", "nodes": "--nodes", "step": "--step"}
#: What is said instead of a flag where no flag helps.
_OTHER_NEEDS = {
    "filesystem": "the packed data on disk",
    "hardware": "the GPU",
    "environment": "the environment",
    "libraries": "the installed libraries",
    "data": "--lengths",
    "value": "the value of an expression",
}


def render(result: Result, style: Style) -> str:
    """One configuration's report."""
    return "\n".join(_lines(result, style))


def summary(results: Sequence[tuple[int, int]], style: Style) -> str:
    """The line below several reports, from the errors and warnings of each."""
    errors, warnings = sum(e for e, _ in results), sum(w for _, w in results)
    clean = sum(not e and not w for e, w in results)
    kind = "error" if errors else "warning" if warnings else "good"
    return style.paint(kind, f"{len(results)} configurations: {_count(errors, 'error')}, {_count(warnings, 'warning')}, {clean} clean")


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _lines(result: Result, style: Style) -> Iterator[str]:
    shown = [finding for finding in result.findings if finding.outcome.severity != "info"]
    notes = [finding for finding in result.findings if finding.outcome.severity == "info"]
    name = result.path if result.path not in (None, "-") else "stdin" if result.path == "-" else _recipe_name(result)
    if not shown and not notes:
        yield f"{name}: {style.paint('good', 'no problems found')} ({_scope(result)})"
        yield from _closing(result, style, quiet=True)
        return
    yield style.paint("bold", name) + "  " + _context(result)
    for finding in shown:
        yield ""
        yield from _finding(finding, finding is result.first, style)
    if notes:
        yield ""
        for finding in notes:
            yield from _note(finding, style)
    yield ""
    yield from _closing(result, style, quiet=False)


def _recipe_name(result: Result) -> str:
    return result.context.recipe or "configuration" if result.context is not None else "configuration"


def _scope(result: Result) -> str:
    text = f"{result.checked} rules checked"
    needs = _needed(result.not_checked)
    if needs:
        text += f", {len(result.not_checked)} not checkable: {', '.join(needs)}"
    return text


def _context(result: Result) -> str:
    context = result.context
    if context is None:
        return ""
    source = context.sources.get("bridge", "")
    reasons = {"default": "assumed: nothing names a release", "file": f"from {context.marker}"}
    words = [f"Megatron-Bridge {context.version.text}" + (f" ({reasons[source]})" if source in reasons else "")]
    if context.recipe:
        words.append(f"recipe {context.recipe}")
    words.append(f"{context.gpus} GPUs" if context.gpus else "GPUs unknown")
    words.append(f"launcher {context.launcher or 'unknown'}")
    return ", ".join(words)


def _finding(finding: Finding, first: bool, style: Style) -> Iterator[str]:
    outcome = finding.outcome
    when = _WHEN[outcome.when]
    tag = {"rejected": "rejected: refused"}.get(outcome.consequence, outcome.consequence) + (f" {when}" if when else "")
    tag += ", first" if first else ""
    head = f"{outcome.severity} {finding.rule.code}  {finding.message}   [{tag}]"
    lines = style.wrap(head, "", "      ")
    label = f"{outcome.severity} {finding.rule.code}"
    yield style.paint(outcome.severity, label) + lines[0][len(label) :]
    yield from lines[1:]
    yield from _source(finding, style)
    if finding.why:
        yield from style.wrap(finding.why, "  why   ", "        ")
    if finding.fix is not None:
        safety = "" if not finding.fix.edits else "   [safe]" if finding.fix.safe else "   [unsafe: --unsafe-fixes]"
        yield from style.wrap(finding.fix.title + safety, "  fix   ", "        ")


def _note(finding: Finding, style: Style) -> Iterator[str]:
    line = place(finding)[0]
    where = f" (line {line})" if line else ""
    lines = style.wrap(f"note {finding.rule.code}  {finding.message}{where}", "", "      ")
    yield style.paint("info", "note") + lines[0][4:]
    yield from lines[1:]


def _source(finding: Finding, style: Style) -> Iterator[str]:
    setting = finding.setting
    line, column, end = place(finding)
    if line and setting.document is not None and column and end:
        text = _line_of(setting.document, line)
        if text:
            yield from _caret(text, line, column, end, finding.caret, style)
    elif setting.value is not ABSENT and setting.key:
        yield f"     {setting.key}: {_value(setting)}   ({_origin(setting)})"
    shown = set()
    for related in distinct(finding.related, setting):
        if related.value is ABSENT:
            continue
        item = related.item
        if item is not None and related.document is not None and item.span.line != line and item.span.line not in shown:
            shown.add(item.span.line)
            yield f"  {item.span.line:>4} | {_clip(_line_of(related.document, item.span.line), style.width - 9)}"
        elif item is None:
            yield f"       {related.key}: {_value(related)}   ({_origin(related)})"


def _caret(text: str, line: int, column: int, end: int, caret: str, style: Style) -> Iterator[str]:
    room = style.width - 9
    start = 0
    if end > room:  # a long line is shown from where it matters
        start = max(0, column - 1 - room // 3)
    clipped = _clip(text[start:], room)
    yield f"  {line:>4} | {('…' if start else '') + clipped}"
    length = max(1, min(end, column + room) - column)
    offset = column - 1 - start + (1 if start else 0)
    marks = "^" * (length if length > 1 else 1)
    yield "       | " + " " * offset + style.paint("caret", marks) + (f" {caret}" if caret else "")


def _clip(text: str, room: int) -> str:
    text = text.rstrip("\r\n").replace("\t", " ")
    return text if len(text) <= room else text[: room - 1] + "…"


def _line_of(document: Document, line: int) -> str:
    start = 0
    text = document.text
    for _ in range(line - 1):
        start = text.find("\n", start) + 1
        if start == 0:
            return ""
    end = text.find("\n", start)
    return text[start:] if end < 0 else text[start:end]


def _value(setting: Setting) -> str:
    value = setting.value
    if isinstance(value, Object):
        return value.name or "{...}"
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _origin(setting: Setting) -> str:
    return {Origin.RECIPE: "from the recipe", Origin.DEFAULT: "class default"}.get(setting.origin, setting.origin.value)


def _needed(entries: Sequence[NotChecked]) -> list[str]:
    needs = {need for entry in entries for need in entry.needs}
    flags = [flag for need, flag in _FLAGS.items() if need in needs]
    return flags + sorted(_OTHER_NEEDS[need] for need in needs if need in _OTHER_NEEDS)


def _closing(result: Result, style: Style, quiet: bool) -> Iterator[str]:
    derived = [f"{_LABELS.get(name, name)} {value}" for name, value in result.derived.items()]
    if derived and not quiet:
        yield from style.wrap("Derived   " + "   ".join(derived), "", "          ")
    if result.not_checked and not quiet:
        yield from _not_checked(result.not_checked, style)
    if result.run is not None and not quiet:
        commands = test_commands(result.run)
        if commands:
            yield f"Upstream tests for what this configuration uses (Megatron-Bridge {result.run.release}, in its checkout):"
            yield from (f"  {command}" for command in commands)
    if not quiet:
        if result.run is not None:
            yield style.paint("dim", "Not validated here: Megatron-Core's checks of other model fields.")
        yield _totals(result, style)


def _not_checked(entries: Sequence[NotChecked], style: Style) -> Iterator[str]:
    groups: dict[tuple[str, ...], list[str]] = {}
    for entry in entries:
        groups.setdefault(entry.needs, []).append(entry.rule.code)
    parts = []
    for needs, codes in groups.items():
        flags = [_FLAGS.get(need) or _OTHER_NEEDS.get(need, need) for need in needs] or ["a value that cannot be resolved here"]
        shown = ", ".join(codes[:4]) + (f" and {len(codes) - 4} more" if len(codes) > 4 else "")
        parts.append(f"{shown}: need {' and '.join(flags)}")
    yield from style.wrap(f"Not checked ({len(entries)})   " + "; ".join(parts), "", "          ")


def _totals(result: Result, style: Style) -> str:
    errors, warnings = result.errors, result.warnings
    kind = "error" if errors else "warning" if warnings else "good"
    text = f"{_count(errors, 'error')}, {_count(warnings, 'warning')}."
    safe = sum(f.fix is not None and bool(f.fix.edits) and f.fix.safe for f in result.findings)
    unsafe = sum(f.fix is not None and bool(f.fix.edits) and not f.fix.safe for f in result.findings)
    if safe or unsafe:
        text += f" {safe} fixable safely, {unsafe} with --unsafe-fixes."
    if result.suppressed:
        text += f" {result.suppressed} suppressed."
    if result.findings:
        text += f" mbpack explain {result.findings[0].rule.code} says more."
    return style.paint(kind, text)
