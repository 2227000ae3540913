"""Selective recompute of modules that a model does not have, or that do not go with its other settings."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.precision import SECTION, precision_field
from mbpack.config.run import Run
from mbpack.facts.attention import GATED_DELTA_NET
from mbpack.facts.recomputation import NO_DELAYED_SCALING
from mbpack.facts.releases import R06
from mbpack.rules.base import REJECTED, Finding, Fix, RejectingRule, Rule, set_to, words
from mbpack.rules.stated import stated, touched

GRANULARITY, MODULES = "model.recompute_granularity", "model.recompute_modules"
GROUPED, LATENT = "model.moe_grouped_gemm", "model.multi_latent_attention"
VARIANT = "model.experimental_attention_variant"
SHARED, SHARED_OVERLAP = "model.moe_shared_expert_intermediate_size", "model.moe_shared_expert_overlap"
OLD_SWITCH = "model.moe_layer_recompute"


class ModuleMissing(RejectingRule):
    """Selective recompute names modules that the model has and that can be recomputed with its other settings.

    `moe_act` needs grouped expert products, `mla_up_proj` latent attention, `gdn_norm_out` (from 0.6 on) gated delta net. Shared
    experts that overlap with the dispatcher, and layer norms or expert activations under delayed FP8 scaling, cannot be recomputed.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {recompute_granularity: selective, recompute_modules: [moe_act]}
    ```
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    mixed_precision: bf16_with_fp8_delayed_scaling_mixed
    model: {recompute_granularity: selective, recompute_modules: [layernorm]}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {recompute_granularity: selective, recompute_modules: [core_attn, layernorm]}
    ```

    ## Upstream
    - 0.3 to 0.6: Megatron-Core `transformer_config.py`, `TransformerConfig.__post_init__`
    """

    code, slug = "REC105", "recompute/module-missing"

    #: What the conditions read beside the granularity and the list.
    INPUTS = (GROUPED, LATENT, VARIANT, SHARED, SHARED_OVERLAP, SECTION, "model.fp8", "model.fp8_recipe")

    def check(self, run: Run) -> Iterator[Finding]:
        if not touched(run, GRANULARITY, MODULES, *self.INPUTS) or run.value(GRANULARITY) != "selective":
            return
        modules = run.value(MODULES)
        if not isinstance(modules, list):
            return  # text and other kinds are refused before; null means core_attn
        if "moe_act" in modules and not stated(run, GROUPED, False):
            yield self._refuse(run, modules, "moe_act", GROUPED, "needs moe_grouped_gemm: true")
        if "mla_up_proj" in modules and not stated(run, LATENT, False):
            yield self._refuse(run, modules, "mla_up_proj", LATENT, "needs multi_latent_attention")
        if run.release >= R06 and "gdn_norm_out" in modules and stated(run, VARIANT) != GATED_DELTA_NET:
            yield self._refuse(run, modules, "gdn_norm_out", VARIANT, f"needs experimental_attention_variant: {GATED_DELTA_NET}")
        if "shared_experts" in modules and stated(run, SHARED_OVERLAP, False) and stated(run, SHARED) is not None:
            yield self._refuse(run, modules, "shared_experts", SHARED_OVERLAP, "excludes moe_shared_expert_overlap")
        delayed = [name for name in NO_DELAYED_SCALING if name in modules]
        if delayed and precision_field(run, "fp8") and precision_field(run, "fp8_recipe") == "delayed":
            yield self._refuse(run, modules, delayed[0], SECTION, "does not work with FP8 in delayed scaling")

    def _refuse(self, run: Run, modules: list[object], name: str, other: str, condition: str) -> Finding:
        rest = [module for module in modules if module != name]
        return self.finding(
            run,
            REJECTED,
            MODULES if run.wrote(MODULES) or not run.wrote(other) else other,
            f"recompute of {name} {condition}",
            why="The model holds no such module, or its backward pass could not run again.",
            related=(GRANULARITY, MODULES, other),
            fix=Fix(f"recompute_modules: [{words(rest, ',').replace(' ,', ',')}]", set_to(run, (MODULES, rest)), safe=True)
            if rest
            else Fix("recompute_granularity: null", set_to(run, (GRANULARITY, None)), safe=True),
        )


class MoeLayerRecompute(RejectingRule):
    """The former switch for recompute of expert layers excludes full recompute. No recipe sets it.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_30b_a3b_sft_config gpus=16 launcher=script
    model: {moe_layer_recompute: true, recompute_granularity: full, recompute_method: uniform, recompute_num_layers: 1}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_30b_a3b_sft_config gpus=16 launcher=script
    model: {recompute_granularity: full, recompute_method: uniform, recompute_num_layers: 1}
    ```

    ## Upstream
    - 0.3 to 0.6: Megatron-Core `transformer_config.py`, `TransformerConfig.__post_init__`
    """

    code, slug = "REC106", "recompute/moe-layer"

    def check(self, run: Run) -> Iterator[Finding]:
        if touched(run, OLD_SWITCH, GRANULARITY) and run.flag(OLD_SWITCH) and run.value(GRANULARITY) == "full":
            yield self.finding(
                run,
                REJECTED,
                OLD_SWITCH if run.wrote(OLD_SWITCH) else GRANULARITY,
                "moe_layer_recompute excludes recompute_granularity full",
                why="It asks for selective recompute of the expert layers; full recompute covers them already.",
                related=(GRANULARITY,),
                fix=Fix("moe_layer_recompute: false", set_to(run, (OLD_SWITCH, False)), safe=True),
            )


RULES: tuple[Rule, ...] = (ModuleMissing(), MoeLayerRecompute())
