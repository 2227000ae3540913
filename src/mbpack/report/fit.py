"""What `mbpack fit` says, for people: verdict, breakdown, what each setting buys, and what fits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from mbpack.engine.fitting import Fitted, argument
from mbpack.memory.estimate import GIB, stages
from mbpack.memory.search import COST_RULES, Candidate
from mbpack.memory.setup import Recompute, Setup
from mbpack.memory.terms import TERMS, Proof
from mbpack.memory.verdict import RATE, Verdict
from mbpack.report.style import Style

#: Rows smaller than this share of the peak are summed up.
_SMALL = 0.01
_KNOBS = 9
_BAR = 24
_KINDS = {Verdict.FITS: "good", Verdict.LIKELY: "good", Verdict.UNLIKELY: "warning", Verdict.NOT: "error"}


def gib(size: float) -> str:
    """Bytes as GiB with one decimal."""
    return f"{size / GIB:.1f}"


def summary(found: Fitted) -> str:
    """The verdict in one sentence, without colours."""
    estimate = found.estimate
    return (
        f"about {gib(estimate.likely)} GiB of {found.gpu.usable} ({gib(estimate.low)} to {gib(estimate.high)}): "
        f"{estimate.verdict.value}"
    )


def render(found: Fitted, style: Style, name: str) -> str:
    """The whole answer."""
    return "\n\n".join((head(found, style, name), "\n".join(_table(found, style)), rest(found, style)))


def head(found: Fitted, style: Style, name: str) -> str:
    """What is estimated: the model, the GPUs, the topology."""
    return "\n".join(_head(found, style, name))


def rest(found: Fitted, style: Style) -> str:
    """Everything behind the breakdown."""
    parts = [list(_totals(found, style)), list(_reasons(found, style)), list(_knobs(found, style))]
    parts += [list(_candidates(found, style)), list(_longest(found))]
    return "\n\n".join("\n".join(lines) for lines in parts if lines)


class Piece(NamedTuple):
    """One line of the breakdown: its name, bytes, share of the largest, and whether its formula is unverified."""

    title: str
    size: float
    share: float
    unverified: bool


def breakdown(found: Fitted) -> list[Piece]:
    """The rows of the peak, the largest first, small ones summed up."""
    stage = found.estimate.stage
    rows = sorted(stage.rows.items(), key=lambda row: -row[1])
    large = [row for row in rows if row[1] >= _SMALL * stage.peak]
    most = large[0][1]
    pieces = [
        Piece(TERMS[term].title, size, size / most, TERMS[term].proof in (Proof.READ, Proof.GUESSED)) for term, size in large
    ]
    others = sum(size for _, size in rows) - sum(size for _, size in large)
    return [*pieces, Piece("smaller rows", others, others / most, False)] if others > 0 else pieces


def _head(found: Fitted, style: Style, name: str) -> Iterator[str]:
    setup, model = found.described.setup, found.described.model
    parameters = setup_parameters(found)
    yield style.paint("bold", f"{name}") + f"  {model.name}: {parameters / 1e9:.2f} B parameters"
    assumed = " (assumed: name it with --gpu)" if found.gpu_assumed else ""
    yield f"{setup.gpus} x {found.gpu.name}, {found.gpu.usable} GiB usable each{assumed}"
    yield topology(setup)
    if model.changed:
        yield f"sizes of its own: {', '.join(model.changed)}"


def setup_parameters(found: Fitted) -> int:
    """Parameters of the model as configured."""
    from mbpack.memory.parameters import total

    return total(found.described.setup.shape, found.described.setup.release)


def topology(setup: Setup) -> str:
    """Sizes, recompute and rows in one line."""
    words = [f"TP {setup.tp}", f"PP {setup.pp}"]
    words += [f"VPP {setup.vpp}"] if setup.vpp > 1 else []
    words += [f"CP {setup.cp}"]
    words += [f"EP {setup.ep}"] if setup.shape.num_moe_experts else []
    words += [f"DP {setup.dp}"]
    words[-1] += f", {recompute(setup)}, length {setup.length:,} x MBS {setup.mbs}, {setup.microbatches} microbatches a step"
    if setup.lora is not None:
        words[-1] += f", adapters of rank {setup.lora.dim} on {', '.join(sorted(setup.lora.targets))}"
    return " ".join(words)


def recompute(setup: Setup) -> str:
    """The recompute setting in words."""
    if setup.recompute is Recompute.SELECTIVE and setup.modules:
        return f"recompute {', '.join(sorted(setup.modules))}"
    if setup.recompute is Recompute.UNIFORM:
        return "full recompute" + (f" in groups of {setup.recompute_layers} layers" if setup.recompute_layers > 1 else "")
    if setup.recompute is Recompute.BLOCK:
        return f"full recompute of {setup.recompute_layers} layers a stage"
    return "no recompute"


def _table(found: Fitted, style: Style) -> Iterator[str]:
    pieces = breakdown(found)
    width = min(max(len(piece.title) for piece in pieces), max(24, style.width - _BAR - 16))
    for piece in pieces:
        mark = " unverified" if piece.unverified else ""
        title = piece.title if len(piece.title) <= width else piece.title[: width - 1] + "…"
        yield f"  {title:<{width}} {gib(piece.size):>8} GiB  {_bar(piece.share)}{mark}".rstrip()


def _bar(share: float) -> str:
    return "#" * max(1, round(share * _BAR))


def _totals(found: Fitted, style: Style) -> Iterator[str]:
    estimate, setup = found.estimate, found.described.setup
    stage = estimate.stage
    where = f"stage {stage.index} of {setup.pp}" if setup.pp > 1 else "every rank"
    moment = {"loss": "at the loss", "backward": "in the backward pass", "step": "in the optimizer's step"}.get(stage.when, "")
    yield f"  allocated at the peak {gib(estimate.allocated)} GiB ({where}, {moment or 'in the forward pass'})".replace(" ,", ",")
    yield f"  of it at the first step {gib(estimate.first_step)} GiB: Adam makes its moments there, so that memory ends at the second"
    if setup.pp > 1:
        each = stages(setup, 1.0, found.gpu.generation)
        yield f"  by stage: {', '.join(gib(one.peak) for one in each)} GiB; training logs show the last one"
    verdict = style.paint(_KINDS.get(estimate.verdict, "bold"), estimate.verdict.value.upper())
    yield (
        f"  on the device about {gib(estimate.likely)} GiB, range {gib(estimate.low)} to {gib(estimate.high)} "
        f"({RATE} of 100 recorded runs lie inside) -> {verdict}"
    )


def _reasons(found: Fitted, style: Style) -> Iterator[str]:
    described = found.described
    for title, lines in (
        ("the range is wide for", described.unsure),
        ("assumed", described.assumed),
        ("not modelled", described.notes),
    ):
        for line in lines:
            yield from style.wrap(f"{title}: {line}", "  ", "    ")
    errors = found.result.errors
    if errors:
        yield f"  the doctor refuses this configuration ({errors} errors): see `mbpack doctor`"


def _knobs(found: Fitted, style: Style) -> Iterator[str]:
    if not found.knobs:
        return
    yield "one setting changed (GiB less at the peak)"
    for knob in found.knobs[:_KNOBS]:
        if knob.saves > 0.05 * GIB:
            yield f"  {gib(knob.saves):>7}  {knob.name}  ({', '.join(key.removeprefix('model.') for key in knob.settings)})"
    for knob in found.knobs:
        if knob.saves < -0.05 * GIB:
            yield f"  {gib(knob.saves):>7}  {knob.name}: ADDS memory"


def _candidates(found: Fitted, style: Style) -> Iterator[str]:
    if not found.knobs:
        return
    if not found.candidates:
        yield f"no topology on {found.described.setup.gpus} x {found.gpu.name} fits for certain and passes the doctor's rules"
        return
    yield "cheapest that fit, and that the doctor accepts"
    for candidate in found.candidates:
        yield from _candidate(candidate, style)
    yield from style.wrap(COST_RULES, "  ", "  ")


def _candidate(candidate: Candidate, style: Style) -> Iterator[str]:
    estimate = candidate.estimate
    setup = candidate.setup
    words = f"TP {setup.tp} PP {setup.pp} CP {setup.cp}" + (f" EP {setup.ep}" if setup.shape.num_moe_experts else "")
    yield (
        f"  {words} DP {setup.dp}, {recompute(setup)}: about {gib(estimate.likely)} GiB "
        f"({gib(estimate.low)} to {gib(estimate.high)}), relative cost {candidate.cost:.2f}"
    )
    if candidate.settings:
        yield from style.wrap(" ".join(argument(key, value) for key, value in candidate.settings.items()), "      ", "      ")
    else:
        yield "      as configured"


def _longest(found: Fitted) -> Iterator[str]:
    if found.longest is None:
        return
    setup = found.described.setup
    if found.longest:
        yield f"the longest row that fits for certain with these settings: {found.longest:,} tokens x MBS {setup.mbs}"
    else:
        yield "no row fits for certain with these settings: the states leave no room"


def explain(found: Fitted, name: str) -> str | None:
    """The page of one row or of one setting that could be changed, None where nothing is called so."""
    return _explain_row(found, name) or _explain_knob(found, name)


def _explain_knob(found: Fitted, name: str) -> str | None:
    """What one changed setting does to each row of the peak."""
    from mbpack.memory.estimate import worst
    from mbpack.memory.knobs import knobs

    setup, generation = found.described.setup, found.gpu.generation
    wanted = name.strip().lower()
    for knob in knobs(setup, generation):
        keys = {key.rpartition(".")[2] for key in knob.settings} | set(knob.settings)
        if wanted not in {knob.name.lower(), *keys}:
            continue
        before, after = worst(setup, 1.0, generation), worst(knob.setup, 1.0, generation)
        lines = [f"{knob.name}: {gib(knob.saves)} GiB less at the peak ({gib(before.peak)} -> {gib(after.peak)} GiB)"]
        lines.append(f"  write    {' '.join(argument(key, value) for key, value in knob.settings.items())}")
        changes = {term: after.rows.get(term, 0) - before.rows.get(term, 0) for term in {**before.rows, **after.rows}}
        for term, change in sorted(changes.items(), key=lambda pair: pair[1]):
            if abs(change) >= 0.05 * GIB:
                lines.append(f"  {change / GIB:+8.1f} {TERMS[term].title}")
        return "\n".join(lines)
    return None


def _explain_row(found: Fitted, row: str) -> str | None:
    wanted = row.strip().lower()
    names = [term for term in TERMS if term.lower() == wanted or TERMS[term].title.lower() == wanted]
    names = names or [term for term in TERMS if wanted and term.lower().startswith(wanted)]
    if not names:
        return None
    stage = found.estimate.stage
    lines = []
    for term in names:
        size = stage.rows.get(term, 0)
        lines += [
            f"{TERMS[term].title}: {gib(size)} GiB on stage {stage.index}",
            f"  formula  {TERMS[term].formula}",
            f"  proof    {TERMS[term].proof.value}",
        ]
    setup = found.described.setup
    shape = setup.shape
    lines.append(
        f"  here     T = {setup.tokens:,.0f} tokens ({setup.mbs} x {setup.length:,} / CP {setup.cp}), Ts = {setup.local:,.0f}, "
        f"t = {setup.tp}, h = {shape.hidden_size:,}, q = {shape.num_attention_heads * shape.kv_channels:,}, "
        f"k = {shape.num_query_groups * shape.kv_channels:,}, f = {shape.ffn_hidden_size:,}, vocabulary = {setup.vocab:,}; "
        f"{stage.alive} microbatches or chunks of them are kept"
    )
    return "\n".join(lines)
