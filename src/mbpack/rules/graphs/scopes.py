"""CUDA graph scopes against the model: offloading, dense layers, experts."""

from __future__ import annotations

from collections.abc import Iterator, Set

from mbpack.config.graphs import IMPL, known_names
from mbpack.config.run import Run
from mbpack.facts.releases import R05, R06
from mbpack.rules.base import REJECTED, Edit, Finding, Fix, RejectingRule, Rule, set_to, words
from mbpack.rules.memory.recompute import selective_modules


class CpuOffload(RejectingRule):
    """CUDA graphs exclude CPU offloading.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_pretrain_config gpus=8 launcher=script
    model:
      cpu_offloading: true
      cpu_offloading_num_layers: 16
      cuda_graph_impl: transformer_engine
      cuda_graph_scope: [mlp]
      use_te_rng_tracker: true
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_pretrain_config gpus=8 launcher=script
    model: {cpu_offloading: true, cpu_offloading_num_layers: 16, cuda_graph_impl: none}
    ```

    ## Upstream
    - all releases: Megatron-Core `transformer_config.py`, `TransformerConfig.__post_init__`
    """

    code, slug = "GRA113", "graph/cpu-offload"

    def check(self, run: Run) -> Iterator[Finding]:
        key = "model.cpu_offloading"
        if not run.flag(key):
            return
        layers, total = run.number("model.cpu_offloading_num_layers"), run.number("model.num_layers")
        if layers is not None and total is not None and (layers < 0 or layers >= total):
            yield self._refuse(run, f"cpu_offloading_num_layers {layers} must be between 0 and {total - 1}", "model.num_layers")
        if run.pp > 1:
            yield self._refuse(run, "CPU offloading excludes pipeline parallelism", "model.pipeline_model_parallel_size")
        graphs = run.graphs
        if graphs.enabled and not (run.release >= R05 and graphs.core_impl == "full_iteration"):
            yield self.finding(
                run,
                REJECTED,
                key,
                "CUDA graphs exclude CPU offloading",
                related=(IMPL,),
                fix=Fix("cpu_offloading: false, or cuda_graph_impl: none", set_to(run, (IMPL, "none"))),
            )

    def _refuse(self, run: Run, message: str, related: str) -> Finding:
        return self.finding(
            run,
            REJECTED,
            "model.cpu_offloading",
            message,
            related=(related,),
            fix=Fix("cpu_offloading: false", set_to(run, ("model.cpu_offloading", False))),
            station="graph/cpu-offload@layers",
        )


class MlpScopeNeedsDense(RejectingRule):
    """The mlp scope needs dense layers.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_30b_a3b_sft_config gpus=16 launcher=script
    model: {cuda_graph_impl: transformer_engine, cuda_graph_scope: [mlp], use_te_rng_tracker: true}
    dataset: {dataset_kwargs: {pad_to_max_length: true}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {cuda_graph_impl: transformer_engine, cuda_graph_scope: [mlp], use_te_rng_tracker: true}
    dataset: {dataset_kwargs: {pad_to_max_length: true}}
    ```

    ## Upstream
    - all releases: Megatron-Core `transformer_config.py`, `TransformerConfig.__post_init__`
    """

    code, slug = "GRA114", "graph/mlp-scope-needs-dense"

    def check(self, run: Run) -> Iterator[Finding]:
        graphs = run.graphs
        if "mlp" not in graphs.modules or not _scopes_checked(run) or not run.moe:
            return
        experts = run.number("model.num_moe_experts")
        if experts is None or experts <= 1:
            return
        freq = run.value("model.moe_layer_freq")
        if freq == 1 or (isinstance(freq, list) and 0 not in freq):
            yield self.finding(
                run,
                REJECTED,
                graphs.key,
                "the mlp capture scope needs dense layers, every layer of this model has experts",
                related=("model.num_moe_experts",),
                fix=Fix("cuda_graph_impl: none, or full-iteration graphs", set_to(run, (IMPL, "none"))),
            )


def _scopes_checked(run: Run) -> bool:
    """Whether Megatron-Core looks at the scopes: for every graph up to 0.4, for per-layer ones from 0.5 on."""
    impl = run.graphs.core_impl
    return impl not in (None, "none") if run.release < R05 else impl in ("local", "transformer_engine")


