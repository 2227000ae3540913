"""How many shards each weight is split into, beyond tensor parallelism."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.run import Run
from mbpack.facts.keys import ETP, TP
from mbpack.facts.releases import NIGHTLY, R06
from mbpack.rules.base import REJECTED, Finding, Fix, RejectingRule, Rule, set_to

#: How far each weight is spread beyond tensor parallelism, and the number of shards that this follows from where it is given.
SHARED_WEIGHTS = tuple(
    (f"model.{kind}gtp_weight_remat_size", f"model.{kind}tensor_parallel_num_weight_shards") for kind in ("", "expert_")
)
SHARDS, EXPERT_SHARDS = "model.tensor_parallel_num_weight_shards", "model.expert_tensor_parallel_num_weight_shards"


class WeightShards(RejectingRule):
    """The number of weight shards is a multiple of the tensor parallel size.

    `tensor_parallel_num_weight_shards` counts for tensor parallel layers, `expert_tensor_parallel_num_weight_shards` for
    experts with `expert_tensor_parallel_size`; null means as many shards as ranks.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {tensor_model_parallel_size: 2, tensor_parallel_num_weight_shards: 3}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {tensor_model_parallel_size: 2, tensor_parallel_num_weight_shards: 2}
    ```

    ## Upstream
    - 0.6, 0.7: Megatron-Core `model_parallel_config.py`, `resolve_tensor_parallel_weight_shards`
    """

    code, slug = "TOP110", "topo/weight-shards"
    releases = (R06, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        for key in (ETP, *(size for size, shards in SHARED_WEIGHTS if not run.is_set(shards))):
            run.check_factor(key)
        for key, of in ((SHARDS, TP), (EXPERT_SHARDS, ETP)):
            shards = run.number(key)
            if shards is None:
                continue
            size = run.tp if of == TP else run.etp
            if size == 0 or shards < size or shards % size:
                name = key.partition(".")[2]
                yield self.finding(
                    run,
                    REJECTED,
                    key,
                    f"{name} {shards} is no multiple of {of.partition('.')[2]} {size}",
                    why="Every rank holds the same number of shards.",
                    related=(of,),
                    fix=Fix(f"{name}: {size}", set_to(run, (key, size))),
                )


RULES: tuple[Rule, ...] = (WeightShards(),)
