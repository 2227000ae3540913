"""The report for people: what is wrong, on which line, what happens, why, and the fix."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from mbpack.config.document import Document
from mbpack.config.settings import ABSENT, Object, Origin, Setting
from mbpack.engine.features import test_commands
from mbpack.engine.result import NotChecked, Result
from mbpack.facts import learned
from mbpack.report.columns import clip, columns, flow, head, printable, tail
from mbpack.report.json import MAX_BITS, distinct, is_argument, place
from mbpack.report.style import Style
from mbpack.rules.base import Finding
from mbpack.rules.internal import NOT_BRIDGE

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
_FLAGS = {
    "recipe": "--recipe",
    "gpus": "--gpus",
    "launcher": "--launcher",
    "nodes": "--nodes",
    "step": "--step",
    "gpu": "--gpu",
    "environment": "--environment",
}
#: What is said instead of a flag where no flag helps.
_OTHER_NEEDS = {
    "filesystem": "the packed data on disk",
    "hardware": "the GPU",
    "libraries": "the installed libraries",
    "data": "the data",
    "value": "the value of an expression",
}

#: Upstream's tests that a report names; `mbpack verify FILE` names all.
_TESTS = 1


def render(result: Result, style: Style, one_of_many: bool = False, verbose: bool = False) -> str:
    """One configuration's report; among others without what would be said again and again.

    ``verbose``: with the notes that are the same on nearly every run of a release.
    """
    return "\n".join(_lines(result, style, one_of_many, verbose))


def findings_alone(result: Result, style: Style) -> str:
    """Errors and warnings of one configuration; empty where it has none."""
    shown = [finding for finding in result.findings if finding.outcome.severity != "info"]
    if not shown or [finding.rule for finding in shown] == [NOT_BRIDGE]:
        return "\n".join(_lines(result, style, True, False)) if shown else ""
    lines = list(_heading(_name(result), _context(result), style))
    for finding in shown:
        lines += ["", *_finding(finding, finding is result.first, result.path, style)]
    return "\n".join(lines)


def summary(results: Sequence[tuple[int, int]], style: Style) -> str:
    """The line below several reports, from the errors and warnings of each."""
    errors, warnings = sum(e for e, _ in results), sum(w for _, w in results)
    clean = sum(not e and not w for e, w in results)
    kind = "error" if errors else "warning" if warnings else "good"
    counts = f"{_count(errors, 'error')}, {_count(warnings, 'warning')}, {clean} clean"
    total = style.paint(kind, f"{_count(len(results), 'configuration')}: {counts}")
    more = "mbpack verify FILE names the upstream tests for what a configuration uses."
    return "\n".join((total, *(style.paint("dim", line) for line in style.wrap(more, "", ""))))


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _lines(result: Result, style: Style, one_of_many: bool, verbose: bool) -> Iterator[str]:
    shown = [finding for finding in result.findings if finding.outcome.severity != "info"]
    notes = [finding for finding in result.findings if finding.outcome.severity == "info"]
    if not verbose:
        notes = [finding for finding in notes if not finding.rule.routine and not _depends_on_gpus(finding)]
    name = _name(result)
    if not shown and not notes:
        good = "no problems found"
        lines = style.wrap(f"{name}: {good} ({_scope(result)})", "", "  ")
        yield from (line.replace(good, style.paint("good", good)) for line in lines)
        return
    if [finding.rule for finding in shown] == [NOT_BRIDGE]:
        lines = style.wrap(f"{name}: not checked, {shown[0].message} [{NOT_BRIDGE.code}]", "", "  ")
        yield from (style.paint("error", line) for line in lines)
        return
    yield from _heading(name, _context(result), style)
    for finding in shown:
        yield ""
        yield from _finding(finding, finding is result.first, result.path, style)
    if notes:
        yield ""
        for finding in notes:
            yield from _note(finding, style)
    yield ""
    yield from _closing(result, style, one_of_many)


def _depends_on_gpus(finding: Finding) -> bool:
    """Whether a note says from which number of GPUs on something fails, as nearly every global batch does."""
    return finding.holds_for is not None and finding.holds_for.input == "gpus"


def _heading(name: str, context: str, style: Style) -> Iterator[str]:
    if columns(name) > style.width // 2:  # a long name has lines of its own
        yield from (style.paint("bold", line) for line in style.wrap(name, "", ""))
        yield from style.wrap(context, "  ", "  ")
        return
    lines = style.wrap(context, f"{name}  ", "  ")
    yield style.paint("bold", name) + lines[0][len(name) :]
    yield from lines[1:]


def _name(result: Result) -> str:
    return printable("stdin" if result.path == "-" else result.path or _recipe_name(result))


def _recipe_name(result: Result) -> str:
    return result.context.recipe or "configuration" if result.context is not None else "configuration"


def _scope(result: Result) -> str:
    text = f"{result.checked} rules checked"
    needs = _needed(result.not_checked)
    if needs:
        text += f", {len(result.not_checked)} not checkable: {', '.join(needs)}"
    elif result.not_checked:
        text += f", {len(result.not_checked)} not checkable"
    if result.suppressed:
        text += f", {_count(result.suppressed, 'finding')} suppressed"
    if result.candidates is not None:
        from mbpack.report.candidates import heading

        text += f"; {heading(result)}"
    if result.context is not None and result.context.sources.get("bridge") == "default":
        text += f"; Megatron-Bridge {result.context.version.text} assumed: --bridge"
    return text


def _context(result: Result) -> str:
    context = result.context
    if context is None:
        return ""
    source = context.sources.get("bridge", "")
    reasons = {"default": "assumed: nothing names a release", "file": f"from {context.marker}", "installed": str(context.marker)}
    judged = "judged as " if source == "file" else ""
    words = [f"{judged}Megatron-Bridge {context.version.text}" + (f" ({reasons[source]})" if source in reasons else "")]
    own = learned.find(context.version.patch)
    if own is not None:
        words[0] += f", lists learned from {own.origin}"
    if context.recipe:
        words.append(f"recipe {context.recipe}")
    elif context.own_recipe:
        words.append(f"recipe {context.own_recipe} (not known)")
    elif result.candidates is not None:
        from mbpack.report.candidates import heading

        words.append(heading(result))
    words.append(f"{context.gpus} GPUs" if context.gpus else "GPUs unknown")
    words.append(f"launcher {context.launcher or 'unknown'}")
    return ", ".join(words)


def _finding(finding: Finding, first: bool, path: str | None, style: Style) -> Iterator[str]:
    outcome = finding.outcome
    when = _WHEN[outcome.when]
    tag = {"rejected": "rejected: refused"}.get(outcome.consequence, outcome.consequence) + (f" {when}" if when else "")
    tag += ", first" if first else ""
    label = f"{outcome.severity} {finding.rule.code}"
    lines = style.wrap(f"{finding.message} [{tag}]", f"{label}  ", "      ")
    yield style.paint(outcome.severity, label) + lines[0][len(label) :]
    yield from lines[1:]
    yield from _source(finding, path, style)
    if finding.holds_for is not None:
        from mbpack.report.candidates import holds_for

        yield from style.wrap(holds_for(finding.holds_for), "  when  ", "        ")
    if finding.why:
        yield from style.wrap(finding.why, "  why   ", "        ")
    if finding.fix is not None:
        safety = "" if not finding.fix.edits else " [safe]" if finding.fix.safe else " [unsafe: --unsafe-fixes]"
        yield from style.wrap(finding.fix.title + safety, "  fix   ", "        ")


def _note(finding: Finding, style: Style) -> Iterator[str]:
    line = place(finding)[0]
    where = f" (line {line})" if line and not is_argument(finding.setting) else ""
    when = ""
    if finding.holds_for is not None:
        from mbpack.report.candidates import holds_for

        when = f", {holds_for(finding.holds_for)}"
    lines = style.wrap(finding.message + where + when, f"note {finding.rule.code}  ", "      ")
    yield style.paint("info", "note") + lines[0][4:]
    yield from lines[1:]


def _source(finding: Finding, path: str | None, style: Style) -> Iterator[str]:
    """The line a finding is about with a caret below, then the lines it follows from."""
    setting = finding.setting
    line, column, end = place(finding)
    if line and setting.document is not None and column and end:
        text = _line_of(setting.document, line)
        if text:
            number = _number(setting, line)
            yield from _caret(text, number, column, end, finding.caret, style)
            if path is not None and setting.document.path not in (None, path):
                yield from style.wrap(f"in {setting.document.path}", "       | ", "       | ")
    elif setting.value is not ABSENT and setting.key:
        yield from style.wrap(f"{setting.key}: {_value(setting)} ({_origin(setting)})", "     ", "       ")
    shown = set()
    for related in distinct(finding.related, setting):
        if related.value is ABSENT:
            continue
        item, document = related.item, related.document
        if item is not None and document is not None:
            place_of = (document.path, item.span.line)
            if place_of != (setting.document.path if setting.document else None, line) and place_of not in shown:
                shown.add(place_of)
                there = f"   (in {document.path})" if path is not None and document.path not in (None, path) else ""
                room = max(20, style.width - 9 - columns(there))
                text, _, _ = _window(_line_of(document, item.span.line), item.span.column, item.span.end_column, room)
                yield f"  {_number(related, item.span.line)} | {clip(text, room)}{printable(there)}"
        elif item is None:
            yield from style.wrap(f"{related.key}: {_value(related)} ({_origin(related)})", "       ", "         ")


def _number(setting: Setting, line: int) -> str:
    return " arg" if is_argument(setting) else f"{line:>4}"


def _caret(text: str, number: str, column: int, end: int, caret: str, style: Style) -> Iterator[str]:
    """A source line and the marks below it; a long line is shown from where it matters."""
    room = style.width - 9
    text, before, marked = _window(text, column, end, room)
    yield f"  {number} | {clip(text, room)}"
    offset = columns(before)
    marks = "^" * max(1, min(columns(head(marked, room)), room - offset))
    line = "       | " + " " * offset + style.paint("caret", marks)
    if not caret:
        yield line
    elif offset + len(marks) + 1 + columns(caret) <= room:
        yield f"{line} {printable(caret)}"
    else:
        yield line
        yield from style.wrap(caret, "       | ", "       | ")


def _window(text: str, column: int, end: int, room: int) -> tuple[str, str, str]:
    """A source line from where the marked part fits, what stands before that part, and the part itself."""
    text = printable(text.rstrip("\r\n"))
    before, marked = text[: column - 1], text[column - 1 : max(column, end) - 1]
    if columns(before) + columns(marked) <= room:
        return text, before, marked
    before = tail(before, room // 3)
    cut = column - 1 - len(before)
    mark = "…" if cut > 0 else ""
    return mark + text[max(0, cut) :], mark + before, marked


def _line_of(document: Document, line: int) -> str:
    lines = _split(document.text)
    return lines[line - 1] if line <= len(lines) else ""


@lru_cache(maxsize=2)
def _split(text: str) -> list[str]:
    """Split once a file: every finding asks for its line."""
    return text.split("\n")


def _value(setting: Setting) -> str:
    value = setting.value
    if isinstance(value, Object):
        return repr(value)
    if value is None:
        return "null"
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        return hex(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _origin(setting: Setting) -> str:
    return {Origin.RECIPE: "from the recipe", Origin.DEFAULT: "class default"}.get(setting.origin, setting.origin.value)


def _needed(entries: Sequence[NotChecked]) -> list[str]:
    needs = {need for entry in entries for need in entry.needs}
    flags = [flag for need, flag in _FLAGS.items() if need in needs]
    return flags + sorted(_OTHER_NEEDS[need] for need in needs if need in _OTHER_NEEDS)


def _closing(result: Result, style: Style, one_of_many: bool) -> Iterator[str]:
    """Below the findings: derived values, what was not checked, upstream's tests, the counts."""
    derived = [f"{_LABELS.get(name, name)} {value}" for name, value in result.derived.items()]
    if derived:
        yield from flow(derived, style.width, "Derived   ", "          ", "   ")
    if result.not_checked:
        yield from _not_checked(result.not_checked, style)
    if result.candidates is not None:
        from mbpack.report.candidates import closing

        yield from closing(result, result.candidates, style)
    if result.by_release:
        from mbpack.report.candidates import releases

        yield from style.wrap(releases(result), "Releases  ", "          ")
    if (
        result.not_checked
        or result.by_release
        or any(finding.holds_for is not None for finding in result.findings)
        or result.candidates is not None
    ):
        from mbpack.report.candidates import question

        asked = question(result)
        if asked:
            yield from style.wrap(asked, "Next      ", "          ")
    if result.run is not None and not one_of_many:
        commands = test_commands(result.run)
        if commands:
            yield from _tests(commands, result, style)
    yield from _totals(result, style)


