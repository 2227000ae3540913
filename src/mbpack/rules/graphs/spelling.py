"""How CUDA graphs are spelled: implementation, scope and modules, release by release."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.graphs import IMPL, LEGACY_NAMES, MODULES, SCOPE, graph_impl, scope_names
from mbpack.config.run import Run
from mbpack.config.settings import Unknown
from mbpack.facts.releases import NIGHTLY, R03, R05, R06
from mbpack.rules.base import REJECTED, Finding, Fix, RejectingRule, Rule, set_to, words


class LocalScoped(RejectingRule):
    """The local graph implementation captures the full iteration only.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_pretrain_config gpus=8 launcher=script
    model: {cuda_graph_impl: local, cuda_graph_scope: [mlp], use_te_rng_tracker: true}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_pretrain_config gpus=8 launcher=script
    model: {cuda_graph_impl: transformer_engine, cuda_graph_scope: [mlp], use_te_rng_tracker: true}
    ```

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
            fix=Fix("cuda_graph_impl: none", set_to(run, (IMPL, "none")))
            if _rows_vary(run)
            else Fix("cuda_graph_impl: transformer_engine for scoped capture", set_to(run, (IMPL, "transformer_engine"))),
        )


def _rows_vary(run: Run) -> bool:
    """Whether rows are packed in the batch, which no graph can follow."""
    try:
        return bool(run.in_batch)
    except Unknown:
        return False


class FullIterationSpelling(RejectingRule):
    """How full-iteration graphs are spelled depends on the release.

    0.3 and 0.4 know only `local` with scope `full_iteration`. From 0.5 on `cuda_graph_impl: full_iteration` is valid and
    then no modules may be named. An unknown implementation is refused everywhere.

    ## Bad
    ```yaml
    # mbpack: bridge=0.4 recipe=llama3_8b_pretrain_config gpus=8 launcher=script
    model: {cuda_graph_impl: full_iteration, use_te_rng_tracker: true}
    rerun_state_machine: {check_for_nan_in_loss: false}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.4 recipe=llama3_8b_pretrain_config gpus=8 launcher=script
    model: {cuda_graph_impl: local, cuda_graph_scope: [full_iteration], use_te_rng_tracker: true}
    rerun_state_machine: {check_for_nan_in_loss: false}
    ```

    ## Upstream
    - all releases: Megatron-Core `transformer_config.py`, `TransformerConfig.__post_init__`
    """

    code, slug = "GRA106", "graph/full-iteration-spelling"

    def check(self, run: Run) -> Iterator[Finding]:
        impl = graph_impl(run)
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
                    station=f"{self.slug}@old",
                )
            return
        legacy = [n for n in scope_names(graphs.scope if graphs.scope is not None else graphs.raw_modules) if n in LEGACY_NAMES]
        if legacy and not (graphs.impl == "none" and run.release >= R06):
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
                station=f"{self.slug}@modules",
            )


class FullScopeAlone(RejectingRule):
    """The scope full stands alone.

    It is the former name of capturing whole layers, which no scope at all means today.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_pretrain_config gpus=8 launcher=script
    model: {cuda_graph_impl: transformer_engine, cuda_graph_scope: [full, attn], use_te_rng_tracker: true}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_pretrain_config gpus=8 launcher=script
    model: {cuda_graph_impl: transformer_engine, cuda_graph_scope: [attn], use_te_rng_tracker: true}
    ```

    ## Upstream
    - 0.3, 0.4: Megatron-Core `transformer_config.py`, `TransformerConfig.__post_init__`
    - 0.5, 0.6: Megatron-Core `cuda_graph_config.py`, `normalize_cuda_graph_modules`
    """

    code, slug = "GRA130", "graph/full-scope"
    releases = (R03, R06)

    def check(self, run: Run) -> Iterator[Finding]:
        if run.release >= R06 and run.value(IMPL, "none") == "none":
            return  # the scopes are cleared first
        for key in (SCOPE, MODULES)[: 2 if run.release >= R05 else 1]:
            value = run.value(key)
            names = value.split(",") if isinstance(value, str) else value
            if isinstance(names, list) and "full" in names and len(names) > 1:
                others = [name for name in dict.fromkeys(map(str, names)) if name != "full"]
                yield self.finding(
                    run,
                    REJECTED,
                    key,
                    f"the scope full stands beside others in {key}",
                    why="It means whole layers, which leaves nothing to name beside it.",
                    fix=Fix(f"[{', '.join(others)}], or full alone", set_to(run, (key, others))),
                    station=FullIterationSpelling.slug,
                )


RULES: tuple[Rule, ...] = (
    LocalScoped(),
    FullScopeAlone(),
    FullIterationSpelling(),
)
