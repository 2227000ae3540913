"""A plan as pictures: one of the pack lengths, and one of each mode that was simulated (PNG, SVG or PDF).

Shares are percent, lengths tokens. The colours can be told apart by colour-blind readers and in print.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mbpack.facts.modes import MODES
from mbpack.plan._optional import PlanError, numpy, one_line, optional
from mbpack.plan.candidates import Candidate
from mbpack.plan.histogram import Histogram
from mbpack.plan.online import DynamicCP, Energon, GlobalBatch, InBatch
from mbpack.plan.recommend import percent
from mbpack.plan.report_json import Plan, mode_of
from mbpack.plan.report_text import thousands

_BLUE, _ORANGE, _GREEN, _RED, _GREY, _LIGHT = "#0072b2", "#e69f00", "#009e73", "#d55e00", "#666666", "#cccccc"
_DPI = 200
_BINS = 60  # of the length distribution, equally wide on a logarithmic axis


def check_plot(path: str) -> None:
    """Make sure that such a file can be drawn.

    Raises:
        MissingExtraError: without matplotlib.
        PlanError: for a file type it cannot write.
    """
    if Path(path).suffix.lower() not in (".png", ".svg", ".pdf"):
        raise PlanError(f"{path}: a plot is written as .png, .svg or .pdf")
    optional("matplotlib.figure", "plot", "--plot")


def path_of(path: str, mode: str) -> str:
    """The picture of a simulated mode stands beside that of the pack lengths: ``plan.png``, ``plan-energon.png``."""
    file = Path(path)
    return str(file.with_name(f"{file.stem}-{mode}{file.suffix}"))


def plot(plan: Plan, path: str) -> list[str]:
    """Write the pictures of a plan; returns their paths.

    Raises:
        MissingExtraError: without matplotlib.
        PlanError: for a file type it cannot write, or a folder that cannot be written.
    """
    check_plot(path)
    written = [_save(_pack_lengths(plan), path)]
    for simulation in plan.simulations:
        mode = mode_of(simulation)
        written.append(_save(_DRAWN[mode](plan, simulation), path_of(path, mode)))
    return written


def _save(figure: Any, path: str) -> str:
    try:
        figure.savefig(path, dpi=_DPI, metadata={"Date": None} if path.lower().endswith(".svg") else None)
    except OSError as error:
        raise PlanError(f"{path}: cannot write the plot ({one_line(error)})") from None
    return path


def _figure(plan: Plan, what: str, size: tuple[float, float]) -> Any:
    """An empty figure with a title; the plan's data, release and topology stand below."""
    figure = optional("matplotlib.figure", "plot", "--plot").Figure(figsize=size, layout="constrained")
    rows, setup = plan.histogram, plan.setup
    names = ", ".join(Path(one.source).name for one in plan.readings) or "rows"
    topology = f"TP {setup.tp}, PP {setup.pp}, CP {setup.cp}" + (", SP" if setup.sp else "")
    topology += f", DP {setup.dp}" if setup.dp is not None else ""
    about = (
        f"{textwrap.shorten(names, 60, placeholder='…')}: {rows.rows:,} rows, {thousands(rows.tokens)} tokens · "
        f"Megatron-Bridge {setup.version.text} · {topology}"
    )
    figure.suptitle(what, fontsize=13, fontweight="bold")
    figure.supxlabel(about, fontsize=9, color=_GREY)
    return figure


# ---------------------------------------------------------------------- pack lengths


def _pack_lengths(plan: Plan) -> Any:
    chosen = plan.recommendation.pack_size
    what = f"Recommended pack length: {chosen:,} tokens" if chosen is not None else "Pack lengths: none can be recommended"
    figure = _figure(plan, what, (10, 7.4))
    (spread, summed), (slots, cost) = figure.subplots(2, 2)
    _distribution(spread, plan.histogram)
    _cumulative(summed, plan.histogram, max(candidate.pack_size for candidate in plan.candidates))
    _mark_packs(spread, plan, top=True)
    _mark_packs(summed, plan, top=False)
    _where_slots_go(slots, plan)
    _costs(cost, plan)
    return figure


