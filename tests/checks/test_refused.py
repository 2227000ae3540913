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
