"""Which mode fits, why, and what decides: release, data and family."""

from __future__ import annotations

import pytest

from mbpack.facts.modes import MODES
from mbpack.wizard.draft import Draft, Refused
from mbpack.wizard.modes import assess, choose
from mbpack.wizard.plan import Plan, make_plan


def plan(words: str) -> Plan:
    from mbpack.wizard.answers import coerce

    pairs = (word.split("=", 1) for word in words.split())
    return make_plan(Draft({key: coerce(key, value) for key, value in pairs}))


@pytest.mark.parametrize(
    ("answers", "mode"),
    [
        ("bridge=0.6 family=llama3 workload=sft", "offline"),
        ("bridge=0.5 family=qwen3 workload=lora", "offline"),
        ("bridge=0.3 family=qwen3 workload=dora", "offline"),
        ("bridge=0.6 family=gemma2 workload=sft", "none"),
        ("bridge=0.6 family=glm45 workload=sft", "none"),
        ("bridge=0.4 family=qwen3_next workload=sft", "none"),
        ("bridge=0.4 family=nemotron_h workload=sft", "none"),
        ("bridge=0.5 family=nemotron_h workload=sft", "offline"),
        ("bridge=0.6 family=qwen25_vl workload=sft", "in_batch"),
        ("bridge=0.6 family=gemma3_vl workload=sft", "none"),
        ("bridge=0.6 family=qwen3_omni workload=sft", "none"),
        ("bridge=0.6 recipe=qwen3_vl_8b_peft_1gpu_h100_bf16_energon_config", "none"),  # its step removes no padding
        ("bridge=0.7 recipe=qwen3_vl_8b_peft_1gpu_h100_bf16_energon_config", "energon"),
        ("bridge=0.7 recipe=qwen3_vl_8b_peft_1gpu_h100_bf16_energon_config gpus=2 pp=2", "none"),
        ("bridge=0.6 family=llama3 workload=pretrain", "none"),
        ("bridge=0.6 recipe=deepseek_v4_flash_sft_openmath_thinking_packed_config", "offline"),
        ("bridge=0.6 family=qwen3 workload=sft gpus=32 cp=8 seq_length=32768 long_samples=yes", "none"),
    ],
)
def test_the_recommended_mode(answers: str, mode: str) -> None:
    made = plan(answers)
    assert made.job.mode.name == mode
    assert made.result.verdict == "accepted"
    assert made.choice.reasons


@pytest.mark.parametrize(
    ("answers", "mode", "says"),
    [
        ("bridge=0.6 family=llama3 workload=sft", "in_batch", "starts with 0.7"),
        ("bridge=0.6 family=llama3 workload=sft", "global_batch", "starts with 0.7"),
        ("bridge=0.6 family=llama3 workload=sft", "energon", "starts with 0.7"),
        ("bridge=0.7 family=llama3 workload=sft", "energon", "no Energon WebDataset"),
        ("bridge=0.6 family=qwen3_vl workload=sft", "offline", "reads text fine-tuning data"),
        ("bridge=0.6 family=llama3 workload=pretrain", "offline", "cut to the sequence length already"),
        ("bridge=0.6 family=gemma2 workload=sft", "offline", "not implemented for packed rows"),
        ("bridge=0.4 family=llama3 workload=sft gpus=8 pp=4", "offline", "Megatron-Bridge 0.5 or later"),
        ("bridge=0.5 family=qwen3 workload=sft gpus=8 cp=2 data=chat", "offline", "Megatron-Bridge 0.6 or later"),
        ("bridge=0.7 family=nemotron_h workload=sft", "global_batch", "Mamba"),
        ("bridge=0.7 family=qwen3 workload=sft gpus=8 pp=2", "global_batch", "pipeline"),
    ],
)
def test_a_mode_that_does_not_fit_is_refused_with_the_reason(answers: str, mode: str, says: str) -> None:
    with pytest.raises(Refused, match=says):
        plan(f"{answers} packing={mode}")


def test_what_a_later_release_mends_is_said() -> None:
    found = assess(Draft({"bridge": "0.4", "family": "qwen3_next"}), MODES["offline"])
    assert found.obstacle is not None
    assert "0.5" in found.obstacle


def test_an_opt_out_is_carried_when_it_is_asked_for() -> None:
    made = plan("bridge=0.6 family=glm45 workload=sft packing=offline")
    assert "FAM105" in [one.finding.rule.code for one in made.accepted]
    assert "# mbpack: ignore[FAM105] " in made.text


def test_the_others_are_judged_as_well() -> None:
    choice = choose(Draft({"bridge": "0.6", "family": "llama3"}))
    assert {one.mode.name: bool(one.obstacle) for one in choice.others} == {
        "in_batch": True,
        "energon": True,
        "global_batch": True,
    }


def test_attention_capture_is_refused_while_rows_are_packed() -> None:
    with pytest.raises(Refused, match="attention cannot be captured"):
        plan("bridge=0.6 family=llama3 workload=sft packing=offline cuda_graphs=attn")


def test_a_verdict_that_nobody_knows_is_a_refusal() -> None:
    """The dropout of this recipe is on record for no release; a captured iteration that recomputes depends on it."""
    answers = (
        "bridge=nightly recipe=olmoe_7b_sft_8gpu_h100_bf16_config gpus=32 tp=4 pp=2 packing=in_batch cuda_graphs=full_iteration"
    )
    with pytest.raises(Refused, match=r"cannot be told: model\.attention_dropout is not known \[REC103\]"):
        plan(answers)