def _distribution(axes: Any, histogram: Histogram) -> None:
    """Share of rows and of tokens by row length."""
    np = numpy()
    rows = histogram.stored()
    lengths = np.maximum(rows.lengths, 1)
    edges = np.unique(np.geomspace(max(1, lengths[0]), lengths[-1] + 1, _BINS + 1))
    if len(edges) < 2:
        edges = np.array([lengths[0], lengths[-1] + 1])
    for weights, colour, name in ((rows.counts, _BLUE, "rows"), (rows.counts * rows.lengths, _ORANGE, "tokens")):
        shares, _ = np.histogram(lengths, edges, weights=100 * weights / max(1, weights.sum()))
        axes.stairs(
            shares, edges, color=colour, label=name, fill=name == "rows", alpha=0.5 if name == "rows" else 1, linewidth=1.5
        )
    axes.set(title="Row lengths", xlabel="row length (tokens)", ylabel="share of all (%)")
    _token_axis(axes)
    axes.legend(loc="upper left", fontsize=8)


def _cumulative(axes: Any, histogram: Histogram, end: int) -> None:
    """Share of rows and tokens in rows up to a length, drawn up to the longest pack."""
    np = numpy()
    rows = histogram.stored()
    lengths = np.maximum(rows.lengths, 1)
    for weights, colour, name in ((rows.counts, _BLUE, "rows"), (rows.counts * rows.lengths, _ORANGE, "tokens in such rows")):
        shares = np.append(100 * np.cumsum(weights) / max(1, weights.sum()), 100)
        axes.step(np.append(lengths, max(end, lengths[-1])), shares, where="post", color=colour, label=name)
    axes.set(title="Rows up to a length", xlabel="row length up to (tokens)", ylabel="share of all (%)", ylim=(0, 104))
    _token_axis(axes)
    axes.grid(axis="y", color=_LIGHT, linewidth=0.5)
    axes.legend(loc="center left", fontsize=8)


def _token_axis(axes: Any) -> None:
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}" if value >= 1 else "")
    axes.tick_params(axis="x", labelrotation=40, labelsize=8)


def _mark_packs(axes: Any, plan: Plan, top: bool) -> None:
    """A line at every pack length, with its number at the top or bottom; the recommended one stands out."""
    for candidate in plan.candidates:
        chosen = candidate.pack_size == plan.recommendation.pack_size
        axes.axvline(
            candidate.pack_size, color=_GREEN if chosen else _GREY, linestyle="-" if chosen else ":", linewidth=2 if chosen else 1
        )
        axes.annotate(
            f"{candidate.pack_size:,}",
            (candidate.pack_size, 1 if top else 0),
            xycoords=("data", "axes fraction"),
            xytext=(-2, -3 if top else 3),
            textcoords="offset points",
            rotation=90,
            ha="right",
            va="top" if top else "bottom",
            fontsize=7,
            color=_GREEN if chosen else _GREY,
            fontweight="bold" if chosen else "normal",
        )


def _names(plan: Plan) -> list[str]:
    """Pack lengths as labels, the recommended one marked, with the verdict on the GPU's memory where there is one."""
    names = []
    for candidate in plan.candidates:
        name = f"{candidate.pack_size:,}"
        if candidate.pack_size == plan.recommendation.pack_size:
            name = f"★ {name}"
        if plan.memory is not None:
            name += f"\n{plan.memory.cell(candidate.pack_size)}"
        names.append(name)
    return names


