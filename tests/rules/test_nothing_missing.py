"""Rules that answer although something is unknown: what they lack would not change the answer."""

from __future__ import annotations

from typing import Any

import pytest

from tests.rules.examples import examine_case

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "one stage needs no number of layers": (
        "topo/vpp",
        {"input": "model: {pipeline_model_parallel_size: 1, virtual_pipeline_model_parallel_size: null}"},
    ),
    "packs that are named are not built inside the job, wherever they lie": (
        "data/pack-inside-job",
        {
            "recipe": "llama32_1b_sft_config",
            "found": {"raw": {"lines": 700_000}},
            "input": "dataset:\n"
            "  do_validation: false\n"
            "  offline_packing_specs: {packed_train_data_path: s3://bucket/train.parquet}\n",
        },
    ),
    "a whole file whose model has no class is of no family": (
        "gemma2/packed",
        {
            "input": "_target_: megatron.bridge.training.config.ConfigContainer\n"
            "model: {num_layers: 2}\n"
            "dataset:\n"
            "  _target_: megatron.bridge.data.builders.gpt_sft.GPTSFTDatasetConfig\n"
            "  enable_offline_packing: true\n",
        },
    ),
}


@pytest.mark.parametrize(("slug", "case"), CASES.values(), ids=CASES)
def test_nothing_is_missing(slug: str, case: dict[str, Any]) -> None:
    result = examine_case({"bridge": "0.6", "gpus": 8, "launcher": "script"} | case)
    assert slug not in [entry.rule.slug for entry in result.not_checked]
    assert slug not in [finding.rule.slug for finding in result.findings]
