"""CUDA graphs by their former switches, and the scope of graphs for inference."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.graphs import IMPL, graph_impl, scope_names
from mbpack.config.run import Run
from mbpack.config.settings import Object
from mbpack.facts.inference import SCOPES, graph_scopes
from mbpack.facts.releases import NIGHTLY, R05, R06
from mbpack.rules.base import REJECTED, Finding, Fix, RejectingRule, Rule, in_yaml, set_to, words

INFERENCE = "model.inference_cuda_graph_scope"


class InferenceScope(RejectingRule):
    """Graphs for inference need the local implementation, and there they have a scope.

    Left out, the scope follows from `cuda_graph_impl`.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {inference_cuda_graph_scope: block}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {inference_cuda_graph_scope: none}
    ```

    ## Upstream
    - 0.5, 0.6: Megatron-Core `transformer_config.py`, `TransformerConfig.__post_init__`; `cuda_graph_config.py`,
      `normalize_inference_cuda_graph_scope`, `validate_deprecated_cuda_graph_modules_migration_inputs`
    """

    code, slug = "GRA118", "graph/inference-scope"
    releases = (R05, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        scope = run.value(INFERENCE)
        if scope is None or (isinstance(scope, Object) and scope.target is not None):
            return
        if not isinstance(scope, str) or scope not in SCOPES:
            yield self._refuse(run, f"inference_cuda_graph_scope must be {words(SCOPES, 'or')}, found {in_yaml(scope)}", SCOPES)
            return
        graphs = run.graphs
        impl = graph_impl(run)
        named = scope_names(graphs.scope if graphs.scope is not None else graphs.raw_modules)
        cleared = graphs.impl == "none" and run.release >= R06  # Megatron-Bridge empties the modules first
        legacy = "full_iteration_inference" in named and not cleared
        fine = tuple(name for name in graph_scopes(graphs.core_impl) if name == "block" or not legacy)
        if scope not in fine:
            what = "full_iteration_inference" if legacy else f"cuda_graph_impl {impl}"
            yield self._refuse(run, f"inference_cuda_graph_scope {scope} does not go with {what}", fine)

    def _refuse(self, run: Run, message: str, fine: tuple[str, ...]) -> Finding:
        fix = Fix("inference_cuda_graph_scope: null, which follows the implementation", set_to(run, (INFERENCE, None)), safe=True)
        why = (
            f"Here it can be {words(fine, 'or') or 'null only'}; graphs for inference are made by the local implementation only."
        )
        return self.finding(run, REJECTED, INFERENCE, message, why=why, related=(IMPL,), fix=fix)


RULES: tuple[Rule, ...] = (InferenceScope(),)
