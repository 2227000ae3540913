"""A plan's choice as answers for `mbpack init --answers`: keys are init's flags, dashes written as underscores."""

from __future__ import annotations

from mbpack.plan._optional import PlanError
from mbpack.plan.report_json import Plan


def as_answers(plan: Plan, choose: int | None = None) -> str:
    """A YAML mapping. ``choose`` takes another candidate than the recommended one.

    Raises:
        PlanError: when there is nothing to choose, or the chosen length is no candidate.
    """
    wanted = choose if choose is not None else plan.recommendation.pack_size
    if wanted is None:
        raise PlanError("--write: no candidate can run, so there is nothing to write; --choose N takes one all the same")
    chosen = next((one for one in plan.candidates if one.pack_size == wanted), None)
    if chosen is None:
        tried = ", ".join(str(one.pack_size) for one in plan.candidates)
        raise PlanError(f"--choose {wanted}: not among the pack lengths compared ({tried})")
    setup = plan.setup
    lines = [
        f"# Chosen by `mbpack plan` from {plan.histogram.rows:,} rows. Replay with: mbpack init --answers FILE",
        f'bridge: "{setup.version.text}"',
        "packing: offline",
        f"seq_length: {chosen.pack_size}",
        f"gbs: {chosen.batch.gbs}",
        f"tp: {setup.tp}",
        f"pp: {setup.pp}",
        f"cp: {setup.cp}",
        f"sp: {'true' if setup.sp else 'false'}",
    ]
    if setup.dp is not None:
        lines.append(f"gpus: {setup.dp * setup.tp * setup.pp * setup.cp}")
    return "\n".join(lines) + "\n"
