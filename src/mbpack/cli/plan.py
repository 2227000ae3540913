"""`mbpack plan`: which pack length, from the data's real lengths."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mbpack.cli.choices import TEXT_JSON, check_choice, choice
from mbpack.cli.inputs import InputError
from mbpack.cli.lengths import (
    AddBos,
    AddEos,
    ChatTemplate,
    Column,
    Counts,
    RowTokens,
    TokenizerPath,
    TurnTokens,
    Workers,
    check_target,
    progress_bar,
    reading_options,
    speaks_unicode,
    status,
    write,
)

if TYPE_CHECKING:
    from mbpack.plan.candidates import Setup
    from mbpack.plan.memory import Memory
    from mbpack.plan.readers import Options
    from mbpack.plan.report_json import Plan
    from mbpack.plan.report_text import Line

MODES = ("offline", "in_batch", "energon", "global_batch", "dynamic_cp")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("plan")(plan)


def plan(
    lengths: Annotated[list[str], typer.Argument(metavar="LENGTHS...", show_default=False)],
    pack: Annotated[str | None, typer.Option(help="Pack lengths to compare, tokens, comma separated.")] = None,
    token_slots: Annotated[int | None, typer.Option(help="Tokens per step, the same for every pack length.")] = None,
    gbs: Annotated[int | None, typer.Option(help="Packs per step, the same for every pack length.")] = None,
    dp: Annotated[int | None, typer.Option(help="Data parallel size.")] = None,
    gpus: Annotated[int | None, typer.Option(help="Number of GPUs, instead of --dp.")] = None,
    recipe: Annotated[str | None, typer.Option(help="Recipe to be trained: marks pack lengths that do not fit the GPU.")] = None,
    gpu: Annotated[str | None, typer.Option(help="Kind of GPU, with --recipe, such as h100-80gb or gb200.")] = None,
    tp: Annotated[int, typer.Option(help="Tensor parallel size.")] = 1,
    pp: Annotated[int, typer.Option(help="Pipeline parallel size.")] = 1,
    cp: Annotated[int, typer.Option(help="Context parallel size.")] = 1,
    eval_cp: Annotated[int | None, typer.Option(help="Context parallel size of the evaluation.")] = None,
    sp: Annotated[bool, typer.Option("--sp/--no-sp", help="Sequence parallel.")] = False,
    multiple: Annotated[int | None, typer.Option(help="Padding multiple, instead of the topology's.")] = None,
    schema: Annotated[str | None, typer.Option(metavar="[chat|prompt-completion]", help="What the rows are.")] = None,
    bridge: Annotated[str | None, typer.Option(help="Megatron-Bridge release, such as 0.6 or 0.6.2.")] = None,
    seed: Annotated[int, typer.Option(help="dataset.seed.")] = 1234,
    max_single: Annotated[int | None, typer.Option(help="Longest row, tokens, below the pack length.")] = None,
    mode: Annotated[str | None, typer.Option(help=f"Also simulate: {', '.join(MODES[1:])}; or all.")] = None,
    mbs: Annotated[int, typer.Option(help="Rows packed together, for in_batch.")] = 4,
    samples_per_step: Annotated[int | None, typer.Option(help="Global batch of unpacked modes, samples.")] = None,
    buffer: Annotated[str | None, typer.Option(help="packing_buffer_size values for energon.")] = None,
    visual_tokens: Annotated[int, typer.Option(help="Merged visual tokens a sample, for energon's memory.")] = 0,
    patch: Annotated[int, typer.Option(help="Patch size of the vision tower: 14 or 16.")] = 14,
    output_format: Annotated[str, typer.Option("--format", metavar=choice(TEXT_JSON), help="How it is printed.")] = "text",
    json_output: Annotated[str | None, typer.Option("--json", metavar="FILE|-", help="Write the plan as JSON too.")] = None,
    plot: Annotated[
        str | None, typer.Option(help="Write a picture, and FILE-MODE for each mode: FILE.png, .svg or .pdf.")
    ] = None,
    write_to: Annotated[str | None, typer.Option("--write", help="Write answers for `mbpack init --answers`.")] = None,
    choose: Annotated[int | None, typer.Option(help="Pack length for --write; else the recommended one.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Let --write replace an existing file.")] = False,
    jobs: Annotated[int, typer.Option(min=0, help="Processes that pack; 0 decides by the number of rows.")] = 0,
    chart: Annotated[bool, typer.Option("--chart/--no-chart", help="Show the length distribution.")] = True,
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
    """Compare pack lengths on real row lengths: text, .npy, parquet, JSONL, packed data or histograms; - for stdin."""
    from mbpack.cli.plan_memory import memory_of
    from mbpack.plan._optional import PlanError
    from mbpack.plan.picture import check_plot, path_of

    try:
        check_choice("--format", output_format, TEXT_JSON)
        if output_format == "json" and json_output is None:
            json_output = "-"
        options = reading_options(column, counts, tokenizer, chat_template, turn_tokens, row_tokens, add_bos, add_eos, workers)
        if write_to is not None:
            check_target(write_to, force)
        if json_output not in (None, "-"):
            check_target(str(json_output), True)
        if plot is not None:
            check_plot(plot)
            check_target(plot, True)
        wanted = Simulations(_modes(mode), mbs, samples_per_step, _numbers("--buffer", buffer), visual_tokens, patch)
        for name in wanted.modes if plot is not None else ():
            check_target(path_of(str(plot), name), True)
        wanted.check()
        ranks = _ranks(dp, gpus, tp, pp, cp)
        setup = _setup(bridge, schema, tp=tp, pp=pp, cp=cp, eval_cp=eval_cp, sp=sp, dp=ranks, multiple=multiple)
        setup = replace(setup, seed=seed, token_slots=token_slots, gbs=gbs, max_single=max_single)
        setup.check((1,))
        assumed = _assumed(bridge, setup)
        made = _plan(lengths, options, _numbers("--pack", pack), setup, schema, assumed, jobs)
        sizes = [candidate.pack_size for candidate in made.candidates]
        made = _with_memory(made, memory_of(made.setup, sizes, recipe, gpu, gpus))
        made = replace(made, simulations=_simulate(made, wanted))
        _deliver(made, json_output, plot, write_to, choose, chart)
    except (PlanError, InputError) as error:
        print(f"mbpack plan: {error}", file=sys.stderr)
        return 2
    except MemoryError:  # a histogram is small however many rows it stands for
        print("mbpack plan: not enough memory for so many rows; plan with a sample of them", file=sys.stderr)
        return 2
    return 0


@dataclass(frozen=True, slots=True)
class Simulations:
    """Which modes to simulate besides offline packing, and with what."""

    modes: tuple[str, ...]
    mbs: int
    samples_per_step: int | None
    buffers: tuple[int, ...]
    visual_tokens: int
    patch: int

    def check(self) -> None:
        """Refuse values out of range.

        Raises:
            PlanError: naming the flags.
        """
        from mbpack.plan._optional import PlanError

        if self.mbs < 1 or (self.samples_per_step is not None and self.samples_per_step < 1):
            raise PlanError("--mbs and --samples-per-step must be at least 1")
        if self.patch not in (14, 16) or not 0 <= self.visual_tokens < 1e9:
            raise PlanError("--patch is 14 or 16, --visual-tokens not negative")


def _numbers(flag: str, text: str | None) -> tuple[int, ...]:
    """Whole numbers, comma separated, each once, in order."""
    from mbpack.plan._optional import PlanError

    if text is None:
        return ()
    try:
        numbers = tuple(dict.fromkeys(int(part.strip().replace("_", "")) for part in text.split(",") if part.strip()))
    except ValueError:
        raise PlanError(f"{flag} {text}: whole numbers, comma separated, such as 2048,4096") from None
    if not numbers or min(numbers) < 1 or max(numbers) > 1 << 30:
        raise PlanError(f"{flag} {text}: numbers from 1 to {1 << 30:,}")
    return numbers


def _modes(text: str | None) -> tuple[str, ...]:
    from mbpack.plan._optional import PlanError

    if text is None:
        return ()
    wanted = tuple(part.strip().replace("-", "_") for part in text.split(",") if part.strip())
    if wanted == ("all",):
        return MODES[1:]
    unknown = [name for name in wanted if name not in MODES]
    if unknown:
        raise PlanError(f"--mode {unknown[0]}: one of {', '.join(MODES)} or all")
    return tuple(name for name in MODES[1:] if name in wanted)


def _ranks(dp: int | None, gpus: int | None, tp: int, pp: int, cp: int) -> int | None:
    """The data parallel size, given or derived."""
    from mbpack.facts import formulas
    from mbpack.plan._optional import PlanError

    if gpus is None:
        return dp
    if dp is not None:
        raise PlanError("give --dp or --gpus, not both: DP = GPUs / (TP x PP x CP)")
    try:
        return formulas.data_parallel_size(gpus, tp, pp, cp).value
    except ValueError as error:
        raise PlanError(str(error)) from None


def _setup(bridge: str | None, schema: str | None, **topology: Any) -> Setup:
    """The setup of a release, a schema and a topology."""
    from mbpack.facts import releases
    from mbpack.plan._optional import PlanError
    from mbpack.plan.candidates import Setup

    if schema not in (None, "chat", "prompt-completion"):
        raise PlanError(f"--schema {schema}: chat or prompt-completion")
    try:
        version = releases.version_of(releases.DEFAULT) if bridge is None else releases.parse_version(bridge)
    except ValueError as error:
        raise PlanError(str(error)) from None
    return Setup(version, "prompt-completion" if schema == "prompt-completion" else "chat", **topology)


def _assumed(bridge: str | None, setup: Setup) -> tuple[str, ...]:
    """What no flag said, and the flag that would."""
    assumed = []
    if bridge is None:
        assumed.append(f"release {setup.version.text} (--bridge)")
    if setup.dp is None:
        assumed.append("DP unknown, so the global batch is not checked (--dp or --gpus)")
    if setup.token_slots is None and setup.gbs is None:
        assumed.append("one pack of the longest candidate a rank and step (--token-slots or --gbs)")
    return tuple(assumed)


def _jobs(rows: int, sizes: int) -> int:
    """Processes for packing: several where it takes seconds, as many as fit into a gigabyte (about 40 bytes a row)."""
    if rows * sizes < 10_000_000:
        return 1
    return max(1, min(sizes, os.cpu_count() or 1, 1_000_000_000 // (40 * rows)))


def _plan(
    sources: list[str],
    options: Options,
    packs: tuple[int, ...],
    setup: Setup,
    schema: str | None,
    assumed: tuple[str, ...],
    jobs: int,
) -> Plan:
    from mbpack.plan.candidates import DEFAULT_PACKS, evaluate
    from mbpack.plan.readers import read_all, schema_of
    from mbpack.plan.recommend import recommend
    from mbpack.plan.report_json import Plan

    with progress_bar() as progress:
        histogram, readings = read_all(sources, replace(options, progress=progress))
    if schema is None:
        found = schema_of(readings)
        if found == "prompt-completion":
            setup = replace(setup, schema="prompt-completion")
        elif found is None:
            assumed = (*assumed, "chat rows (--schema)")
    sizes = packs or DEFAULT_PACKS
    jobs = jobs or _jobs(histogram.rows, len(sizes))
    with status(histogram.rows * len(sizes)) as say:
        candidates = evaluate(histogram, sizes, setup, lambda size: say(f"packing {size}"), jobs)
    notes = tuple(note for reading in readings for note in reading.notes)
    return Plan(histogram, readings, setup, assumed, candidates, recommend(candidates), (), notes)


def _with_memory(made: Plan, memory: Memory | None) -> Plan:
    """The plan with its memory; a length that does not fit is not recommended while another one may fit."""
    from mbpack.plan.recommend import recommend

    if memory is None:
        return made
    room = [one for one in made.candidates if memory.by_pack[one.pack_size].low <= memory.usable]
    return replace(made, memory=memory, recommendation=recommend(room) if room else made.recommendation)


def _simulate(made: Plan, wanted: Simulations) -> tuple[Any, ...]:
    """The other modes at the recommended pack length (else the longest candidate)."""
    if not wanted.modes:
        return ()
    from mbpack.facts import formulas
    from mbpack.plan import online

    setup, rows = made.setup, made.histogram
    chosen = made.recommendation.pack_size
    candidate = next((one for one in made.candidates if one.pack_size == chosen), made.candidates[-1])
    size, dp = candidate.pack_size, setup.dp or 1
    modes, mbs, samples_per_step = wanted.modes, wanted.mbs, wanted.samples_per_step
    if samples_per_step is None:  # as many samples a step as the packs of a step hold
        per_pack = candidate.packed.samples_mean if candidate.packed else 1
        samples_per_step = max(1, round(candidate.batch.gbs * per_pack / (mbs * dp))) * mbs * dp
    multiple = setup.pad_multiple().value
    found: list[Any] = []
    if "in_batch" in modes:
        found.append(online.in_batch(rows, size, mbs, samples_per_step, dp, multiple))
    if "energon" in modes:
        buffers = wanted.buffers or online.BUFFERS
        found.append(online.energon(rows, size, multiple, buffers, wanted.visual_tokens, wanted.patch))
    if "global_batch" in modes:
        found.append(online.global_batch(rows, size, samples_per_step, dp, multiple))
    pool = dp * setup.cp
    if "dynamic_cp" in modes and (pool > 1 or modes == ("dynamic_cp",)):
        aligned = formulas.dynamic_cp_multiple(dp, setup.tp, setup.cp, setup.sp, setup.eval_cp).value
        found.append(online.dynamic_cp(rows, max(1, size // setup.cp), samples_per_step, pool, aligned))
    return tuple(found)


def _deliver(
    made: Plan, json_output: str | None, plot: str | None, write_to: str | None, choose: int | None, chart: bool
) -> None:
    from mbpack.config.writing import write_atomically
    from mbpack.plan.report_json import as_json
    from mbpack.plan.report_text import as_lines

    if json_output != "-":
        show(as_lines(made, chart, speaks_unicode()))
    if json_output is not None:
        text = json.dumps(as_json(made), indent=1, ensure_ascii=False) + "\n"
        if json_output == "-":
            sys.stdout.write(text)
        else:
            write(lambda path: write_atomically(path, text.encode()), json_output)
    if plot is not None:
        from mbpack.plan.picture import plot as draw

        pictures = draw(made, plot)
        if json_output != "-":
            print(f"written: {', '.join(pictures)}")
    if write_to is not None:
        from mbpack.plan.answers import as_answers

        answers = as_answers(made, choose)
        write(lambda path: write_atomically(path, answers.encode()), write_to)
        if json_output != "-":
            print(f"written: {write_to}   next: mbpack init --answers {write_to}")


def show(lines: list[Line]) -> None:
    """Print a report: plain, or with colour on a terminal."""
    from mbpack.report.style import is_coloured

    if not is_coloured(sys.stdout):
        print("\n".join(text for text, _ in lines))
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True, force_terminal=True)
    for text, style in lines:
        console.print(Text(text, style=style))
