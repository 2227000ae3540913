"""CUDA graphs: what the start-up refuses about their spelling, scope and companions."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.graphs import IMPL
from mbpack.config.run import Run
from mbpack.facts.releases import R05, R06
from mbpack.rules.base import CRASH_DATA, CRASH_STEP, REJECTED, Finding, Fix, RejectingRule, Rule, set_to

KWARGS_WIDTH = "dataset.dataset_kwargs.pad_to_max_length"
PAD_CU = "dataset.offline_packing_specs.pad_cu_seqlens"
NAN_CHECK = "rerun_state_machine.check_for_nan_in_loss"


def _specs_in_force(run: Run) -> bool:
    """Whether the graph checks look at the specs: any specs from 0.6 on, else a packed run."""
    return run.has_specs if run.release >= R06 else run.offline and not run.specs_plain


class PadCuRequiresMaxLength(RejectingRule):
    """Fixed boundary arrays need fixed-width rows: pad_cu_seqlens goes with pad_to_max_length.

    Only the boolean true counts; the text "true" does not. From 0.6 on the start-up refuses the pair, before that the
    dataset fails when it is built.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    dataset:
      dataset_kwargs: {pad_to_max_length: false}
      offline_packing_specs: {pad_cu_seqlens: true}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    dataset:
      dataset_kwargs: {pad_to_max_length: true}
      offline_packing_specs: {pad_cu_seqlens: true}
    ```

    ## Upstream
    - 0.6, 0.7: `training/config.py`, `ConfigContainer.validate`
    - 0.3 to 0.5: `data/datasets/sft.py`, `GPTSFTPackedDataset`
    """

    code, slug = "DAT102", "data/pad-cu-requires-max-length"

    def check(self, run: Run) -> Iterator[Finding]:
        if not _specs_in_force(run) or not run.flag(PAD_CU) or run.fixed_width:
            return
        yield self.finding(
            run,
            REJECTED if run.release >= R06 else CRASH_DATA,
            PAD_CU,
            "pad_cu_seqlens needs dataset_kwargs.pad_to_max_length: true",
            why="A boundary array of constant length only helps when every row has the same width.",
            related=(KWARGS_WIDTH,),
            fix=Fix("dataset_kwargs.pad_to_max_length: true", set_to(run, (KWARGS_WIDTH, True)), safe=True),
        )


class OfflineFixedWidth(RejectingRule):
    """CUDA graphs over offline packs need fixed-width rows.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {cuda_graph_impl: transformer_engine, cuda_graph_scope: [mlp], use_te_rng_tracker: true}
    dataset: {dataset_kwargs: {pad_to_max_length: false}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {cuda_graph_impl: transformer_engine, cuda_graph_scope: [mlp], use_te_rng_tracker: true}
    dataset: {dataset_kwargs: {pad_to_max_length: true}}
    ```

    ## Upstream
    - 0.6, 0.7: `training/config.py`, `ConfigContainer.validate`
    """

    code, slug = "GRA101", "graph/offline-fixed-width"

    def check(self, run: Run) -> Iterator[Finding]:
        if not _specs_in_force(run):
            return
        graphs = run.graphs
        if not (graphs.full_iteration or graphs.impl == "transformer_engine") or run.fixed_width:
            return
        yield self.finding(
            run,
            REJECTED if run.release >= R06 else CRASH_STEP,
            IMPL,
            "CUDA graphs over offline packs need dataset_kwargs.pad_to_max_length: true",
            why="A graph replays with the shapes it was captured with; without padding the row width changes per batch.",
            related=(KWARGS_WIDTH,),
            fix=Fix(
                "dataset_kwargs.pad_to_max_length: true, or cuda_graph_impl: none",
                set_to(run, (KWARGS_WIDTH, True)),
                safe=True,
            ),
        )


class AttnCaptureNeedsPadCu(RejectingRule):
    """Capturing packed attention needs pad_cu_seqlens.

    Transformer Engine graphs over packed attention fail at the first replay all the same; capture the mlp scope or the
    full iteration.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {cuda_graph_impl: transformer_engine, cuda_graph_scope: [attn], use_te_rng_tracker: true}
    dataset: {dataset_kwargs: {pad_to_max_length: true}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {cuda_graph_impl: transformer_engine, cuda_graph_scope: [mlp], use_te_rng_tracker: true}
    dataset: {dataset_kwargs: {pad_to_max_length: true}}
    ```

    ## Upstream
    - 0.6, 0.7: `training/config.py`, `ConfigContainer.validate`
    """

    code, slug = "GRA102", "graph/attn-capture-needs-pad-cu"

    def check(self, run: Run) -> Iterator[Finding]:
        if not _specs_in_force(run):
            return
        graphs = run.graphs
        if not graphs.captures_attention or run.flag(PAD_CU):
            return
        if graphs.full_iteration:
            fix = Fix(
                "pad_cu_seqlens: true with pad_to_max_length: true",
                set_to(run, (PAD_CU, True), (KWARGS_WIDTH, True)),
                safe=True,
            )
        else:
            fix = Fix(
                f"{graphs.key.rpartition('.')[2]}: [mlp] (packed attention cannot be captured; the MLP can)",
                set_to(run, (graphs.key, ["mlp"])),
            )
        yield self.finding(
            run,
            REJECTED if run.release >= R06 else CRASH_STEP,
            graphs.key if run.wrote(graphs.key) else IMPL,
            "capturing packed attention needs pad_cu_seqlens: true",
            why="The boundary array changes its length from row to row, and a captured graph cannot follow.",
            related=(IMPL, PAD_CU),
            fix=fix,
        )


class FullIterationNanCheck(RejectingRule):
    """Full-iteration graphs need the NaN check off.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_pretrain_config gpus=8 launcher=script
    model: {cuda_graph_impl: full_iteration, cuda_graph_scope: null, use_te_rng_tracker: true}
    rerun_state_machine: {check_for_nan_in_loss: true}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_pretrain_config gpus=8 launcher=script
    model: {cuda_graph_impl: full_iteration, cuda_graph_scope: null, use_te_rng_tracker: true}
    rerun_state_machine: {check_for_nan_in_loss: false}
    ```

    ## Upstream
    - 0.3 to 0.7: `training/config.py`, `ConfigContainer.validate`
    """

    code, slug = "GRA108", "graph/full-iteration-nan-check"

    def check(self, run: Run) -> Iterator[Finding]:
        graphs = run.graphs
        full = graphs.full_iteration or (run.release >= R05 and graphs.core_impl == "full_iteration")
        if full and run.flag(NAN_CHECK):
            yield self.finding(
                run,
                REJECTED,
                NAN_CHECK,
                "full-iteration CUDA graphs need check_for_nan_in_loss: false",
                why="The check reads the loss on the host, which a captured iteration cannot do.",
                related=(IMPL,),
                fix=Fix("check_for_nan_in_loss: false", set_to(run, (NAN_CHECK, False)), safe=True),
            )


class TeRngTracker(RejectingRule):
    """CUDA graphs need Transformer Engine's RNG tracker.

    Builder-style models (GPTModelConfig, 0.4 and later) are refused at validation, and only their own flag counts
    there; model providers fail when the model is built, and either flag will do.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {cuda_graph_impl: transformer_engine, cuda_graph_scope: [mlp], use_te_rng_tracker: false}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {cuda_graph_impl: transformer_engine, cuda_graph_scope: [mlp], use_te_rng_tracker: true}
    ```

    ## Upstream
    - 0.3 to 0.7: `models/gpt_provider.py`, `GPTModelProvider.provide`
    - 0.4 and later: `models/gpt/gpt_builder.py`, `GPTModelConfig.finalize`
    """

    code, slug = "GRA109", "graph/te-rng-tracker"

    BUILDERS = ("GPTModelConfig", "BridgeGPTModelConfig")

    def check(self, run: Run) -> Iterator[Finding]:
        key, other = "model.use_te_rng_tracker", "rng.te_rng_tracker"
        if not run.graphs.enabled or run.flag(key):
            return
        builder = run.settings.class_at("model") in self.BUILDERS
        if not builder and run.flag(other):
            return
        yield self.finding(
            run,
            REJECTED if builder else CRASH_DATA,
            key if run.wrote(key) else IMPL,
            "CUDA graphs need use_te_rng_tracker: true",
            why="Captured dropout needs a generator state that replays; the model refuses to be built without it.",
            related=(IMPL,),
            fix=Fix("model.use_te_rng_tracker: true", set_to(run, (key, True)), safe=True),
        )


RULES: tuple[Rule, ...] = (
    PadCuRequiresMaxLength(),
    OfflineFixedWidth(),
    AttnCaptureNeedsPadCu(),
    FullIterationNanCheck(),
    TeRngTracker(),
)
