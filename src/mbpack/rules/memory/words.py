"""What activation recompute needs, and what it does not combine with."""

from __future__ import annotations

from collections.abc import Callable

from mbpack.config.run import Run
from mbpack.facts.recomputation import NO_DELAYED_SCALING
from mbpack.rules.base import Fix, Rule, set_to
from mbpack.rules.worded import Said, Worded

INIT = "TransformerConfig.__post_init__"
GRANULARITY, MODULES = "model.recompute_granularity", "model.recompute_modules"
_FULL = {"recompute_method": "uniform", "recompute_num_layers": 1}


def _without(*names: str) -> Callable[[Run], Fix]:
    """The fix that takes modules out of the list; recompute goes off where none is left."""

    def mend(run: Run) -> Fix:
        held = run.maybe(MODULES)
        rest = [name for name in held if name not in names] if isinstance(held, list) else []
        if not rest:
            return Fix("recompute_granularity: null", set_to(run, (GRANULARITY, None)), safe=True)
        return Fix(f"recompute_modules: [{', '.join(rest)}]", set_to(run, (MODULES, rest)), safe=True)

    return mend


def _module(name: str, what: str, other: str) -> Said:
    why = "The model holds no such module, or its backward pass could not run again."
    return Said(f"recompute of {name} {what}", f"recompute_modules {other} recompute_granularity", why, _without(name))


RULES: tuple[Rule, ...] = (
    Worded(
        "REC101",
        "recompute/full-needs-method",
        INIT,
        "Full activation recompute needs a method and a number of layers.",
        {
            "cpu_offloading+recompute_granularity": Said(
                "activation recompute excludes CPU offloading",
                "recompute_granularity cpu_offloading",
                fix={"recompute_granularity": None},
            ),
            "recompute_granularity=full=selective": Said(
                "recompute_granularity must be full or selective, found {recompute_granularity}",
                "recompute_granularity",
                fix={"recompute_granularity": "full", **_FULL},
            ),
            "recompute_granularity=selective if recompute_method": Said(
                "recompute_granularity full needs recompute_method and recompute_num_layers",
                "recompute_granularity recompute_method",
                fix=_FULL,
                safe=True,
            ),
            "recompute_granularity+recompute_num_layers=selective": Said(
                "recompute_granularity full needs recompute_num_layers",
                "recompute_granularity recompute_num_layers",
                fix={"recompute_num_layers": 1},
                safe=True,
            ),
            "recompute_granularity+recompute_num_layers=selective#2": Said(
                "recompute_num_layers belongs to full recompute",
                "recompute_num_layers recompute_granularity",
                fix={"recompute_num_layers": None},
                safe=True,
            ),
            "recompute_method=block=uniform": Said(
                "recompute_method must be block or uniform, found {recompute_method}",
                "recompute_method recompute_granularity",
                fix={"recompute_method": "uniform"},
            ),
            "distribute_saved_activations+sequence_parallel": Said(
                "distribute_saved_activations excludes sequence parallelism",
                "distribute_saved_activations sequence_parallel recompute_granularity",
                fix={"distribute_saved_activations": False},
                safe=True,
            ),
        },
        {"recompute_granularity": "full"},
        good=_FULL,
    ),
    Worded(
        "REC105",
        "recompute/module-missing",
        INIT,
        "Selective recompute names modules that the model has and that can be recomputed with its other settings.",
        {
            "moe_grouped_gemm+recompute_modules": _module("moe_act", "needs moe_grouped_gemm: true", "moe_grouped_gemm"),
            "multi_latent_attention+recompute_modules": _module(
                "mla_up_proj", "needs multi_latent_attention", "multi_latent_attention"
            ),
            "experimental_attention_variant+recompute_modules": _module(
                "gdn_norm_out", "needs experimental_attention_variant: gated_delta_net", "experimental_attention_variant"
            ),
            "moe_shared_expert_intermediate_size+moe_shared_expert_overlap if recompute_modules": _module(
                "shared_experts", "excludes moe_shared_expert_overlap", "moe_shared_expert_overlap"
            ),
            "fp8_recipe=delayed if recompute_modules": Said(
                "recompute of layer norms or expert activations does not work with FP8 in delayed scaling",
                "recompute_modules mixed_precision fp8_recipe",
                "Their backward pass could not run again with the same scale.",
                _without(*NO_DELAYED_SCALING),
            ),
        },
        {"recompute_granularity": "selective", "recompute_modules": ["moe_act"]},
        {
            "mixed_precision": "bf16_with_fp8_delayed_scaling_mixed",
            "recompute_granularity": "selective",
            "recompute_modules": ["layernorm"],
        },
        good={"recompute_modules": ["core_attn", "layernorm"]},
        text="`moe_act` needs grouped expert products, `mla_up_proj` latent attention, `gdn_norm_out` (from 0.6 on) gated delta net. Shared\n"
        "experts that overlap with the dispatcher, and layer norms or expert activations under delayed FP8 scaling, cannot be recomputed.",
        only_with="recompute_granularity moe_layer_recompute",
    ),
    Worded(
        "REC106",
        "recompute/moe-layer",
        INIT,
        "The former switch for recompute of expert layers excludes full recompute. No recipe sets it.",
        {
            "recompute_granularity=full if moe_layer_recompute": Said(
                "moe_layer_recompute excludes recompute_granularity full",
                "moe_layer_recompute recompute_granularity",
                "It asks for selective recompute of the expert layers; full recompute covers them already.",
                {"moe_layer_recompute": False},
                safe=True,
            )
        },
        {"moe_layer_recompute": True, "recompute_granularity": "full", **_FULL},
        on="recipe=qwen3_30b_a3b_sft_config gpus=16",
    ),
)
