"""Activation recompute: what it needs, and what it does not combine with."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.graphs import IMPL
from mbpack.config.run import Run
from mbpack.facts.releases import R05
from mbpack.rules.base import REJECTED, Finding, Fix, RejectingRule, Rule, set_to


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
            yield self._refuse(
                run,
                key,
                "activation recompute excludes CPU offloading",
                Fix("one of the two: recompute_granularity null keeps the offloading", set_to(run, (key, None))),
            )
        if granularity not in ("full", "selective"):
            yield self._refuse(
                run,
                key,
                f"recompute_granularity must be full or selective, found {granularity}",
                Fix("full", (*set_to(run, (key, "full")), *full)),
            )
            return
        if method is not None and method not in ("block", "uniform"):
            yield self._refuse(
                run,
                "model.recompute_method",
                f"recompute_method must be block or uniform, found {method}",
                Fix("uniform", full[:1]),
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
            yield self._refuse(
                run,
                "model.distribute_saved_activations",
                "excludes sequence parallelism",
                Fix("false", set_to(run, ("model.distribute_saved_activations", False)), True),
            )

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


RULES: tuple[Rule, ...] = (FullRecomputeMethod(), FullRecomputeWithGraphs())