def _tests(commands: Sequence[str], result: Result, style: Style) -> Iterator[str]:
    """The most telling of upstream's tests, and how many more there are."""
    file = result.path if result.path not in (None, "-") else "FILE"
    more = f" ({len(commands) - _TESTS} more: mbpack verify {file})" if len(commands) > _TESTS else ""
    yield from style.wrap(f"Upstream tests what this configuration uses, in its checkout{more}:", "", "  ")
    yield from (f"  {command}" for command in commands[:_TESTS])


def _not_checked(entries: Sequence[NotChecked], style: Style) -> Iterator[str]:
    groups: dict[tuple[str, ...], list[str]] = {}
    for entry in entries:
        variable = f" ({entry.key})" if entry.needs == ("environment",) else ""
        groups.setdefault(entry.needs, []).append(entry.rule.code + variable)
    parts = []
    for needs, codes in groups.items():
        flags = [_FLAGS.get(need) or _OTHER_NEEDS.get(need, need) for need in needs] or ["a value that cannot be resolved here"]
        shown = ", ".join(codes[:4]) + (f" and {len(codes) - 4} more" if len(codes) > 4 else "")
        parts.append(f"{shown}: need {' and '.join(flags)}")
    yield from style.wrap("; ".join(parts), f"Not checked ({len(entries)})   ", "          ")


def _totals(result: Result, style: Style) -> Iterator[str]:
    errors, warnings = result.errors, result.warnings
    kind = "error" if errors else "warning" if warnings else "good"
    text = f"{_count(errors, 'error')}, {_count(warnings, 'warning')}."
    safe, unsafe = result.fixable or (0, 0)
    if safe or unsafe:
        share = f" {safe} of {errors + warnings} fixable with --fix" if safe else " None fixable with --fix"
        text += share + (f" ({unsafe}{' more' if safe else ''} with --unsafe-fixes)." if unsafe else ".")
    if result.suppressed:
        text += f" {result.suppressed} suppressed."
    if result.findings:
        text += f" mbpack explain {result.findings[0].rule.code} says more."
    yield from (style.paint(kind, line) for line in style.wrap(text, "", ""))
