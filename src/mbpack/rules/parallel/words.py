"""How many shards each weight is split into, and when pipeline stages exchange."""

from __future__ import annotations

from mbpack.config.run import Run
from mbpack.facts.releases import NIGHTLY, R06
from mbpack.rules.base import Fix, Rule, set_to
from mbpack.rules.worded import Said, Worded


def _shards(name: str, of: str) -> Said:
    def mend(run: Run) -> Fix:
        size = run.maybe(f"model.{of}")
        return Fix(f"{name}: {size}", set_to(run, (f"model.{name}", size)))

    says = f"{name} {{{name}}} is no multiple of {of} {{{of}}}"
    return Said(says, f"{name} {of}", "Every rank holds the same number of shards.", mend)


_SHARDS = _shards("tensor_parallel_num_weight_shards", "tensor_model_parallel_size")
_EXPERT_SHARDS = _shards("expert_tensor_parallel_num_weight_shards", "expert_tensor_parallel_size")

RULES: tuple[Rule, ...] = (
    Worded(
        "TOP110",
        "topo/weight-shards",
        "resolve_tensor_parallel_weight_shards",
        "The number of weight shards is a multiple of the tensor parallel size.",
        {
            "gtp_weight_remat_size+tensor_model_parallel_size+tensor_parallel_num_weight_shards": _SHARDS,
            "expert_gtp_weight_remat_size+expert_tensor_parallel_num_weight_shards+expert_tensor_parallel_size": _EXPERT_SHARDS,
        },
        {"tensor_model_parallel_size": 2, "tensor_parallel_num_weight_shards": 3},
        good={"tensor_parallel_num_weight_shards": 2},
        text="`tensor_parallel_num_weight_shards` counts for tensor parallel layers, `expert_tensor_parallel_num_weight_shards` for\n"
        "experts with `expert_tensor_parallel_size`; null means as many shards as ranks.",
        releases=(R06, NIGHTLY),
    ),
)
