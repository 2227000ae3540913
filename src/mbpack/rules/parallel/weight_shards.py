"""How many shards each weight is split into, beyond tensor parallelism."""

from __future__ import annotations

from mbpack.rules.base import Rule

#: How far each weight is spread beyond tensor parallelism, and the number of shards that this follows from where it is given.
SHARED_WEIGHTS = tuple(
    (f"model.{kind}gtp_weight_remat_size", f"model.{kind}tensor_parallel_num_weight_shards") for kind in ("", "expert_")
)
SHARDS, EXPERT_SHARDS = "model.tensor_parallel_num_weight_shards", "model.expert_tensor_parallel_num_weight_shards"


RULES: tuple[Rule, ...] = ()