def _where_slots_go(axes: Any, plan: Plan) -> None:
    """What the token slots of all packs hold, and how much of the data survives."""
    places = range(len(plan.candidates))
    below = [0.0] * len(plan.candidates)
    for name, colour, part in (
        ("tokens", _BLUE, "real_fill"),
        ("alignment inside samples", _ORANGE, "alignment"),
        ("padding at the end", _LIGHT, "padding"),
    ):
        shares = [getattr(candidate.packed, part) if candidate.packed else 0.0 for candidate in plan.candidates]
        axes.bar(places, shares, bottom=below, color=colour, label=name, width=0.7)
        below = [low + share for low, share in zip(below, shares, strict=True)]
    for place, candidate in zip(places, plan.candidates, strict=True):
        text = f"keeps\n{percent(candidate.kept_share)}" if candidate.packed else "fails"
        axes.annotate(text, (place, 102), ha="center", va="bottom", fontsize=8, color=_RED if _loses(candidate) else _GREEN)
    axes.set_xticks(list(places), _names(plan), fontsize=8)
    axes.set(
        title="What the packs hold, and what is kept of the data",
        xlabel="pack length (tokens)",
        ylabel="token slots (%)",
        ylim=(0, 122),
    )
    axes.set_yticks(range(0, 101, 20))
    axes.legend(loc="lower left", fontsize=8, framealpha=0.9)


def _loses(candidate: Candidate) -> bool:
    """Whether a pack length cuts or drops more than a thousandth of the tokens."""
    return candidate.packed is None or candidate.kept_share < 99.9


def _costs(axes: Any, plan: Plan) -> None:
    """Steps of an epoch as bars; attention's share of full rows as a line on an axis of its own."""
    places = list(range(len(plan.candidates)))
    steps = [candidate.packed.steps_per_epoch if candidate.packed else 0 for candidate in plan.candidates]
    bars = axes.bar(places, steps, color=_BLUE, alpha=0.6, width=0.7)
    labels = [f"{number:,}\n(gbs {candidate.batch.gbs:,})" for number, candidate in zip(steps, plan.candidates, strict=True)]
    axes.bar_label(bars, labels, fontsize=7, padding=2)
    axes.set_xticks(places, _names(plan), fontsize=8)
    axes.set(title="What an epoch takes", xlabel="pack length (tokens)", ylim=(0, max([*steps, 1]) * 1.3))
    axes.set_ylabel("optimizer steps", color=_BLUE)
    other = axes.twinx()
    shares = [candidate.packed.attention_share if candidate.packed else None for candidate in plan.candidates]
    other.plot(places, shares, "o-", color=_RED)
    other.set_ylim(0, 105)
    other.set_ylabel("attention: token pairs, % of full rows", color=_RED)


# ---------------------------------------------------------------------- simulated modes


def _in_batch(plan: Plan, found: InBatch) -> Any:
    figure = _figure(plan, f"In-batch packing: {found.mbs} rows of at most {found.row_cap:,} tokens, DP {found.dp}", (10, 4.2))
    time, width = figure.subplots(1, 2)
    waiting = found.token_efficiency.value - found.effective
    _stacked(
        time,
        (
            ("useful", found.effective, _BLUE),
            ("waits for the fullest rank", waiting, _ORANGE),
            ("alignment", 100 - found.token_efficiency.value, _LIGHT),
        ),
    )
    time.set_title(f"Where a step goes (fullest rank {found.imbalance.value:.2f} times the mean)")
    bars = width.bar(
        ["median", "99 of 100", "worst: memory\nmust hold it"],
        [found.width_median, found.width_p99, found.width_worst],
        color=[_BLUE, _BLUE, _RED],
    )
    width.bar_label(bars, [f"{bar.get_height():,.0f}" for bar in bars], fontsize=8, padding=2)
    width.set(title="Width of the joined row", ylabel="tokens")
    width.margins(y=0.12)
    return figure


def _stacked(axes: Any, parts: Sequence[tuple[str, float, str]]) -> None:
    """Shares of a whole in one horizontal bar."""
    left = 0.0
    for name, share, colour in parts:
        axes.barh([0], [share], left=[left], color=colour, label=f"{name} {share:.1f}%", height=0.5)
        left += share
    axes.set(xlim=(0, 100), ylim=(-0.4, 1.3), xlabel="%")
    axes.set_yticks([])
    axes.legend(loc="upper left", fontsize=8, frameon=False)


