"""A plan as text, at most 80 columns wide where the numbers allow it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any

from mbpack.facts import formulas
from mbpack.plan.candidates import Candidate
from mbpack.plan.chart import terminal_chart
from mbpack.plan.online import DynamicCP, Energon, Estimate, GlobalBatch, InBatch
from mbpack.plan.recommend import percent
from mbpack.plan.report_json import Plan

#: A line and how it is shown on a terminal: a rich style, or nothing.
Line = tuple[str, str]
_WIDTH = 80
_LEGEND = (
    "fill: as upstream prints it, alignment included; kept: tokens neither cut nor dropped; align: padding inside "
    "samples; cu_seqlens: boundaries of the fullest pack; attention: share of full rows' token pairs; FFD, bound: packs "
    "of a better packer and of the best possible one"
)


def as_lines(plan: Plan, chart: bool = True, unicode: bool = True) -> list[Line]:
    """The whole report."""
    lines = [*_head(plan), ("", "")]
    if chart:
        packs = [candidate.pack_size for candidate in plan.candidates]
        lines += [(line, "") for line in terminal_chart(plan.histogram, packs, unicode)]
        lines.append(("", ""))
    lines += _table(plan)
    lines.append(("", ""))
    lines += _details(plan)
    lines.append(("", ""))
    lines += _conclusion(plan)
    for simulation in plan.simulations:
        lines.append(("", ""))
        lines += _simulation(simulation)
    return lines


def thousands(number: float) -> str:
    """1234567 as 1.2 M."""
    for unit, name in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")):
        if number >= unit:
            return f"{number / (1e3 if name == 'k' else unit):.1f} {name}"
    return f"{number:,.0f}"


def head_line(rows: Any) -> str:
    """Rows and lengths in one line."""
    kind = "" if rows.counted == "stored" else ", runtime lengths"
    return (
        f"{rows.rows:,} rows, {thousands(rows.tokens)} tokens (mean {rows.mean:,.0f}, median {rows.percentile(50):,.0f}, "
        f"p99 {rows.percentile(99):,.0f}, max {rows.longest:,}{kind})"
    )


def _head(plan: Plan) -> Iterator[Line]:
    setup = plan.setup
    yield head_line(plan.histogram), "bold"
    order = f"seed {setup.seed}: exact" if setup.seeded else "packing order unseeded: ~ marks estimates"
    yield f"Megatron-Bridge {setup.version.text}, {setup.schema} rows, {order}", ""
    multiple = setup.pad_multiple()
    topology = f"TP {setup.tp}, CP {setup.cp}" + (", sequence parallel" if setup.sp else "")
    dp = f", DP {setup.dp}" if setup.dp is not None else ""
    yield f"{topology}{dp}: padding multiple {multiple}", ""
    for note in plan.notes:
        yield from _wrapped(note, "  ", "dim")


def _loss(rows: int, tokens: int, total: int) -> str:
    if not rows:
        return "-"
    share = 100 * tokens / max(1, total)
    shown = f"{share:.1f}%" if share >= 0.05 else "<0.1%"
    return f"{rows:,} {shown}"


def _table(plan: Plan) -> Iterator[Line]:
    head = ["pack", "gbs", "packs", "fill", "seqs/pack", "truncated", "dropped", "steps"]
    head += [f"on {plan.memory.gpu}"] if plan.memory is not None else []
    body = []
    for candidate in plan.candidates:
        packed = candidate.packed
        about = "" if plan.setup.seeded else "~"
        body.append(
            [
                f"{candidate.pack_size}",
                f"{candidate.batch.gbs}",
                f"{about}{packed.packs:,}" if packed else "crash",
                f"{packed.metadata['packing_efficiency']:.2f}%" if packed else "-",
                f"{packed.samples_mean:.1f} max {packed.samples_max}" if packed else "-",
                _loss(candidate.truncated.rows, candidate.truncated.tokens, candidate.tokens),
                _loss(candidate.dropped.rows, candidate.dropped.tokens, candidate.tokens),
                f"{about}{packed.steps_per_epoch:,}" if packed else "-",
                *([plan.memory.cell(candidate.pack_size)] if plan.memory is not None else []),
            ]
        )
    yield from _grid(plan, head, body)


def _details(plan: Plan) -> Iterator[Line]:
    head = ["pack", "kept", "real fill", "padding", "align", "cu_seqlens", "attention", "FFD", "bound"]
    body = []
    for candidate in plan.candidates:
        packed = candidate.packed
        if packed is None:
            body.append([f"{candidate.pack_size}", percent(candidate.kept_share), *["-"] * 7])
            continue
        body.append(
            [
                f"{candidate.pack_size}",
                percent(candidate.kept_share),
                f"{packed.real_fill:.2f}%",
                f"{packed.padding:.2f}%",
                f"{packed.alignment:.2f}%",
                f"{packed.boundary_width}",
                f"{packed.attention_share:.1f}%",
                f"{packed.ffd_packs:,}",
                f"{packed.lower_bound:,}",
            ]
        )
    yield from _grid(plan, head, body)
    yield from _wrapped(_LEGEND, "  ", "dim")


def _grid(plan: Plan, head: list[str], body: list[list[str]]) -> Iterator[Line]:
    """A table, right-aligned; the recommended row is marked with *, one whose preparation fails with !."""
    widths = [max(len(row[column]) for row in [head, *body]) for column in range(len(head))]
    yield "  " + "  ".join(text.rjust(width) for text, width in zip(head, widths, strict=True)), "dim"
    for candidate, row in zip(plan.candidates, body, strict=True):
        chosen = candidate.pack_size == plan.recommendation.pack_size
        line = "  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True))
        style = "bold green" if chosen else "red" if candidate.crash else ""
        yield ("* " if chosen else "! " if candidate.crash else "  ") + line, style


def _conclusion(plan: Plan) -> Iterator[Line]:
    advice = plan.recommendation
    lead = f"* {advice.pack_size}: " if advice.pack_size is not None else "No recommendation: "
    yield from _wrapped(lead + "; ".join(advice.reasons) + ".", "  ", "bold", first="")
    chosen = next((one for one in plan.candidates if one.pack_size == advice.pack_size), None)
    if chosen is not None:
        yield from _wrapped(_settings(plan, chosen), "  ", "", first="  ")
    same: dict[tuple[str, str | None, str], list[str]] = {}
    for candidate in plan.candidates:
        for warning in candidate.warnings:
            key = (warning.severity, warning.slug, warning.message)
            same.setdefault(key, []).append(str(candidate.pack_size))
    for (severity, slug, message), sizes in same.items():
        style = "red" if severity == "error" else "yellow"
        rule = f" {slug}" if slug else ""
        yield from _wrapped(f"{severity} {', '.join(sizes)}:{rule} {message}", "    ", style, "")
    for candidate in plan.candidates:
        if candidate.batch.note:
            yield from _wrapped(f"note {candidate.pack_size}: {candidate.batch.note}", "    ", "dim", "")
    if any(candidate.crash and candidate.packed for candidate in plan.candidates):
        yield "! the numbers leave out the rows that make preparation fail", "dim"
    if plan.memory is not None:
        yield from _wrapped(plan.memory.hint(), "  ", "", first="")
    if plan.assumed:
        yield from _wrapped("Assumed: " + ", ".join(plan.assumed), "  ", "dim", first="")


def _settings(plan: Plan, chosen: Candidate) -> str:
    """What the choice means for the configuration, with its arithmetic."""
    batch = chosen.batch
    text = f"gbs {batch.gbs} = {batch.token_slots:,} token slots a step"
    if batch.microbatches:
        text += f", {batch.microbatches} microbatch{'es' if batch.microbatches > 1 else ''} a rank"
        if plan.setup.pp > 1:
            text += f", pipeline bubble {formulas.bubble_share(plan.setup.pp, batch.microbatches)}"
    packed = chosen.packed
    if packed is not None and packed.steps_num_epochs is not None:
        text += f"; steps an epoch {packed.steps_per_epoch:,}, with train.num_epochs {packed.steps_num_epochs:,}"
    return text


def _wrapped(text: str, indent: str, style: str, first: str | None = None) -> Iterator[Line]:
    start = indent if first is None else first
    for line in textwrap.wrap(text, _WIDTH, initial_indent=start, subsequent_indent=indent, break_on_hyphens=False):
        yield line, style


def _bytes(number: int) -> str:
    return f"{number / 1e9:.1f} GB" if number >= 1e9 else f"{number / 1e6:.1f} MB"


def _about(estimate: Estimate, form: str = ".2f", unit: str = "") -> str:
    return f"{estimate.value:{form}}{unit} (estimate, +-{2 * estimate.error:{form}})"


def _simulation(one: InBatch | Energon | GlobalBatch | DynamicCP) -> Iterator[Line]:
    if isinstance(one, InBatch):
        yield f"In-batch packing, rows up to {one.row_cap:,}, MBS {one.mbs}, GBS {one.gbs}, DP {one.dp}", "bold"
        yield f"  token efficiency    {_about(one.token_efficiency, '.1f', '%')}", ""
        yield f"  fullest/mean rank   {_about(one.imbalance)}: every step waits for the fullest", ""
        yield f"  effective           {one.effective:.1f}%", ""
        yield f"  row width           median {one.width_median:,}, p99 {one.width_p99:,}, worst {one.width_worst:,}", ""
    elif isinstance(one, Energon):
        yield f"Energon packing, seq_length {one.seq_length:,} (first-fit-decreasing within the buffer)", "bold"
        yield "  packing_buffer_size   fill               held by one worker", "dim"
        for fill in one.fills:
            yield f"  {fill.buffer:>19}   {_about(fill.fill, '.1f', '%'):<31} {_bytes(fill.buffer_bytes)}", ""
        yield f"  limit {one.limit:.1f}%; 95% needs a buffer of about {one.buffer_95:,}", ""
        if one.skipped_rows:
            when = f", 100 in a row after about {one.samples_to_fatal:,.0f} samples" if one.samples_to_fatal else ""
            yield f"  skipped: {one.skipped_rows:,} rows over seq_length ({one.skipped_share:.2f}%){when}", "yellow"
    elif isinstance(one, GlobalBatch):
        yield f"Global-batch packing (dp_balanced), pack {one.capacity:,}, GBS {one.gbs} samples, DP {one.dp}", "bold"
        yield f"  microbatches/step   {_about(one.microbatches)}, at most {one.microbatches_max} seen", ""
        yield f"  fill                {_about(one.fill, '.1f', '%')}", ""
        yield f"  fullest/mean rank   {_about(one.imbalance)}", ""
        if one.overlong:
            yield f"  {one.overlong:,} rows fit no pack", "red"
    else:
        yield (
            f"Dynamic context parallelism, {one.max_seqlen_per_rank:,} tokens a rank, pool of {one.pool} ranks",
            "bold",
        )
        for ranks, (rows, tokens) in one.groups.items():
            yield f"  {ranks:>4} rank{'s' if ranks > 1 else ' '}  {rows:6.2f}% of rows  {tokens:6.2f}% of tokens", ""
        yield f"  microbatches/step   {_about(one.microbatches)}", ""
        yield f"  busiest/mean rank   {_about(one.imbalance)} (the real schedule trims and widens groups)", ""
        if one.overlong:
            yield f"  {one.overlong:,} rows fit no group", "red"
