"""A refusal that no rule explains is said in the terms of its own condition."""

from __future__ import annotations

from mbpack.config.assemble import build_run
from mbpack.config.context import Given, resolve_context
from mbpack.config.document import parse
from mbpack.config.run import Run
from mbpack.rules.training.refused import FOUND, Refused

HEAD = "# mbpack: bridge=0.6 recipe=gemma4_vl_26b_sft_8gpu_h100_bf16_config gpus=8 launcher=script\n"


def run_of(text: str) -> Run:
    document = parse(text)
    return build_run(resolve_context(Given(), Given(), [document]), [document])


def test_a_refusal_is_said_in_its_own_terms() -> None:
    (finding,) = Refused().check(run_of(HEAD + "model: {mlp_chunks_for_prefill: 2}\n"))
    assert finding.rule.slug == "check/refused"
    assert finding.outcome.consequence == "rejected"
    assert finding.message == "the start-up refuses model.mlp_chunks_for_prefill > 1"
    assert "model.mlp_chunks_for_prefill is 2" in finding.why
    assert finding.setting.key == "model.mlp_chunks_for_prefill"
    assert finding.setting.item is not None


def test_what_the_start_up_accepts_is_not_said() -> None:
    assert list(Refused().check(run_of(HEAD + "model: {mlp_chunks_for_prefill: 1}\n"))) == []


def test_a_rule_that_speaks_for_a_check_lends_it_its_name() -> None:
    head = HEAD.replace("gemma4_vl_26b_sft_8gpu_h100_bf16_config", "llama3_8b_sft_config")
    text = head + "model: {recompute_granularity: selective, recompute_modules: [mhc]}\n"
    (finding,) = Refused().check(run_of(text))
    assert finding.rule.slug == "recompute/modules"


def test_what_a_rule_has_said_is_not_said_again() -> None:
    run = run_of(HEAD + "model: {mlp_chunks_for_prefill: 2}\n")
    run.memo[FOUND] = list(Refused().check(run))
    assert list(Refused().check(run)) == []


def test_an_object_of_mixed_precision_takes_the_gathered_parameters_as_its_own() -> None:
    head = HEAD.replace("gemma4_vl_26b_sft_8gpu_h100_bf16_config", "llama3_8b_sft_config")
    path = "megatron.bridge.training.mixed_precision.MixedPrecisionConfig"
    dtypes = "bf16: true, params_dtype: torch.bfloat16, pipeline_dtype: torch.bfloat16"
    text = f"{head}mixed_precision: {{_target_: {path}, {dtypes}, %s: true}}\n"
    assert list(Refused().check(run_of(text % "fp8_param"))) == []
    assert [one.rule.slug for one in Refused().check(run_of(text % "fp8_param_gather"))] == ["prec/fp8-fields"]


def test_made_up_data_drop_their_blend() -> None:
    text = (
        "# mbpack: bridge=0.6 gpus=8 launcher=script\n_target_: megatron.bridge.training.config.ConfigContainer\n"
        "model: {_target_: megatron.bridge.models.gpt_provider.GPTModelProvider, num_layers: 2, hidden_size: 64,"
        " num_attention_heads: 4, seq_length: 64}\n"
        "dataset: {_target_: megatron.bridge.training.config.MockGPTDatasetConfig, seq_length: 64, blend: [], random_seed: 1,"
        " reset_position_ids: false, reset_attention_mask: false, eod_mask_loss: false}\n"
    )
    assert not any("blend" in finding.message for finding in Refused().check(run_of(text)))
