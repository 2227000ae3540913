"""What `mbpack init` decided and wrote, for machines (schema_version 1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mbpack import __version__
from mbpack.wizard.next_steps import steps
from mbpack.wizard.plan import Plan, derived, notes

SCHEMA_VERSION = 1


def init_data(
    plan: Plan, form: str, path: str | None, written: bool, text: str, answers: Mapping[str, Any], submitted: bool
) -> dict[str, Any]:
    """One session. ``path`` is the file, None where only the text is wanted; ``submitted``: it is a Slurm script."""
    draft = plan.draft
    return {
        "schema_version": SCHEMA_VERSION,
        "mbpack": __version__,
        "command": "init",
        "path": path,
        "written": written,
        "form": form,
        "context": {
            "bridge": draft.version.text,
            "recipe": draft.recipe.name,
            "gpus": draft.get("gpus"),
            "launcher": draft.get("launcher"),
            "step": plan.job.step,
        },
        "mode": plan.job.mode.name,
        "recommended": plan.recommended,
        "reasons": list(plan.choice.reasons),
        "other_modes": [
            {"mode": other.mode.name, "why_not": other.obstacle or "; ".join(other.doubts)} for other in plan.choice.others
        ],
        "derived": [{"name": name, "value": value, "because": why} for name, value, why in derived(plan)],
        "notes": list(notes(plan)),
        "accepted": [{"code": one.finding.rule.code, "reason": one.reason} for one in plan.accepted],
        "answers": dict(answers),
        "settings": {line.key: line.value for line in plan.lines},
        "text": text,
        "next": [{"what": step.what, "shell": step.shell} for step in steps(plan, path or "packing.yaml", submitted)],
    }
