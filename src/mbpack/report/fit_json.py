"""What `mbpack fit` says, for machines (schema_version 1). Sizes are GiB of 2**30 bytes."""

from __future__ import annotations

from typing import Any

from mbpack import __version__
from mbpack.engine.fitting import Fitted
from mbpack.memory.estimate import GIB, Stage, stages
from mbpack.memory.search import COST_RULES, Candidate
from mbpack.memory.setup import Setup
from mbpack.memory.terms import TERMS, Proof
from mbpack.memory.verdict import RATE, Estimate, judge
from mbpack.report.fit import setup_parameters

SCHEMA_VERSION = 1


def fit_data(found: Fitted, name: str) -> dict[str, Any]:
    """The answer as plain data."""
    setup, described = found.described.setup, found.described
    data: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "tool": "mbpack",
        "version": __version__,
        "command": "fit",
        "name": name,
        "release": ".".join(map(str, setup.release)),
        "model": {
            "name": described.model.name,
            "parameters": setup_parameters(found),
            "source": setup.shape.source,
            "changed": list(described.model.changed),
        },
        "gpu": {
            "name": found.gpu.name,
            "generation": found.gpu.generation,
            "usable_gib": found.gpu.usable,
            "measured": found.gpu.measured,
            "assumed": found.gpu_assumed,
        },
        "setup": setup_data(setup),
        **_estimate(found.estimate),
        "doctor": {"verdict": found.result.verdict, "errors": found.result.errors},
        "stages": [_stage(found, one) for one in stages(setup, 1.0, found.gpu.generation)],
        "rows": [_row(term, size) for term, size in sorted(found.estimate.stage.rows.items(), key=lambda row: -row[1])],
        "assumptions": list(described.assumed),
        "range_reasons": list(described.unsure),
        "not_modelled": list(described.notes),
        "knobs": [{"name": knob.name, "saves_gib": _gib(knob.saves), "settings": knob.settings} for knob in found.knobs],
        "candidates": [_candidate(candidate) for candidate in found.candidates],
        "cost_rules": COST_RULES,
    }
    if found.longest is not None:
        data["longest_row_tokens"] = found.longest
    return data


def _gib(size: float) -> float:
    return round(size / GIB, 3)


def setup_data(setup: Setup) -> dict[str, Any]:
    """Topology, rows and what decides the memory."""
    return {
        "gpus": setup.gpus,
        "tensor_parallel": setup.tp,
        "pipeline_parallel": setup.pp,
        "virtual_pipeline": setup.vpp,
        "context_parallel": setup.cp,
        "expert_parallel": setup.ep,
        "expert_tensor_parallel": setup.etp,
        "data_parallel": setup.dp,
        "sequence_parallel": setup.sp,
        "length": setup.length,
        "micro_batch_size": setup.mbs,
        "microbatches": setup.microbatches,
        "recompute": setup.recompute.value,
        "recompute_modules": sorted(setup.modules),
        "recompute_layers": setup.recompute_layers,
        "cross_entropy": setup.entropy.value,
        "transformer_engine": ".".join(map(str, setup.te)),
        "attention": setup.attention.value,
        "activation_fused": setup.activation_fused,
        "gradient_bytes": setup.grad_bytes,
        "master_bytes": setup.master_bytes,
        "moment_bytes": setup.moment_bytes,
        "distributed_optimizer": setup.sharded,
        "optimizer_on_host": setup.offload,
        "fp8": setup.fp8,
        "adapters": None if setup.lora is None else {"rank": setup.lora.dim, "targets": sorted(setup.lora.targets)},
    }


def _estimate(estimate: Estimate) -> dict[str, Any]:
    return {
        "verdict": estimate.verdict.value,
        "allocated_gib": _gib(estimate.allocated),
        "first_step_gib": _gib(estimate.first_step),
        "range_gib": {
            "low": _gib(estimate.low),
            "likely": _gib(estimate.likely),
            "high": _gib(estimate.high),
            "rate_percent": RATE,
        },
        "stage": estimate.stage.index,
        "peak": estimate.stage.when,
    }


def _stage(found: Fitted, stage: Stage) -> dict[str, Any]:
    setup = found.described.setup
    ranged = judge(setup, found.gpu, found.described.unsure, stage.index)
    return {
        "index": stage.index,
        "parameters": round(stage.parameters),
        "peak": stage.when,
        "kept_microbatches": stage.alive,
        "allocated_gib": _gib(stage.peak),
        "range_gib": {"low": _gib(ranged.low), "likely": _gib(ranged.likely), "high": _gib(ranged.high)},
        "logged": stage.index == setup.pp - 1,
    }


def _row(term: str, size: float) -> dict[str, Any]:
    known = TERMS[term]
    return {
        "row": term,
        "title": known.title,
        "gib": _gib(size),
        "bytes": round(size),
        "formula": known.formula,
        "proof": known.proof.value,
        "verified": known.proof not in (Proof.READ, Proof.GUESSED),
    }


def _candidate(candidate: Candidate) -> dict[str, Any]:
    return {
        "setup": setup_data(candidate.setup),
        **_estimate(candidate.estimate),
        "relative_cost": round(candidate.cost, 3),
        "settings": candidate.settings,
        "doctor": "accepted",
    }