def _energon(plan: Plan, found: Energon) -> Any:
    what = f"Native Energon packing to {found.seq_length:,} tokens: a buffer of about {found.buffer_95:,} samples reaches 95%"
    figure = _figure(plan, what, (10, 4.4))
    fill, memory = figure.subplots(1, 2)
    buffers = [one.buffer for one in found.fills]
    fill.errorbar(
        buffers, [one.fill.value for one in found.fills], [_finite(one.fill.error) for one in found.fills], fmt="o-", color=_BLUE
    )
    fill.axhline(found.limit, color=_GREEN, linestyle="--", label=f"one buffer for everything: {found.limit:.1f}%")
    fill.axhline(95, color=_GREY, linestyle=":", label="95%")
    skipped = f"; skipped as too long: {found.skipped_rows:,} rows ({found.skipped_share:.2f}%)" if found.skipped_rows else ""
    fill.set(title="Fill of the packs", xlabel=f"packing_buffer_size (samples){skipped}", ylabel="%")
    memory.plot(buffers, [one.buffer_bytes / (1 << 20) for one in found.fills], "s-", color=_RED)
    memory.set(title="Memory that one worker of one rank holds", xlabel="packing_buffer_size (samples)", ylabel="MiB")
    memory.set_ylim(bottom=0)
    for axes in (fill, memory):
        axes.set_xscale("log", base=2)
        axes.set_xticks(buffers, [f"{buffer:,}" for buffer in buffers])
    fill.legend(loc="lower right", fontsize=8)
    return figure


def _finite(number: float) -> float:
    return number if number < 1e9 else 0.0


def _global_batch(plan: Plan, found: GlobalBatch) -> Any:
    what = f"{MODES['global_batch'].title.capitalize()}: packs of {found.capacity:,} tokens, {found.gbs:,} samples a step, DP {found.dp}"
    figure = _figure(plan, what, (10, 4.2))
    time, number = figure.subplots(1, 2)
    useful = found.fill.value / max(1.0, found.imbalance.value)
    _stacked(
        time,
        (
            ("tokens", useful, _BLUE),
            ("waits for the fullest rank", found.fill.value - useful, _ORANGE),
            ("padding", 100 - found.fill.value, _LIGHT),
        ),
    )
    overlong = f"; {found.overlong:,} rows fit no pack" if found.overlong else ""
    time.set_title(f"Where a step goes{overlong}")
    bars = number.bar(["mean", "most"], [found.microbatches.value, found.microbatches_max], color=[_BLUE, _RED], width=0.5)
    number.bar_label(
        bars,
        [f"{found.microbatches.value:.1f} ± {_finite(found.microbatches.error):.1f}", f"{found.microbatches_max}"],
        fontsize=8,
        padding=2,
    )
    number.set(title="Microbatches of a rank in one step", ylabel="microbatches")
    number.margins(y=0.12)
    return figure


def _dynamic_cp(plan: Plan, found: DynamicCP) -> Any:
    what = f"Dynamic context parallelism: {found.max_seqlen_per_rank:,} tokens a rank, {found.pool} ranks"
    figure = _figure(plan, what, (10, 4.2))
    axes = figure.subplots()
    places = range(len(found.groups))
    for shift, part, colour, name in ((-0.2, 0, _BLUE, "rows"), (0.2, 1, _ORANGE, "tokens")):
        bars = axes.bar(
            [place + shift for place in places], [shares[part] for shares in found.groups.values()], 0.4, color=colour, label=name
        )
        axes.bar_label(bars, fmt="%.1f%%", fontsize=8, padding=2)
    axes.set_xticks(list(places), [f"{ranks} rank{'s' if ranks > 1 else ''}" for ranks in found.groups])
    overlong = f"; {found.overlong:,} rows fit no group" if found.overlong else ""
    title = f"Where rows run ({found.microbatches.value:.1f} microbatches a step, fullest rank {found.imbalance.value:.2f} times the mean{overlong})"
    axes.set(title=title, ylabel="share (%)")
    axes.margins(y=0.12)
    axes.legend(fontsize=8)
    return figure


_DRAWN: dict[str, Callable[[Plan, Any], Any]] = {
    "in_batch": _in_batch,
    "energon": _energon,
    "global_batch": _global_batch,
    "dynamic_cp": _dynamic_cp,
}