_OF_EXPERTS = frozenset({"moe", "moe_router", "moe_preprocess"})


class MoeScopeCombinations(RejectingRule):
    """Capture scopes of expert layers have to fit each other and the model.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_30b_a3b_sft_config gpus=16 launcher=script
    model: {cuda_graph_impl: transformer_engine, cuda_graph_scope: [moe_preprocess], use_te_rng_tracker: true}
    dataset: {dataset_kwargs: {pad_to_max_length: true}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_30b_a3b_pretrain_config gpus=16 launcher=script
    model:
      cuda_graph_impl: transformer_engine
      cuda_graph_scope: [moe_router, moe_preprocess]
      use_te_rng_tracker: true
    ```

    ## Upstream
    - all releases: Megatron-Core `transformer_config.py`, `TransformerConfig.__post_init__`
    """

    code, slug = "GRA115", "graph/moe-scope-combinations"

    def check(self, run: Run) -> Iterator[Finding]:
        graphs = run.graphs
        if graphs.impl == "none" and run.release >= R06:
            return
        known = known_names(run.release)
        for name in graphs.modules:
            if name not in known:
                yield self._refuse(run, f"capture scope {name or '(an empty text)'} does not exist", {name}, "graph/scope-names")
        if not _scopes_checked(run):
            return
        names = set(graphs.modules)
        if graphs.core_impl == "local" and names & {"moe_router", "moe_preprocess"}:
            names |= {"moe_router", "moe_preprocess"}
        if {"moe", "moe_router"} <= names:
            yield self._refuse(run, "scopes moe and moe_router exclude each other", {"moe"})
        if "moe_preprocess" in names and "moe_router" not in names:
            yield self._refuse(run, "scope moe_preprocess needs moe_router", {"moe_preprocess"})
        experts = run.number("model.num_moe_experts")
        if experts is None or experts <= 1:
            if names & {"moe", "moe_router"}:
                yield self._refuse(
                    run, f"scope {words(sorted(names & {'moe', 'moe_router'}))} on a model without experts", _OF_EXPERTS
                )
        else:
            yield from self._padding(run, names)
        yield from self._recompute(run, names)

    def _padding(self, run: Run, names: set[str]) -> Iterator[Finding]:
        factor = run.number("model.moe_expert_capacity_factor")
        if factor is not None and run.flag("model.moe_pad_expert_input_to_capacity"):
            return
        station = "graph/moe-scope-combinations@padding"
        if "moe" in names:
            yield self._refuse(run, "scope moe needs a capacity factor and moe_pad_expert_input_to_capacity", {"moe"}, station)
        if (
            "moe_preprocess" in names
            and run.value("model.moe_token_dispatcher_type") == "alltoall"
            and (factor is not None or run.flag("model.moe_router_padding_for_fp8"))
        ):
            alone = {"moe_preprocess", "moe_router"} if run.graphs.core_impl == "local" else {"moe_preprocess"}
            yield self._refuse(run, "scope moe_preprocess does not work where preprocessing copies to the host", alone, station)

    def _recompute(self, run: Run, names: set[str]) -> Iterator[Finding]:
        if run.graphs.core_impl != "transformer_engine" or "moe_router" not in names:
            return
        if "moe" in selective_modules(run):
            station = "graph/moe-scope-combinations@recompute"
            yield self._refuse(run, "scope moe_router excludes recompute of moe", {"moe_router", "moe_preprocess"}, station)

    def _refuse(self, run: Run, message: str, wrong: Set[str], station: str = "") -> Finding:
        return self.finding(
            run,
            REJECTED,
            run.graphs.key,
            message,
            related=(IMPL,),
            fix=Fix(
                "[attn], [mlp] on dense layers, or [moe_router, moe_preprocess]; packed rows: none or full iteration",
                self._without(run, wrong),
            ),
            station=station,
        )

    @staticmethod
    def _without(run: Run, wrong: Set[str]) -> tuple[Edit, ...]:
        """The other scopes; no graphs where none is left."""
        kept = [name for name in run.graphs.modules if name not in wrong]
        return set_to(run, (run.graphs.key, kept)) if kept else set_to(run, (IMPL, "none"))


RULES: tuple[Rule, ...] = (CpuOffload(), MlpScopeNeedsDense(), MoeScopeCombinations())
