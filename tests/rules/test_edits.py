"""Which edits a fix makes, where that hangs on more than the finding itself."""

from __future__ import annotations

import pytest

from mbpack.rules.base import Edit
from tests.rules.examples import examine_case

OMNI = "qwen3_omni_30b_a3b_sft_8gpu_h100_bf16_hf_json_config"
CASES = {
    "no pack size where nothing is packed": (
        ("0.5", "llama3_8b_sft_config", "seq/model-dataset-equal"),
        "model: {seq_length: 2048}\ndataset: {packed_sequence_specs: {packed_sequence_size: -1}}",
        (Edit("set", "dataset.seq_length", 2048),),
    ),
    "the pack size goes with the rows": (
        ("0.5", "llama3_8b_sft_config", "seq/model-dataset-equal"),
        "model: {seq_length: 2048}\ndataset: {packed_sequence_specs: {packed_sequence_size: 4096}}",
        (
            Edit("set", "dataset.seq_length", 2048),
            Edit("set", "dataset.packed_sequence_specs.packed_sequence_size", 2048),
        ),
    ),
    "the class that the recipe's dataset has already": (
        ("0.6", OMNI, "cfg/nested-under-none"),
        "dataset:\n"
        "  _target_: megatron.bridge.data.builders.direct_hf_sft.DirectHFSFTDatasetConfig\n"
        "  seq_length: 4096\n"
        "  do_validation: false\n"
        "  do_test: false\n",
        (Edit("delete", "dataset._target_"),),
    ),
    "activations that sequence parallelism distributes already": (
        ("0.6", "llama3_8b_sft_config", "recompute/full-needs-method"),
        "model:\n"
        "  {tensor_model_parallel_size: 2, sequence_parallel: true, distribute_saved_activations: true,\n"
        "   recompute_granularity: full, recompute_method: uniform, recompute_num_layers: 1}\n",
        (Edit("set", "model.distribute_saved_activations", False),),
    ),
    "a decay of no steps beside steps of training": (
        ("0.6", "llama3_8b_sft_config", "sched/steps"),
        "train: {train_iters: 10}\nscheduler: {lr_decay_iters: 0, lr_warmup_iters: 0}",
        (Edit("set", "scheduler.lr_decay_iters", None),),
    ),
    "a decay of no steps where no steps are trained": (
        ("0.6", "llama3_8b_sft_config", "sched/steps"),
        "train: {train_iters: 0}\nscheduler: {lr_decay_iters: 0, lr_warmup_iters: 0}",
        (),
    ),
}


@pytest.mark.parametrize(("asked", "text", "edits"), CASES.values(), ids=CASES)
def test_edits(asked: tuple[str, str, str], text: str, edits: tuple[Edit, ...]) -> None:
    bridge, recipe, slug = asked
    case = {"bridge": bridge, "recipe": recipe, "gpus": 8, "launcher": "script", "input": text}
    found = [finding for finding in examine_case(case).findings if finding.rule.slug == slug]
    assert found
    assert found[0].fix is not None
    assert found[0].fix.edits == edits
