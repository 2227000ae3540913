"""Switches that belong to the overlap of expert communication: delayed weight gradients, early release, backward dispatch."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.graphs import MODULES, SCOPE, scope_names
from mbpack.config.run import Run
from mbpack.facts.releases import NIGHTLY, R03, R05
from mbpack.rules.base import REJECTED, Finding, Fix, RejectingRule, Rule, set_to
from mbpack.rules.lookup import DELAYED, OVERLAP, overlap_key, overlap_off
from mbpack.rules.stated import stated, touched

SECTION = "comm_overlap"
BY_SECTION = tuple(f"{SECTION}.{name}" for name in (OVERLAP, DELAYED))
BY_MODEL = tuple(f"model.{name}" for name in (OVERLAP, DELAYED))
LEGACY_GEMM = "model.moe_use_legacy_grouped_gemm"
ACCUMULATION = "model.gradient_accumulation_fusion"
BIASES = ("model.add_bias_linear", "model.add_qkv_bias")
SHARED, SHARED_OVERLAP = "model.moe_shared_expert_intermediate_size", "model.moe_shared_expert_overlap"
EARLY_RELEASE, BACKWARD = "model.ep_overlap_early_attn_memory_release", "model.overlap_dispatch_backward_with_experts_wgrad"


def delayed_key(run: Run) -> str | None:
    """The key that delays weight gradients, None where they are not delayed; a ``comm_overlap`` section decides alone."""
    key = f"{SECTION if run.value(SECTION) is not None else 'model'}.{DELAYED}"
    return key if run.flag(key) else None


class DelayedWgrad(RejectingRule):
    """Delayed weight gradients belong to the overlap of expert communication.

    0.3 refuses them with the legacy grouped product as well.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_30b_a3b_sft_config gpus=16 launcher=script
    model: {delay_wgrad_compute: true}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_30b_a3b_sft_config gpus=16 launcher=script
    model: {delay_wgrad_compute: false}
    ```

    ## Upstream
    - 0.3 to 0.6: Megatron-Core `transformer_config.py`, `TransformerConfig.__post_init__`
    - 0.3: `training/comm_overlap.py`, `CommOverlapConfig._get_model_comm_overlap_cfgs` (legacy grouped product)
    """

    code, slug = "MOE118", "moe/delayed-wgrad"

    def check(self, run: Run) -> Iterator[Finding]:
        if not touched(run, SECTION, *BY_SECTION, *BY_MODEL, LEGACY_GEMM):
            return
        key = delayed_key(run)
        if key is None:
            return
        by_section = key.startswith(SECTION)
        off = Fix("delay_wgrad_compute: false", set_to(run, (key, False)), safe=True)
        if overlap_key(run) is None and not (by_section and run.is_true(key) and not run.flag(BY_MODEL[0])):
            # what the exception covers stops earlier, at the section: topo/ep-overlap-conditions
            yield self.finding(
                run,
                REJECTED,
                key,
                f"delay_wgrad_compute needs {OVERLAP}: true",
                why="Weight gradients are put off so that they fill the time of the exchange between experts.",
                related=(BY_SECTION[0] if by_section else BY_MODEL[0],),
                fix=off,
            )
        if run.release <= R03 and run.flag(LEGACY_GEMM):
            yield self.finding(
                run,
                REJECTED,
                key,
                "delay_wgrad_compute excludes moe_use_legacy_grouped_gemm",
                why="The legacy product computes both gradients at once.",
                related=(LEGACY_GEMM,),
                fix=off,
                station="comm-overlap" if by_section and run.is_true(key) else "",
            )


class DelayedWgradGraphs(RejectingRule):
    """Delayed weight gradients inside a CUDA graph need fused accumulation, and attention without biases.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_30b_a3b_pretrain_config gpus=16 launcher=script
    comm_overlap:
      _target_: megatron.bridge.training.comm_overlap.CommOverlapConfig
      tp_comm_overlap: false
      overlap_moe_expert_parallel_comm: true
      delay_wgrad_compute: true
    model:
      recompute_granularity: null
      recompute_method: null
      recompute_num_layers: null
      cuda_graph_impl: transformer_engine
      cuda_graph_scope: [attn]
      use_te_rng_tracker: true
      gradient_accumulation_fusion: false
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_30b_a3b_pretrain_config gpus=16 launcher=script
    comm_overlap:
      _target_: megatron.bridge.training.comm_overlap.CommOverlapConfig
      tp_comm_overlap: false
      overlap_moe_expert_parallel_comm: true
      delay_wgrad_compute: true
    model:
      recompute_granularity: null
      recompute_method: null
      recompute_num_layers: null
      cuda_graph_impl: transformer_engine
      cuda_graph_scope: [attn]
      use_te_rng_tracker: true
      gradient_accumulation_fusion: true
    ```

    ## Upstream
    - 0.5, 0.6: `training/comm_overlap.py`, `CommOverlapConfig._get_model_comm_overlap_cfgs`
    """

    code, slug = "MOE119", "moe/delayed-wgrad-graphs"
    releases = (R05, NIGHTLY)

    #: What the conditions read beside the section.
    INPUTS = (SCOPE, MODULES, ACCUMULATION, *BIASES, SHARED, SHARED_OVERLAP)

    def check(self, run: Run) -> Iterator[Finding]:
        if not touched(run, SECTION, *BY_SECTION, *self.INPUTS) or run.value(SECTION) is None or not run.is_true(BY_SECTION[1]):
            return
        graphs = run.graphs
        scopes = {*scope_names(graphs.scope), *scope_names(graphs.raw_modules)}
        if not stated(run, ACCUMULATION, False) and ("attn" in scopes or ("moe_router" in scopes and self._shared_in_graph(run))):
            yield self._refuse(
                run,
                "delay_wgrad_compute with a CUDA graph needs gradient_accumulation_fusion: true",
                "Otherwise gradients have no fixed addresses, which a replayed graph needs.",
                (graphs.key, ACCUMULATION),
            )
        biases = [name for name in BIASES if "attn" in scopes and stated(run, name, False)]
        if biases:
            yield self._refuse(
                run,
                f"delay_wgrad_compute with a CUDA graph over attention excludes {biases[0].rpartition('.')[2]}",
                "The put-off gradient of a bias is not part of the graph.",
                (graphs.key, *biases),
            )

    @staticmethod
    def _shared_in_graph(run: Run) -> bool:
        return not stated(run, SHARED_OVERLAP, False) and stated(run, SHARED) is not None

    def _refuse(self, run: Run, message: str, why: str, related: tuple[str, ...]) -> Finding:
        key = BY_SECTION[1]
        fix = Fix("delay_wgrad_compute: false", set_to(run, (key, False)), safe=True)
        return self.finding(run, REJECTED, key, message, why=why, related=related, fix=fix, station="comm-overlap")


class OverlapCompanions(RejectingRule):
    """Early release of attention memory needs the overlap of expert communication; overlapped backward dispatch excludes it.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_30b_a3b_sft_config gpus=16 launcher=script
    model: {ep_overlap_early_attn_memory_release: true}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_30b_a3b_sft_config gpus=16 launcher=script
    model: {ep_overlap_early_attn_memory_release: false}
    ```

    ## Upstream
    - 0.3 to 0.6: Megatron-Core `transformer_config.py`, `TransformerConfig.__post_init__` (backward dispatch from 0.5 on)
    """

    code, slug = "MOE120", "moe/overlap-companions"

    def check(self, run: Run) -> Iterator[Finding]:
        if not touched(run, EARLY_RELEASE, BACKWARD, SECTION, *BY_SECTION, *BY_MODEL):
            return
        early = stated(run, EARLY_RELEASE, False)
        backward = run.release >= R05 and stated(run, BACKWARD, False)
        if not early and not backward:
            return
        overlap = overlap_key(run)
        if backward and overlap is not None:
            yield self.finding(
                run,
                REJECTED,
                BACKWARD if run.wrote(BACKWARD) else overlap,
                f"overlap_dispatch_backward_with_experts_wgrad excludes {OVERLAP}",
                why="Both hide the same exchange between experts, in different ways.",
                related=(BACKWARD, overlap),
                fix=Fix(f"{OVERLAP}: false", overlap_off(run, overlap), safe=True),
            )
        if early and overlap is None:
            yield self.finding(
                run,
                REJECTED,
                EARLY_RELEASE,
                f"ep_overlap_early_attn_memory_release needs {OVERLAP}: true",
                why="The memory is released by the overlapped schedule.",
                related=BY_MODEL[:1],
                fix=Fix("ep_overlap_early_attn_memory_release: false", set_to(run, (EARLY_RELEASE, False)), safe=True),
            )


RULES: tuple[Rule, ...] = (DelayedWgrad(), DelayedWgradGraphs(), OverlapCompanions())
