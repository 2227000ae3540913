"""What `doctor` does with its inputs: configurations examined one by one or by several processes, and reported."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from mbpack.cli.inputs import InputError, NothingHere, is_notebook, is_program, is_script, read
from mbpack.config.context import ContextError, Given
from mbpack.config.document import Document
from mbpack.config.evidence import NOTHING, Evidence
from mbpack.config.overrides import parse_overrides
from mbpack.config.run import Run
from mbpack.config.settings import Unknown, WrongKind
from mbpack.engine.check import Selection
from mbpack.engine.doctor import Request, judge
from mbpack.engine.result import Result
from mbpack.report.columns import printable
from mbpack.report.style import Style
from mbpack.rules.internal import INTERNAL, NOT_BRIDGE

#: From this many configurations on, all processors are used: starting a second process costs about 30 of them.
PARALLEL_FROM = 100


class Unit(Struct, frozen=True):
    """One configuration: files as layers (lowest first) and overrides on top; no file means a recipe alone."""

    paths: tuple[str, ...]
    found: bool = False  # met in a directory or by a glob rather than named


class Options(Struct, frozen=True):
    """What the command line asks for, the same for every configuration."""

    flags: Given = field(default_factory=Given)
    project: Given = field(default_factory=Given)
    selection: Selection = field(default_factory=Selection)
    overrides: tuple[str, ...] = ()
    environ: Mapping[str, str] | None = None  # environment of the run; None where it is not known
    output_format: str = "text"
    style: Style = field(default_factory=Style)
    baseline: frozenset[str] = frozenset()
    marks: bool = False  # whether fingerprints for a new baseline are wanted
    quiet: bool = False  # errors and warnings, and nothing else
    verbose: bool = False  # also the notes that are the same on nearly every run
    show_resolved: bool = False
    show_candidates: bool = False
    inspect: bool = False
    skip_foreign: bool = False  # whether named files of other programs are left out like those of a search
    one_of_many: bool = False  # whether there are other configurations beside each
    lengths: Mapping[int, int] | None = None  # stored row length -> rows of the training data


class Report(Struct):
    """What is kept of one configuration: its part of the report, and what counts."""

    path: str | None
    fragment: Any = None
    errors: int = 0
    warnings: int = 0
    failed: bool = False
    counts: Counter[str] = field(default_factory=Counter)
    fingerprints: tuple[str, ...] = ()
    failed_rules: tuple[str, ...] = ()  # rules that raised, and whose findings a selection hides
    problem: str | None = None  # an input that could not be used: one line
    skipped: bool = False


def reports(units: Sequence[Unit], options: Options) -> Iterator[Report]:
    """The report of every configuration, in order."""
    workers = min(os.cpu_count() or 1, 8)
    if len(units) < PARALLEL_FROM or workers < 2:
        for unit in units:
            yield from _report(unit, options)
        return
    from concurrent.futures import ProcessPoolExecutor

    size = max(25, -(-len(units) // (workers * 4)))
    chunks = [units[start : start + size] for start in range(0, len(units), size)]
    with ProcessPoolExecutor(workers, initializer=_leave_interrupts) as pool:
        for chunk in pool.map(_chunk, chunks, [options] * len(chunks)):
            yield from chunk


def _leave_interrupts() -> None:
    """Ctrl-C is the parent's to answer: a worker would only print where it was."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _chunk(units: Sequence[Unit], options: Options) -> list[Report]:
    return [report for unit in units for report in _report(unit, options)]


def _report(unit: Unit, options: Options) -> list[Report]:
    """The reports of one unit: one, or one per launch command of a script."""
    path = unit.paths[0] if unit.paths else None
    try:
        wanted = list(requests(unit, options))
    except NothingHere as error:
        return [Report(path, skipped=True) if unit.found else Report(path, problem=str(error))]
    except (InputError, ContextError) as error:
        return [Report(path, problem=str(error))]
    found = []
    for request in wanted:
        try:
            result = judge(request)
        except ContextError as error:
            found.append(Report(request.path, problem=str(error)))
            continue
        except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
            if os.environ.get("MBPACK_TRACEBACK"):
                raise
            text = f"{path or 'configuration'}: internal error, nothing to report: {type(error).__name__}: {error}"
            found.append(Report(request.path, problem=text, failed=True))
            continue
        if unit.found and is_foreign(result):
            found.append(Report(request.path, skipped=True))
            continue
        _settle(request, result)
        found.append(_kept(result, options))
    return found


def _settle(request: Request, result: Result) -> None:
    """Try the fixes before they are offered; imported where there are any."""
    if all(finding.fix is None or not finding.fix.edits for finding in result.findings):
        return
    from mbpack.fix.offers import settle

    settle(request, result)


