"""The JSON Schema of `mbpack fit --format json`."""

from __future__ import annotations

from typing import Any

from mbpack.report.schema_parts import ANY, NUMBER, TEXT, WHOLE, YES_NO, array, maybe, record, root


def fit_schema() -> dict[str, Any]:
    """Sizes are GiB of 2**30 bytes."""
    low_to_high = {"low": NUMBER, "likely": NUMBER, "high": NUMBER}
    estimate = {
        "verdict": TEXT,
        "allocated_gib": NUMBER,
        "first_step_gib": NUMBER,
        "range_gib": record(**low_to_high, rate_percent=NUMBER),
        "stage": WHOLE,
        "peak": TEXT,
    }
    gpu = record(name=TEXT, generation=TEXT, usable_gib=NUMBER, measured=YES_NO, assumed=YES_NO)
    row = record(row=TEXT, title=TEXT, gib=NUMBER, bytes=WHOLE, formula=TEXT, proof=TEXT, verified=YES_NO)
    stage = record(
        index=WHOLE,
        parameters=WHOLE,
        peak=TEXT,
        kept_microbatches=NUMBER,
        allocated_gib=NUMBER,
        range_gib=record(**low_to_high),
        logged=YES_NO,
    )
    parts = {
        "tool": TEXT,
        "version": TEXT,
        "command": {"const": "fit"},
        "name": TEXT,
        "release": TEXT,
        "model": record(name=TEXT, parameters=WHOLE, source=TEXT, changed=array(TEXT)),
        "gpu": gpu,
        "setup": _setup(),
        **estimate,
        "doctor": record(verdict=TEXT, errors=WHOLE),
        "stages": array(stage),
        "rows": array(row),
        "assumptions": array(TEXT),
        "range_reasons": array(TEXT),
        "not_modelled": array(TEXT),
        "knobs": array(record(name=TEXT, saves_gib=NUMBER, settings=ANY)),
        "candidates": array(record(setup=_setup(), **estimate, relative_cost=NUMBER, settings=ANY, doctor=TEXT)),
        "cost_rules": ANY,
    }
    schema = root("fit", 1, parts)
    schema["properties"]["longest_row_tokens"] = WHOLE
    return schema


def _setup() -> dict[str, Any]:
    sizes = (
        "gpus tensor_parallel pipeline_parallel virtual_pipeline context_parallel expert_parallel expert_tensor_parallel "
        "data_parallel length micro_batch_size microbatches"
    ).split()
    words = "recompute cross_entropy transformer_engine attention".split()
    numbers = "gradient_bytes master_bytes moment_bytes optimizer_on_host".split()
    switches = "sequence_parallel activation_fused distributed_optimizer fp8".split()
    return record(
        **dict.fromkeys(sizes, WHOLE),
        **dict.fromkeys(words, TEXT),
        **dict.fromkeys(numbers, NUMBER),
        **dict.fromkeys(switches, YES_NO),
        recompute_modules=array(TEXT),
        recompute_layers=maybe(WHOLE),
        adapters=maybe(record(rank=WHOLE, targets=array(TEXT))),
    )
