"""CUDA graphs: what the start-up refuses about their spelling, scope and companions."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.graphs import IMPL, LEGACY_NAMES, MODULE_NAMES, MODULES, SCOPE, scope_names
from mbpack.config.run import Run
from mbpack.facts.releases import NIGHTLY, R04, R05, R06
from mbpack.rules.base import CRASH_DATA, CRASH_STEP, REJECTED, Finding, Fix, RejectingRule, Rule, set_to, words

KWARGS_WIDTH = "dataset.dataset_kwargs.pad_to_max_length"
PAD_CU = "dataset.offline_packing_specs.pad_cu_seqlens"
NAN_CHECK = "rerun_state_machine.check_for_nan_in_loss"


def _specs_in_force(run: Run) -> bool:
    """Whether the graph checks look at the specs: any specs from 0.6 on, else a packed run."""
    return run.specs is not None and not run.specs_plain if run.release >= R06 else run.offline and not run.specs_plain


class PadCuRequiresMaxLength(RejectingRule):
    """Fixed boundary arrays need fixed-width rows: pad_cu_seqlens goes with pad_to_max_length.

    Only the boolean true counts; the text "true" does not. From 0.6 on the start-up refuses the pair, before that the
    dataset fails when it is built.

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


class LocalScoped(RejectingRule):
    """The local graph implementation captures the full iteration only.

    ## Upstream
    - 0.6, 0.7: `utils/cuda_graph.py`, `validate_cuda_graph_configuration`
    """

    code, slug = "GRA105", "graph/local-scoped"
    releases = (R06, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        graphs = run.graphs
        if graphs.impl != "local" or graphs.full_iteration:
            return
        inference = scope_names(run.value("model.inference_cuda_graph_scope"))
        if not graphs.named and {"layer", "block"} & set(inference):
            return
        yield self.finding(
            run,
            REJECTED,
            IMPL,
            "cuda_graph_impl local captures only the full iteration from 0.6 on",
            related=(graphs.key,),
            fix=Fix(
                "cuda_graph_impl: transformer_engine for scoped capture",
                set_to(run, (IMPL, "transformer_engine")),
            ),
        )


class FullIterationSpelling(RejectingRule):
    """How full-iteration graphs are spelled depends on the release.

    0.3 and 0.4 know only `local` with scope `full_iteration`. From 0.5 on `cuda_graph_impl: full_iteration` is valid and
    then no modules may be named. An unknown implementation is refused everywhere.

    ## Upstream
    - all releases: Megatron-Core `transformer_config.py`, `TransformerConfig.__post_init__`
    """

    code, slug = "GRA106", "graph/full-iteration-spelling"

    def check(self, run: Run) -> Iterator[Finding]:
        impl = run.value(IMPL, "none")
        old = run.release < R05
        allowed = ("none", "transformer_engine", "local") + (() if old else ("full_iteration",))
        if impl not in allowed:
            fix = (
                Fix(
                    "cuda_graph_impl: local with cuda_graph_scope: [full_iteration]",
                    set_to(run, (IMPL, "local"), (SCOPE, ["full_iteration"])),
                    safe=True,
                )
                if impl == "full_iteration"
                else Fix(f"one of {words(allowed, 'or')}")
            )
            yield self.finding(run, REJECTED, IMPL, f"cuda_graph_impl {impl} does not exist in {run.release}", fix=fix)
            return
        graphs = run.graphs
        if old:
            if impl == "transformer_engine" and "full_iteration" in graphs.modules:
                yield self.finding(
                    run,
                    REJECTED,
                    SCOPE,
                    "scope full_iteration needs cuda_graph_impl local",
                    related=(IMPL,),
                    fix=Fix("cuda_graph_impl: local", set_to(run, (IMPL, "local")), safe=True),
                )
            return
        legacy = [n for n in scope_names(graphs.scope if graphs.scope is not None else graphs.raw_modules) if n in LEGACY_NAMES]
        if legacy and not (impl == "none" and run.release >= R06):
            clash = impl == "transformer_engine" or (legacy[0] == "full_iteration_inference" and impl == "full_iteration")
            if clash or len(set(legacy)) > 1:
                yield self.finding(
                    run,
                    REJECTED,
                    graphs.key,
                    f"scope {words(set(legacy))} cannot be combined with cuda_graph_impl {impl}",
                    related=(IMPL,),
                    fix=Fix("cuda_graph_impl: full_iteration without modules", set_to(run, (IMPL, "full_iteration"))),
                )
                return
        if graphs.core_impl == "full_iteration" and graphs.modules:
            yield self.finding(
                run,
                REJECTED,
                graphs.key,
                f"full-iteration graphs take no modules, found {words(graphs.modules)}",
                related=(IMPL,),
                fix=Fix(f"{graphs.key.rpartition('.')[2]}: null", set_to(run, (graphs.key, None)), safe=True),
            )


class ScopeAndModules(RejectingRule):
    """cuda_graph_scope and cuda_graph_modules cannot both be set.

    Most recipes of 0.5 and later set a scope of their own, so modules alone in an override are refused on them.

    ## Upstream
    - 0.5 to 0.7: Megatron-Core `transformer_config.py`, `TransformerConfig.__post_init__`
    """

    code, slug = "GRA107", "graph/scope-and-modules"
    releases = (R05, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        scope, modules = run.value(SCOPE), run.value(MODULES)
        if scope is None or modules is None or modules in ("full", []):
            return
        if run.release >= R06 and run.value(IMPL, "none") == "none":
            return  # both are cleared first
        place = MODULES if run.wrote(MODULES) else SCOPE
        yield self.finding(
            run,
            REJECTED,
            place,
            f"cuda_graph_scope {scope!r} and cuda_graph_modules {modules!r} are both set",
            why="The recipe sets the scope." if not run.wrote(SCOPE) else "",
            related=(SCOPE, MODULES),
            fix=Fix("cuda_graph_scope: null beside the modules", set_to(run, (SCOPE, None)), safe=True),
        )


class FullIterationNanCheck(RejectingRule):
    """Full-iteration graphs need the NaN check off.

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
        builder = run.release >= R04 and run.settings.class_at("model") in self.BUILDERS
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


class CpuOffload(RejectingRule):
    """CUDA graphs exclude CPU offloading.

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
        freq = run.value("model.moe_layer_freq", 1)
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


class MoeScopeCombinations(RejectingRule):
    """Capture scopes of expert layers have to fit each other and the model.

    ## Upstream
    - all releases: Megatron-Core `transformer_config.py`, `TransformerConfig.__post_init__`
    """

    code, slug = "GRA115", "graph/moe-scope-combinations"

    def check(self, run: Run) -> Iterator[Finding]:
        graphs = run.graphs
        if graphs.impl == "none" and run.release >= R06:
            return
        known = MODULE_NAMES if run.release >= R05 else MODULE_NAMES | LEGACY_NAMES
        for name in graphs.modules:
            if name not in known:
                yield self._refuse(run, f"capture scope {name} does not exist", "graph/scope-names")
        if not _scopes_checked(run):
            return
        names = set(graphs.modules)
        if graphs.core_impl == "local" and names & {"moe_router", "moe_preprocess"}:
            names |= {"moe_router", "moe_preprocess"}
        if {"moe", "moe_router"} <= names:
            yield self._refuse(run, "scopes moe and moe_router exclude each other")
        if "moe_preprocess" in names and "moe_router" not in names:
            yield self._refuse(run, "scope moe_preprocess needs moe_router")
        experts = run.number("model.num_moe_experts")
        if experts is None or experts <= 1:
            if names & {"moe", "moe_router"}:
                yield self._refuse(run, f"scope {words(sorted(names & {'moe', 'moe_router'}))} on a model without experts")
        else:
            yield from self._padding(run, names)
        yield from self._recompute(run, names)

    def _padding(self, run: Run, names: set[str]) -> Iterator[Finding]:
        factor = run.number("model.moe_expert_capacity_factor")
        if factor is not None and run.flag("model.moe_pad_expert_input_to_capacity"):
            return
        station = "graph/moe-scope-combinations@padding"
        if "moe" in names:
            yield self._refuse(run, "scope moe needs a capacity factor and moe_pad_expert_input_to_capacity", station)
        if (
            "moe_preprocess" in names
            and run.value("model.moe_token_dispatcher_type") == "alltoall"
            and (factor is not None or run.flag("model.moe_router_padding_for_fp8"))
        ):
            yield self._refuse(run, "scope moe_preprocess does not work where preprocessing copies to the host", station)

    def _recompute(self, run: Run, names: set[str]) -> Iterator[Finding]:
        if run.graphs.core_impl != "transformer_engine" or "moe_router" not in names:
            return
        modules = run.value("model.recompute_modules") or ()
        if run.value("model.recompute_granularity") == "selective" and "moe" in modules:
            yield self._refuse(
                run, "scope moe_router excludes recompute of moe", "graph/moe-scope-combinations@recompute"
            )

    def _refuse(self, run: Run, message: str, station: str = "") -> Finding:
        return self.finding(
            run,
            REJECTED,
            run.graphs.key,
            message,
            related=(IMPL,),
            fix=Fix("[attn], [mlp] on dense layers, or [moe_router, moe_preprocess]; packed rows: none or full iteration"),
            station=station,
        )


class FullRecomputeMethod(RejectingRule):
    """Full activation recompute needs a method and a number of layers.

    ## Upstream
    - all releases: Megatron-Core `transformer_config.py`, `TransformerConfig.__post_init__`
    """

    code, slug = "REC101", "recompute/full-needs-method"

    def check(self, run: Run) -> Iterator[Finding]:
        key = "model.recompute_granularity"
        granularity = run.value(key)
        if granularity is None:
            return
        method, layers = run.value("model.recompute_method"), run.value("model.recompute_num_layers")
        full = set_to(run, ("model.recompute_method", "uniform"), ("model.recompute_num_layers", 1))
        if run.flag("model.cpu_offloading"):
            yield self._refuse(run, key, "activation recompute excludes CPU offloading", Fix("one of the two"))
        if granularity not in ("full", "selective"):
            yield self._refuse(run, key, f"recompute_granularity must be full or selective, found {granularity}", Fix("full"))
            return
        if method is not None and method not in ("block", "uniform"):
            yield self._refuse(
                run, "model.recompute_method", f"recompute_method must be block or uniform, found {method}", Fix("uniform")
            )
        elif method is None and granularity == "full":
            yield self._refuse(
                run,
                key,
                "recompute_granularity full needs recompute_method and recompute_num_layers",
                Fix("recompute_method: uniform, recompute_num_layers: 1", full, safe=True),
            )
        elif granularity == "full" and layers is None:
            yield self._refuse(
                run, key, "recompute_granularity full needs recompute_num_layers", Fix("recompute_num_layers: 1", full[1:], True)
            )
        if granularity == "selective" and layers is not None:
            yield self._refuse(
                run,
                "model.recompute_num_layers",
                "recompute_num_layers belongs to full recompute",
                Fix("recompute_num_layers: null", set_to(run, ("model.recompute_num_layers", None)), True),
            )
        if run.flag("model.distribute_saved_activations") and run.sp:
            yield self._refuse(run, "model.distribute_saved_activations", "excludes sequence parallelism", Fix("false"))

    def _refuse(self, run: Run, key: str, message: str, fix: Fix) -> Finding:
        return self.finding(run, REJECTED, key, message, related=("model.recompute_granularity",), fix=fix)


class FullRecomputeWithGraphs(RejectingRule):
    """Full recompute works with full-iteration graphs only.

    ## Upstream
    - all releases: Megatron-Core `transformer_config.py`, `TransformerConfig.__post_init__`
    """

    code, slug = "REC102", "recompute/full-with-te-graphs"

    def check(self, run: Run) -> Iterator[Finding]:
        granularity = run.value("model.recompute_granularity")
        graphs = run.graphs
        if not granularity or granularity == "selective" or not graphs.enabled:
            return
        fine = graphs.modules == ("full_iteration",) if run.release < R05 else graphs.core_impl == "full_iteration"
        if not fine:
            yield self.finding(
                run,
                REJECTED,
                "model.recompute_granularity",
                f"recompute_granularity {granularity} works with full-iteration graphs only",
                related=(IMPL, graphs.key),
                fix=Fix("cuda_graph_impl: none, or selective recompute", set_to(run, (IMPL, "none"))),
            )


RULES: tuple[Rule, ...] = (
    PadCuRequiresMaxLength(),
    OfflineFixedWidth(),
    AttnCaptureNeedsPadCu(),
    LocalScoped(),
    FullIterationSpelling(),
    ScopeAndModules(),
    FullIterationNanCheck(),
    TeRngTracker(),
    CpuOffload(),
    MlpScopeNeedsDense(),
    MoeScopeCombinations(),
    FullRecomputeMethod(),
    FullRecomputeWithGraphs(),
)