def requests(unit: Unit, options: Options) -> Iterator[Request]:
    """What is to be judged for a unit: one configuration, or one per launch command of a script.

    Raises:
        InputError: a file cannot be read, or a script starts nothing.
    """
    overrides = tuple(parse_overrides(options.overrides)) if options.overrides else ()
    request = Request(
        flags=options.flags,
        project=options.project,
        selection=options.selection,
        overrides=overrides,
        environ=options.environ,
        look=_look(options),
        all_releases=not options.one_of_many,
    )
    if len(unit.paths) == 1 and is_script(unit.paths[0]):
        from mbpack.cli.launches import of_launches

        yield from of_launches(unit.paths[0], request, _read)
        return
    if len(unit.paths) == 1 and is_notebook(unit.paths[0]):
        from mbpack.cli.programs import of_notebook

        yield from of_notebook(unit.paths[0], request, _read)
        return
    if len(unit.paths) == 1 and is_program(unit.paths[0]):
        from mbpack.cli.programs import of_program

        yield from of_program(unit.paths[0], request, _read)
        return
    documents = [document for path in unit.paths for document in _read(path)]
    path = " + ".join(unit.paths) if unit.paths else None
    yield replace(request, documents=documents, path=path, searched=unit.found)


def _read(path: str) -> list[Document]:
    document = read(path)
    if document.root is None or "defaults" not in document.root.value:
        return [document]
    from mbpack.cli.inherited import with_inherited

    return with_inherited(document)


def _look(options: Options) -> Callable[[Run], Evidence]:
    def look(run: Run) -> Evidence:
        if not _may_show(run):
            return NOTHING
        from mbpack.inspect import collect

        return collect(run, full=options.inspect)

    if options.lengths is None:
        return look
    from mbpack.engine.data_lengths import with_lengths

    return with_lengths(look, options.lengths)


def _may_show(run: Run) -> bool:
    """Whether looking at the disk can show anything; asked first because the looking has imports of its own."""
    try:
        return bool(run.offline) or any(_is_here(run.maybe(key)) for key in ("dataset.dataset_root", "tokenizer.tokenizer_model"))
    except (Unknown, WrongKind):
        return False


def _is_here(path: Any) -> bool:
    return isinstance(path, str) and bool(path) and "\0" not in path and os.path.isdir(path)


def _kept(result: Result, options: Options) -> Report:
    marks: tuple[str, ...] = ()
    if options.baseline or options.marks:
        from mbpack.report.baseline import fingerprints, without

        marks = fingerprints(result)
        without(result, options.baseline)
    return Report(
        path=result.path,
        fragment=_fragment(result, options),
        errors=result.errors,
        warnings=result.warnings,
        failed=bool(result.failed_rules),
        failed_rules=() if any(f.rule is INTERNAL for f in result.findings) else tuple(result.failed_rules),
        counts=Counter(f"{f.rule.code} {f.rule.slug} {f.outcome.severity}" for f in result.findings),
        fingerprints=marks,
    )


def _fragment(result: Result, options: Options) -> Any:
    if options.show_resolved:
        from mbpack.report.resolved import render as render_resolved

        return render_resolved(result, options.style)
    if options.output_format == "text":
        from mbpack.report.text import findings_alone, render

        if options.quiet:
            return findings_alone(result, options.style)
        text = render(result, options.style, options.one_of_many, options.verbose)
        if options.show_candidates and result.candidates is not None:
            from mbpack.report.candidates import listing

            text += "\n" + "\n".join(listing(result.candidates, options.style))
        return text
    from mbpack.report.json import file_data

    data = file_data(result)
    if options.show_candidates and result.candidates is not None:
        data["candidates"]["names"] = list(result.candidates.names)
    return data


#: Names of files left out that are told.
_TOLD = 5


def tell_left_out(paths: Sequence[str], quiet: bool = False) -> None:
    """One line about files of a search that are another program's; none where the command is told to skip them."""
    if not paths or quiet:
        return
    count = len(paths)
    what = "1 YAML file is no Megatron-Bridge configuration and was left out"
    if count > 1:
        what = f"{count} YAML files are no Megatron-Bridge configurations and were left out"
    more = f" and {count - _TOLD} more" if count > _TOLD else ""
    warn(f"{what}: {', '.join(paths[:_TOLD])}{more}")


def is_foreign(result: Result) -> bool:
    """Whether a configuration is another program's: it is neither judged nor changed."""
    return any(finding.rule is NOT_BRIDGE for finding in result.findings)


def warn(message: str) -> None:
    """One line for people, beside the report."""
    print(f"mbpack doctor: {printable(' '.join(message.splitlines()))}", file=sys.stderr)
