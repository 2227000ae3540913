"""Every shipped recipe alone: no error but those that are true of it, each with its reason."""

from __future__ import annotations

import pytest

from mbpack.config.context import Given
from mbpack.engine.doctor import Request, judge
from mbpack.facts import recipes

#: Code -> beginnings of recipes of which it is true, and why.
KNOWN: dict[str, tuple[tuple[str, ...], str]] = {
    "PFT101": (("",), "an adapter needs the checkpoint that it adapts, which only the user can name"),
    "GEM101": (("gemma2_",), "the attention of Gemma 2 takes no packed rows"),
    "MOE105": (("glm45_355b_", "qwen3_vl_235b_"), "expert layers with tensor parallel need sequence parallel"),
    "TOP101": (("glm45_air_106b_",), "sequence parallel without tensor parallel"),
    "TOP106": (("vanilla_gpt_",), "a template without sizes"),
    "TOP107": (("qwen35_vl_",), "the mock recipes of 0.4 set sizes that the groups of the model do not divide"),
    "PPL101": (
        ("gpt_oss_120b_", "llama3", "qwen2", "qwen3_235b_", "glm45_355b_"),
        "0.3 and 0.4 hand the middle stages of a pipeline no boundaries",
    ),
    "SEQ101": (("nemotron_nano_", "kimi_k25_vl_sft_"), "lengths of model and data differ until run_recipe.py makes them equal"),
    "SSM101": (("nemotron",), "0.4 lets the state of Mamba layers run on across samples"),
    "SSM102": (("nemotronh_4b_",), "packed rows need the fused path of Mamba layers"),
    "FAM102": (("gemma3_vl_", "nemotron_nano_v2_vl_"), "it attends across samples that are packed in the batch"),
    "FAM107": (("qwen3_next_80b_a3b_peft_",), "calling the recipe fails"),
    "SCH102": (("qwen3_next_80b_a3b_peft_",), "calling the recipe fails"),
    "BAT105": (("glm_45v_", "ministral3_", "nemotron_nano_v2_vl_"), "in-batch packing of one row a microbatch"),
    "GDN101": (("qwen35_vl_",), "the mock recipes of 0.4 split heads that do not divide"),
    "CPL101": (("qwen35_vl_", "qwen3_vl_235b_"), "context parallel without the loss per token"),
    "CPL102": (("qwen35_vl_", "qwen3_vl_235b_"), "context parallel with average_in_collective"),
    "FSD103": (("qwen35_vl_35b_a3b_",), "Megatron-FSDP with a checkpoint format that it does not write"),
    "EPL101": (("moonlight_16b_sft_",), "the overlap's schedule has no boundaries of packed samples"),
    "ALN101": (("nemotron_3_super_sft_",), "run_recipe.py raises pad_seq_to_mult, another script does not"),
    "SEQ102": (("nemotron_3_super_sft_",), "run_recipe.py makes pack and data equal, another script does not"),
    "NRG115": (
        ("nemotron_omni_valor32k_", "qwen3_vl_8b_peft_", "qwen35_vl_35b_a3b_sft_long_context_"),
        "the data's path is the user's to name",
    ),
    "MOE101": (("nemotron_3_ultra_",), "HybridEP meets packed rows of different width"),
    "DAT139": (("qwen3_omni_30b_a3b_sft_",), "the data's files are the user's to name"),
}


@pytest.mark.parametrize("release", ["0.3", "0.4", "0.5", "0.6", "0.7"])
def test_a_recipe_alone(release: str) -> None:
    found = []
    for name in recipes.names(release):
        result = judge(Request((), Given(bridge=release, recipe=name, launcher="script")))
        for finding in result.findings:
            known, _ = KNOWN.get(finding.rule.code, ((), ""))
            if finding.outcome.severity == "error" and not name.removeprefix("perf:").startswith(known or ("-",)):
                found.append(f"{name}: {finding.rule.code} {finding.message}")
    assert found == []
