"""Switches and scopes of CUDA graphs that exclude each other or do not fit the model."""

from __future__ import annotations

from mbpack.config.run import Run
from mbpack.facts.releases import NIGHTLY, R05
from mbpack.rules.base import Fix, Rule, set_to
from mbpack.rules.worded import Said, Worded

INIT = "TransformerConfig.__post_init__"
SWITCHES = ("model.enable_cuda_graph", "model.external_cuda_graph")


def _switches(says: str, count: int) -> Said:
    def mend(run: Run) -> Fix:
        off = [key for key in SWITCHES if run.maybe(key)][:count]
        title = f"{' and '.join(key.rpartition('.')[2] for key in off)}: false"
        return Fix(title, set_to(run, *((key, False) for key in off)), safe=count > 1)

    return Said(says, f"{' '.join(SWITCHES)} cuda_graph_impl", "Each of them names an implementation of the graphs.", mend)


RULES: tuple[Rule, ...] = (
    Worded(
        "GRA107",
        "graph/scope-and-modules",
        INIT,
        "cuda_graph_scope and cuda_graph_modules cannot both be set.",
        {
            "cuda_graph_modules=full if cuda_graph_scope": Said(
                "cuda_graph_scope {cuda_graph_scope} and cuda_graph_modules {cuda_graph_modules} are both set",
                "cuda_graph_modules cuda_graph_scope",
                "Most recipes set the scope.",
                {"cuda_graph_scope": None},
                safe=True,
            )
        },
        {"cuda_graph_impl": "transformer_engine", "cuda_graph_modules": ["mlp"], "use_te_rng_tracker": True},
        text="Most recipes of 0.5 and later set a scope of their own, so modules alone in an override are refused on them.",
        releases=(R05, NIGHTLY),
    ),
    Worded(
        "GRA117",
        "graph/old-switches",
        INIT,
        "The former switches of CUDA graphs exclude each other and cuda_graph_impl.",
        {
            "cuda_graph_impl=none if enable_cuda_graph+external_cuda_graph": _switches(
                "the former switches of CUDA graphs cannot be set beside cuda_graph_impl {cuda_graph_impl}", 2
            ),
            "enable_cuda_graph+external_cuda_graph": _switches("enable_cuda_graph and external_cuda_graph exclude each other", 1),
        },
        {"enable_cuda_graph": True, "external_cuda_graph": True, "use_te_rng_tracker": True},
        on="recipe=llama3_8b_pretrain_config gpus=8",
        good={"enable_cuda_graph": False},
        text="`enable_cuda_graph` and `external_cuda_graph` each name an implementation.",
    ),
)
