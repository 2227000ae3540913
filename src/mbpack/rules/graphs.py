"""CUDA graphs: what the start-up refuses about their spelling, scope and companions."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.graphs import IMPL, LEGACY_NAMES, MODULES, SCOPE, scope_names
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


RULES: tuple[Rule, ...] = (
    PadCuRequiresMaxLength(),
    OfflineFixedWidth(),
    AttnCaptureNeedsPadCu(),
    LocalScoped(),
    FullIterationSpelling(),
    ScopeAndModules(),
    FullIterationNanCheck(),
    TeRngTracker(),
)
