"""Selective recompute that saves nothing, or costs memory: true of the layers themselves, without an estimate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mbpack.config.run import Run
from mbpack.rules.base import NOTE, Finding, Fix, Rule
from mbpack.rules.stated import stated

if TYPE_CHECKING:
    from mbpack.memory.setup import Setup

GRANULARITY, MODULES = "model.recompute_granularity", "model.recompute_modules"
BACKEND, LATENT, PATTERN = "model.attention_backend", "model.multi_latent_attention", "model.hybrid_layer_pattern"
#: Backends that keep every attention score; recompute of the core attention is worth it there.
UNFUSED = ("unfused", "local")


def recomputed(run: Run) -> list[object]:
    """The modules that selective recompute names, where the user wrote so; core_attn is what null means."""
    if not (run.wrote(GRANULARITY) or run.wrote(MODULES)) or run.value(GRANULARITY) != "selective":
        return []
    modules = run.value(MODULES)
    return modules if isinstance(modules, list) else ["core_attn"] if modules is None else []


def setup_of(run: Run) -> Setup | None:
    """The run as the memory formulas see it, None where its model is not modelled."""
    from mbpack.memory.reading import describe
    from mbpack.memory.sizes import NotModelled

    try:
        return describe(run).setup
    except NotModelled:
        return None


def bytes_a_token(setup: Setup) -> float:
    """What the first layer with attention keeps, in bytes a token of the rank."""
    from mbpack.memory.layers import layer_kinds
    from mbpack.memory.ledger import layer

    kind = next(kind for kind in layer_kinds(setup.shape) if kind[0] == "A")
    return layer(setup, kind, True, 1.0)[0].total / setup.tokens


class CoreAttentionAddsMemory(Rule):
    """Recompute of the core attention costs memory with flash or fused attention and query groups.

    Those kernels keep q, k, v, the output and one number a query for the backward pass, no scores. Recompute keeps q and k and the whole
    projected qkv buffer in their place: 5 to 8% of a layer more, and the attention is computed twice. The scores of unfused
    attention are what this module once was for.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {recompute_granularity: selective, recompute_modules: [core_attn]}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {recompute_granularity: selective, recompute_modules: [mlp]}
    ```

    ## Upstream
    - 0.3 to 0.6: Megatron-Core `transformer/attention.py`, `_checkpointed_attention_forward`; counted on real layers
    """

    code, slug = "MEM102", "mem/core-attn-adds"
    notes_only = True
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        modules = recomputed(run)
        if "core_attn" not in modules or stated(run, BACKEND) in UNFUSED or stated(run, LATENT, False):
            return
        setup = setup_of(run)
        if setup is not None and not any(kind.startswith("A") for kind in _kinds(setup)):
            return
        at = MODULES if run.wrote(MODULES) else GRANULARITY
        yield self.finding(
            run,
            NOTE,
            at,
            "recompute of core_attn adds memory with flash or fused attention" + (_figures(setup) if setup is not None else ""),
            why="The kernel keeps no scores that recompute could drop; recompute keeps the whole qkv buffer in the place of v.",
            related=(BACKEND,) if at == GRANULARITY else (GRANULARITY, BACKEND),
            fix=Fix(_instead(modules, setup)),
        )


def _kinds(setup: Setup) -> tuple[str, ...]:
    from mbpack.memory.layers import layer_kinds

    return layer_kinds(setup.shape)


def _figures(setup: Setup) -> str:
    from msgspec import structs

    without = bytes_a_token(structs.replace(setup, modules=setup.modules - {"core_attn"}))
    added = bytes_a_token(structs.replace(setup, modules=setup.modules | {"core_attn"}))
    return f": {added:,.0f} bytes a token and layer in the place of {without:,.0f}"


def _instead(modules: list[object], setup: Setup | None) -> str:
    rest = [str(module) for module in modules if module != "core_attn"]
    dense = setup is None or not setup.shape.num_moe_experts
    better = rest or (["mlp"] if dense else ["moe_act"])
    return f"recompute_modules: [{', '.join(better)}]" + ("" if rest else ", which does save; or recompute_granularity: null")


class LayerNormSavesNothing(Rule):
    """Recompute of the layer norms saves nothing in a dense model with query groups.

    There the norms are part of the linear layers behind them, which keep the norm's output anyway. It drops the norm outputs in
    front of latent attention and in front of experts.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {recompute_granularity: selective, recompute_modules: [layernorm]}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_30b_a3b_sft_config gpus=16 launcher=script
    model: {recompute_granularity: selective, recompute_modules: [layernorm, moe_act]}
    ```

    ## Upstream
    - 0.3 to 0.6: Megatron-Core `transformer/transformer_layer.py`, `TransformerLayer.__init__`; counted on real layers
    """

    code, slug = "MEM105", "mem/layernorm-saves-nothing"
    notes_only = True
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        modules = recomputed(run)
        if "layernorm" not in modules or stated(run, LATENT, False) or run.moe or stated(run, PATTERN):
            return
        yield self.finding(
            run,
            NOTE,
            MODULES,
            "recompute of layernorm saves nothing in a dense model with query groups",
            why="Its norms are part of the linear layers behind them, which keep the norm's output anyway.",
            related=(GRANULARITY,),
            fix=Fix("recompute_modules: [mlp], which does save"),
        )


RULES: tuple[Rule, ...] = (CoreAttentionAddsMemory(), LayerNormSavesNothing())
