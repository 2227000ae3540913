"""CUDA graphs and packed rows: what a graph can capture, after the start-up accepted it."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.graphs import IMPL, MODULES, SCOPE, graph_impl, scope_names
from mbpack.config.in_effect import IN_BATCH, in_batch_fixed, packs_in_batch
from mbpack.config.run import Run
from mbpack.facts.releases import NIGHTLY, R04, R05, R07
from mbpack.rules.base import CRASH_STEP, DERIVED, LAUNCHER_SETS, NOTE, Finding, Fix, Rule, set_to, words

MOE_MODULES = ("moe", "moe_router", "moe_preprocess")


def captured(names: tuple[str, ...]) -> str:
    """What a scope captures, as messages name it: no names mean whole layers."""
    return words(names) if names else "whole layers"


class TeAttnCapturePacked(Rule):
    """Transformer Engine graphs cannot capture attention over packed rows.

    The replay of a captured layer accepts tensors only, and packed rows bring an object with their boundaries. The run
    starts, warms up, and stops at the first replay, also with `pad_cu_seqlens` and `pad_to_max_length`, which the
    start-up's own message recommends for it. The MLP can be captured, and so can the full iteration.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {cuda_graph_impl: transformer_engine, cuda_graph_scope: [attn], use_te_rng_tracker: true}
    dataset: {offline_packing_specs: {pad_cu_seqlens: true}, dataset_kwargs: {pad_to_max_length: true}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {cuda_graph_impl: transformer_engine, cuda_graph_scope: [mlp], use_te_rng_tracker: true}
    dataset: {dataset_kwargs: {pad_to_max_length: true}}
    ```

    ## Upstream
    - 0.3 to 0.7: Megatron-Core `transformer/transformer_layer.py`, `TransformerLayer._te_cuda_graph_replay`
    - 0.3 to 0.7: Megatron-Core `transformer/module.py`, `GraphableMegatronModule._te_cuda_graph_replay` (Mamba layers)
    """

    code, slug = "GRA103", "graph/te-attn-capture-packed-assert"

    def check(self, run: Run) -> Iterator[Finding]:
        graphs = run.graphs
        if not graphs.scoped_te or (graphs.modules and not {"attn", "mamba"}.intersection(graphs.modules)):
            return
        if not run.packed:
            return
        yield self.finding(
            run,
            CRASH_STEP,
            graphs.key if run.wrote(graphs.key) else IMPL,
            f"a Transformer Engine graph over {captured(graphs.modules)} fails at its first replay with packed rows",
            why="The replay accepts tensors only and asserts that no sample boundaries come with them; pad_cu_seqlens"
            " and"
            " pad_to_max_length do not change that.",
            related=(IMPL, graphs.key),
            fix=Fix(
                f"{graphs.key.rpartition('.')[2]}: [mlp] where the model has dense layers, else cuda_graph_impl: none",
                set_to(run, (graphs.key, ["mlp"])),
            ),
        )


class MoeRouterPacked(Rule):
    """Packed mixture-of-experts rows cannot have their router captured (0.7).

    `gpt_step` refuses it and advises to capture attention only, which Transformer Engine graphs cannot do either. What
    remains is the dense MLP scope, the full iteration, or no graphs.

    ## Bad
    ```yaml
    # mbpack: bridge=0.7 recipe=qwen3_30b_a3b_sft_config gpus=16 launcher=script
    model: {cuda_graph_impl: transformer_engine, cuda_graph_scope: [moe_router], use_te_rng_tracker: true}
    dataset: {dataset_kwargs: {pad_to_max_length: true}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.7 recipe=qwen3_30b_a3b_sft_config gpus=16 launcher=script
    model: {cuda_graph_impl: none}
    ```

    ## Upstream
    - 0.7: `training/gpt_step.py`, `_validate_packed_moe_cuda_graph`
    """

    code, slug = "GRA104", "graph/moe-router-packed"
    releases = (R07, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        graphs = run.graphs
        if not graphs.scoped_te or (graphs.modules and not set(MOE_MODULES).intersection(graphs.modules)):
            return
        if not run.moe or not run.packed:
            return
        yield self.finding(
            run,
            CRASH_STEP,
            graphs.key if run.wrote(graphs.key) else IMPL,
            f"a graph over {captured(graphs.modules)} of a mixture-of-experts model is refused at the first step with"
            " packed rows",
            why="The router's tokens change with the rows. The error's advice to capture attention only fails as well"
            " (graph/te-attn-capture-packed-assert).",
            related=(IMPL, graphs.key, "model.num_moe_experts"),
            fix=Fix("cuda_graph_impl: none, or full_iteration", set_to(run, (IMPL, "none"))),
        )


class InBatchGraphs(Rule):
    """In-batch rows change their width, CUDA graphs do not.

    A microbatch's samples are concatenated to a row as wide as they are. Nothing refuses graphs over such rows; the
    replay meets other shapes than it was captured with. 0.7 can pad the rows to one width (`pad_to_max_length`).

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen25_vl_7b_sft_config gpus=8 launcher=script
    dataset: {enable_in_batch_packing: true}
    train: {micro_batch_size: 2}
    model: {cuda_graph_impl: transformer_engine, cuda_graph_scope: [mlp], use_te_rng_tracker: true}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen25_vl_7b_sft_config gpus=8 launcher=script
    dataset: {enable_in_batch_packing: true}
    train: {micro_batch_size: 2}
    model: {cuda_graph_impl: none}
    ```

    ## Upstream
    - 0.3 to 0.5: `training/vlm_step.py`, `pack_batch_sequences`
    - 0.6, 0.7: `data/packing/in_batch.py`, `build_mcore_thd_sequence_batch_from_rows`
    """

    code, slug = "GRA110", "graph/inbatch-any"

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.graphs.enabled or not packs_in_batch(run):
            return
        fixed = in_batch_fixed(run)
        yield self.finding(
            run,
            NOTE if fixed else CRASH_STEP,
            IMPL,
            "CUDA graphs over in-batch rows work only because pad_to_max_length fixes their width"
            if fixed
            else "CUDA graphs cannot follow in-batch rows, whose width changes with every microbatch",
            why="A graph replays the shapes it was captured with.",
            related=(IN_BATCH,),
            fix=None if fixed else Fix("cuda_graph_impl: none", set_to(run, (IMPL, "none"))),
        )


class NoneClearsScope(Rule):
    """Without CUDA graphs a scope or module list is cleared.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {cuda_graph_impl: none, cuda_graph_scope: [mlp]}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {cuda_graph_impl: none}
    ```

    ## Upstream
    - 0.4 to 0.7: `training/config.py`, `ConfigContainer.validate`
    """

    code, slug = "GRA111", "graph/none-clears-scope"
    releases = (R04, NIGHTLY)
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        for key in (SCOPE, MODULES):
            if key == MODULES and run.release < R05:
                continue
            if not run.wrote(key) or not scope_names(run.value(key)) or graph_impl(run) != "none":
                continue
            yield self.finding(
                run,
                DERIVED,
                key,
                f"{key.rpartition('.')[2]} has no effect: cuda_graph_impl is none and the start-up clears it",
                related=(IMPL,),
            )


class ScopeKeyRename(Rule):
    """cuda_graph_scope is the old name of cuda_graph_modules; it still works.

    From 0.5 on Megatron-Core moves its value over. Recipes of those releases set the old key themselves, and both keys
    together are refused (`graph/scope-and-modules`): override the one the recipe uses. The new key on 0.4 and earlier
    is unknown, which `cfg/renamed-key` reports.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {cuda_graph_impl: transformer_engine, cuda_graph_scope: [mlp], use_te_rng_tracker: true}
    dataset: {dataset_kwargs: {pad_to_max_length: true}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model:
      cuda_graph_impl: transformer_engine
      cuda_graph_modules: [mlp]
      cuda_graph_scope: null
      use_te_rng_tracker: true
    dataset: {dataset_kwargs: {pad_to_max_length: true}}
    ```

    ## Upstream
    - 0.5 to 0.7: Megatron-Core `transformer/transformer_config.py`, `TransformerConfig.__post_init__`
    """

    code, slug = "GRA112", "graph/scope-key-rename"
    releases = (R05, NIGHTLY)
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        if run.complete or not run.wrote(SCOPE) or run.value(SCOPE) is None:
            return
        base = run.settings.recipe
        kept = base is not None and base.values.get(SCOPE) is not None
        yield self.finding(
            run,
            LAUNCHER_SETS,
            SCOPE,
            "cuda_graph_scope is called cuda_graph_modules from 0.5 on; the old name still works",
            why="The recipe sets the old key, so overriding that one is right: both together are refused." if kept else "",
            related=(MODULES,),
            on_key=True,
        )


RULES: tuple[Rule, ...] = (
    TeAttnCapturePacked(),
    MoeRouterPacked(),
    InBatchGraphs(),
    NoneClearsScope(),
    ScopeKeyRename(),
)
