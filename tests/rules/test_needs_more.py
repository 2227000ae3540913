"""Rules that a configuration alone cannot answer say so, name what they need, and leave the verdict alone."""

from __future__ import annotations

import pytest

from tests.conftest import doctor, slugs

OFFLINE_CP = """
model: {context_parallel_size: 2, calculate_per_token_loss: true}
ddp: {average_in_collective: false}
dataset: {offline_packing_specs: {pad_seq_to_mult: 4}}
train: {global_batch_size: 8}
"""
NATIVE = """
dataset: {path: data/energon, packing_buffer_size: 16, micro_batch_size: 1}
train: {micro_batch_size: 1}
model: {calculate_per_token_loss: true}
ddp: {average_in_collective: false}
checkpoint: {pretrained_checkpoint: ckpt/base}
"""
ONLINE = "dataset: {enable_global_batch_packing: true}\n"
DYNAMIC = ONLINE + "model: {dynamic_context_parallel: true}\n"
TEXT, VLM, ENERGON = "llama3_8b_sft_config", "qwen25_vl_7b_sft_config", "qwen3_vl_8b_peft_1gpu_h100_bf16_energon_config"


@pytest.mark.parametrize(
    ("slug", "bridge", "recipe", "text", "needs"),
    [
        ("step/thd-partition-mcore", "0.6", TEXT, OFFLINE_CP, "libraries"),
        ("vlm/inbatch-row-length", "0.6", VLM, "dataset: {enable_in_batch_packing: true}\n", "data"),
        ("nrg/overlong-sample-skipped", "0.7", ENERGON, NATIVE, "data"),
        ("gbp/mcore-scheduler", "nightly", "llama3_8b_sft_2gpu_h100_bf16_config", DYNAMIC, "libraries"),
        ("step/vlm-defer", "0.6", VLM, "dataset: {defer_in_batch_packing_to_step: true}\n", "step"),
        ("step/qwen3vl-owned", "0.6", VLM, "dataset: {defer_in_batch_packing_to_step: false}\n", "step"),
    ],
)
def test_named_as_not_checked(slug: str, bridge: str, recipe: str, text: str, needs: str) -> None:
    result = doctor(text, bridge=bridge, recipe=recipe, gpus=8, launcher="script")
    assert (slug, (needs,)) in [(entry.rule.slug, tuple(entry.needs)) for entry in result.not_checked]
    assert slug not in slugs(result)


@pytest.mark.parametrize(
    ("slug", "bridge", "recipe", "text"),
    [
        ("nrg/exhaustion", "0.7", None, "dataset: {path: data/energon}\n"),
        ("step/thd-partition-mcore", "0.6", TEXT, "train: {global_batch_size: 8}\n"),
        ("vlm/inbatch-row-length", "0.6", VLM, "dataset: {enable_in_batch_packing: false}\n"),
        ("nrg/overlong-sample-skipped", "0.7", ENERGON, "dataset: {path: data/energon}\n"),
        ("gbp/validation-size", "0.7", "llama3_8b_sft_2gpu_h100_bf16_config", ONLINE + "validation: {eval_iters: 0}\n"),
        ("gbp/mcore-scheduler", "nightly", "llama3_8b_sft_2gpu_h100_bf16_config", ONLINE),
    ],
)
def test_silent_where_it_does_not_matter(slug: str, bridge: str, recipe: str | None, text: str) -> None:
    result = doctor(text, bridge=bridge, recipe=recipe, gpus=8, launcher="script")
    assert slug not in [entry.rule.slug for entry in result.not_checked]


def test_they_do_not_decide_the_verdict() -> None:
    assert doctor(OFFLINE_CP, bridge="0.6", recipe=TEXT, gpus=8, launcher="script").verdict == "accepted"
    assert doctor(NATIVE, bridge="0.7", recipe=ENERGON, gpus=8, launcher="script").verdict == "accepted"
