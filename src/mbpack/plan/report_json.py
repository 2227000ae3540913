"""A plan as JSON (schema_version 1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from mbpack import __version__
from mbpack.facts import formulas
from mbpack.plan.candidates import UNSEEDED_SPREAD, Candidate, Setup
from mbpack.plan.histogram import Histogram
from mbpack.plan.memory import Memory
from mbpack.plan.readers import Reading
from mbpack.plan.recommend import Recommendation

#: What depends on the order of packing, and is an estimate where that order is not seeded (up to 0.5).
ORDER_DEPENDENT = (
    "packs",
    "metadata",
    "fill",
    "real_fill",
    "padding",
    "alignment",
    "samples_per_pack",
    "boundary_width",
    "steps_per_epoch",
    "attention.share",
)
UNITS = {
    "pack_size": "tokens",
    "gbs": "packs per optimizer step",
    "token_slots": "tokens per optimizer step",
    "packs": "packed rows",
    "fill, real_fill, padding, alignment": "percent of the token slots of all packs",
    "share, kept_share": "percent of the stored tokens",
    "attention.share": "percent of the causal token pairs of full packs",
    "dynamic_width": "tokens, mean row width without pad_to_max_length",
}


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything a report shows."""

    histogram: Histogram
    readings: Sequence[Reading]
    setup: Setup
    assumed: tuple[str, ...]
    candidates: Sequence[Candidate]
    recommendation: Recommendation
    simulations: Sequence[Any] = ()
    notes: tuple[str, ...] = ()
    memory: Memory | None = None


def as_json(plan: Plan) -> dict[str, Any]:
    """The plan as one JSON object."""
    rows = plan.histogram
    setup = plan.setup
    multiple = setup.pad_multiple()
    return {
        "schema_version": 1,
        "mbpack": __version__,
        "data": {
            "rows": rows.rows,
            "tokens": rows.tokens,
            "counted": rows.counted,
            "mean": rows.mean,
            "p50": rows.percentile(50),
            "p99": rows.percentile(99),
            "max": rows.longest,
            "sources": [
                {"path": one.source, "kind": one.kind, "rows": one.histogram.rows, "tokens": one.histogram.tokens}
                for one in plan.readings
            ],
            "notes": list(plan.notes),
        },
        "setup": {
            "bridge": setup.version.text,
            "schema": setup.schema,
            "seed": setup.seed,
            "seeded": setup.seeded,
            "tp": setup.tp,
            "pp": setup.pp,
            "cp": setup.cp,
            "eval_cp": setup.eval_cp,
            "sp": setup.sp,
            "dp": setup.dp,
            "token_slots": setup.token_slots,
            "gbs": setup.gbs,
            "max_single": setup.max_single,
            "pad_multiple": {"value": multiple.value, "because": multiple.because},
            "assumed": list(plan.assumed),
        },
        "units": UNITS,
        "candidates": [candidate_json(candidate, setup) for candidate in plan.candidates],
        "recommendation": {
            "pack_size": plan.recommendation.pack_size,
            "reasons": list(plan.recommendation.reasons),
        },
        "memory": _memory(plan.memory),
        "simulations": [{"mode": mode_of(one), **asdict(one)} for one in plan.simulations],
    }


def _memory(memory: Memory | None) -> dict[str, Any] | None:
    """What every pack length needs of the GPU, in GiB; null where no recipe was named."""
    if memory is None:
        return None
    return {
        "recipe": memory.recipe,
        "gpu": memory.gpu,
        "gpus": memory.gpus,
        "usable_gib": memory.usable,
        "longest_row_tokens": memory.longest,
        "packs": [{"pack_size": pack, **asdict(fit)} for pack, fit in memory.by_pack.items()],
    }


def candidate_json(candidate: Candidate, setup: Setup) -> dict[str, Any]:
    """One candidate; what could not be computed is null."""
    packed = candidate.packed
    batch = candidate.batch
    share = 100 / max(1, candidate.tokens)
    bubble = None
    if setup.pp > 1 and batch.microbatches:
        bubble = 100 * formulas.bubble_share(setup.pp, batch.microbatches).value
    return {
        "pack_size": candidate.pack_size,
        "row_cap": candidate.row_cap,
        "seed": candidate.seed,
        "pad_multiple": candidate.multiple.value,
        "gbs": batch.gbs,
        "token_slots": batch.token_slots,
        "microbatches": batch.microbatches,
        "bubble": bubble,
        "gbs_note": batch.note or None,
        "packs": packed.packs if packed else None,
        "packs_range": list(packed.packs_range) if packed else None,
        "ffd_packs": packed.ffd_packs if packed else None,
        "lower_bound": packed.lower_bound if packed else None,
        "metadata": packed.metadata if packed else None,
        "fill": packed.fill if packed else None,
        "real_fill": packed.real_fill if packed else None,
        "padding": packed.padding if packed else None,
        "alignment": packed.alignment if packed else None,
        "samples_per_pack": {"mean": packed.samples_mean, "max": packed.samples_max} if packed else None,
        "boundary_width": packed.boundary_width if packed else None,
        "dynamic_width": packed.dynamic_width if packed else None,
        "truncated": {**asdict(candidate.truncated), "share": candidate.truncated.tokens * share},
        "dropped": {**asdict(candidate.dropped), "share": candidate.dropped.tokens * share},
        "kept_share": candidate.kept_share,
        "steps_per_epoch": packed.steps_per_epoch if packed else None,
        "steps_num_epochs": packed.steps_num_epochs if packed else None,
        "attention": {"pairs": packed.attention_pairs, "share": packed.attention_share} if packed else None,
        "crash": asdict(candidate.crash) if candidate.crash else None,
        "warnings": [asdict(warning) for warning in candidate.warnings],
        "estimates": _estimates(candidate, setup),
    }


def _estimates(candidate: Candidate, setup: Setup) -> dict[str, str]:
    """Which values are estimates, and how far off they can be; everything else is exact for these lengths."""
    if candidate.packed is None:
        return {}
    found = {"dynamic_width": "packs of a rank taken as drawn at random"}
    if not setup.seeded:
        low, high = candidate.packed.packs_range
        spread = max(100 * UNSEEDED_SPREAD, 100 * (high - low) / low)
        for name in ORDER_DEPENDENT:
            found[name] = f"the order is not seeded before 0.6: packs within {spread:.2f}% ({low:,} to {high:,} seen)"
    return found


def mode_of(simulation: Any) -> str:
    """The name of a simulated mode."""
    names = {"InBatch": "in_batch", "Energon": "energon", "GlobalBatch": "global_batch", "DynamicCP": "dynamic_cp"}
    return names[type(simulation).__name__]
