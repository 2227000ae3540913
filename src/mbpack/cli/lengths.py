"""`mbpack lengths`: count row lengths where the data lives, and save or add up histograms."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from mbpack.cli.choices import TEXT_JSON, check_choice, choice
from mbpack.cli.inputs import InputError

if TYPE_CHECKING:
    from mbpack.plan.readers import Options

_HELP = {
    "column": "Parquet column or JSONL field with lengths, token lists or texts; usual names are found by themselves.",
    "counts": "What bare numbers count: tokens of the row as stored, or one less as at run time.",
    "tokenizer": "Tokenizer for rows of text: tokenizer.json, its folder, or tekken.json. Local files only.",
    "template": "Jinja chat template; else the one beside the tokenizer.",
    "turn": "Special tokens the chat format adds to each message, instead of a template (ChatML: 4 or 5).",
    "row": "Special tokens added once to each chat; with --turn-tokens.",
    "workers": "Processes that tokenize; 0 decides by the size of the file.",
}

Column = Annotated[str | None, typer.Option(help=_HELP["column"])]
Counts = Annotated[str, typer.Option(metavar="[stored|runtime]", help=_HELP["counts"])]
TokenizerPath = Annotated[str | None, typer.Option("--tokenizer", help=_HELP["tokenizer"])]
ChatTemplate = Annotated[str | None, typer.Option(help=_HELP["template"])]
TurnTokens = Annotated[int | None, typer.Option(min=0, help=_HELP["turn"])]
RowTokens = Annotated[int, typer.Option(min=0, help=_HELP["row"])]
AddBos = Annotated[bool, typer.Option("--add-bos", help="Prompt-completion rows start with a beginning token.")]
AddEos = Annotated[bool, typer.Option("--add-eos/--no-add-eos", help="Prompt-completion rows end with the end token.")]
Workers = Annotated[int, typer.Option(min=0, help=_HELP["workers"])]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("lengths")(lengths)


def lengths(
    files: Annotated[list[str], typer.Argument(metavar="FILES...", show_default=False)],
    output: Annotated[str | None, typer.Option(help="Write the histogram to this file; - for standard output.")] = None,
    output_format: Annotated[
        str, typer.Option("--format", metavar=choice(TEXT_JSON), help="json: print the histogram, as --output - does.")
    ] = "text",
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    column: Column = None,
    counts: Counts = "stored",
    tokenizer: TokenizerPath = None,
    chat_template: ChatTemplate = None,
    turn_tokens: TurnTokens = None,
    row_tokens: RowTokens = 0,
    add_bos: AddBos = False,
    add_eos: AddEos = True,
    workers: Workers = 0,
) -> int:
    """Count row lengths into a histogram that adds up: text, .npy, parquet, JSONL, packs, histograms; - for stdin."""
    from mbpack.plan._optional import PlanError

    try:
        check_choice("--format", output_format, TEXT_JSON)
        options = reading_options(column, counts, tokenizer, chat_template, turn_tokens, row_tokens, add_bos, add_eos, workers)
        return _lengths(files, output, force, options, output_format == "json")
    except (PlanError, InputError) as error:
        print(f"mbpack lengths: {error}", file=sys.stderr)
        return 2


def reading_options(
    column: str | None,
    counts: str,
    tokenizer: str | None,
    chat_template: str | None,
    turn_tokens: int | None,
    row_tokens: int,
    add_bos: bool,
    add_eos: bool,
    workers: int,
) -> Options:
    """What the shared flags say about reading.

    Raises:
        PlanError: for a value that is not one of the choices.
    """
    from mbpack.plan._optional import PlanError
    from mbpack.plan.readers import Options
    from mbpack.plan.tokenization import TokenizerSpec

    if counts not in ("stored", "runtime"):
        raise PlanError(f"--counts {counts}: stored or runtime")
    spec = None
    if tokenizer is not None:
        spec = TokenizerSpec(tokenizer, chat_template, turn_tokens, row_tokens, add_bos, add_eos)
    elif chat_template is not None or turn_tokens is not None:
        raise PlanError("--chat-template and --turn-tokens need --tokenizer")
    return Options(column, counts, spec, workers)  # type: ignore[arg-type]


def _lengths(files: list[str], output: str | None, force: bool, options: Options, machine: bool) -> int:
    from mbpack.plan.chart import terminal_chart
    from mbpack.plan.readers import read_all, schema_of, tokenizer_of
    from mbpack.plan.report_text import head_line

    if output is not None and output != "-":
        check_target(output, force)
    with progress_bar() as progress:
        histogram, readings = read_all(files, _with(options, progress))
    schema = schema_of(readings)
    tokenizer = options.tokenizer.path if options.tokenizer is not None else tokenizer_of(readings)
    if output == "-" or machine:
        if output not in (None, "-"):
            write(lambda path: histogram.save(path, schema, tokenizer), str(output))
        sys.stdout.write(histogram.to_json(schema, tokenizer))
        return 0
    for reading in readings:
        print(f"{reading.source}: {reading.kind}, {reading.histogram.rows:,} rows")
        for note in reading.notes:
            print(f"  {note}")
    print(head_line(histogram))
    for line in terminal_chart(histogram, (), speaks_unicode()):
        print(line)
    if output is not None:
        write(lambda path: histogram.save(path, schema, tokenizer), output)
        print(f"written: {output}")
    return 0


def check_target(path: str, force: bool) -> None:
    """Refuse a path that cannot be written, and to replace a file unasked, before anything is computed.

    Raises:
        PlanError: when it is a directory, has no folder, or the file exists.
    """
    import os

    from mbpack.plan._optional import PlanError

    if os.path.isdir(path):
        raise PlanError(f"{path}: is a directory; name a file in it")
    folder = os.path.dirname(path)
    if folder and not os.path.isdir(folder):
        raise PlanError(f"{path}: cannot be written (there is no folder {folder})")
    if not force and os.path.isfile(path):
        raise PlanError(f"{path}: exists; --force replaces it")


def write(action: Callable[[str], None], path: str) -> None:
    """Run a write and turn a failure into one line."""
    from mbpack.plan._optional import PlanError, one_line

    try:
        action(path)
    except OSError as error:
        raise PlanError(f"{path}: cannot be written ({one_line(error)})") from None


def _with(options: Options, progress: Callable[[int, int], None] | None) -> Options:
    from dataclasses import replace

    return replace(options, progress=progress)


def speaks_unicode() -> bool:
    """Whether standard output can show block characters."""
    return (sys.stdout.encoding or "").lower().replace("-", "") in ("utf8", "utf16", "utf32")


_SLOW = 1 << 22  # bytes, or rows times pack lengths, above which it takes long enough to show progress


@contextmanager
def status(work: int) -> Iterator[Callable[[str], None]]:
    """Says on a terminal's standard error what is going on, when there is much to do; says nothing elsewhere."""
    if work < _SLOW or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console

    with Console(stderr=True).status("") as spinner:
        yield spinner.update


@contextmanager
def progress_bar() -> Iterator[Callable[[int, int], None] | None]:
    """A progress bar on a terminal's standard error for large files, by bytes read; nothing elsewhere."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    bar = Progress(console=Console(stderr=True), transient=True)
    task = bar.add_task("reading", total=None)

    def update(done: int, total: int) -> None:
        if total > _SLOW or done > _SLOW:
            bar.start()
        bar.update(task, completed=done, total=total or None)

    try:
        yield update
    finally:
        bar.stop()
