"""Weights that ranks share and gather when they need them (0.7 and later; upstream's name is GTP)."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.precision import applied
from mbpack.config.run import Run
from mbpack.facts.keys import TP
from mbpack.facts.releases import NIGHTLY, R07
from mbpack.rules.base import REJECTED, Finding, Fix, RejectingRule, Rule, set_to
from mbpack.rules.lookup import uses_megatron_fsdp
from mbpack.rules.parallel.weight_shards import EXPERT_SHARDS, SHARDS

DECENTRAL, AVERAGE = "dist.use_decentralized_pg", "ddp.average_in_collective"
RESHARD = "checkpoint.dist_ckpt_optim_fully_reshardable"
FRUGAL = "checkpoint.distrib_optim_fully_reshardable_mem_efficient"
GATHER, REUSE, FSDP = "ddp.fp8_param_gather", "ddp.reuse_grad_buf_for_mxfp8_param_ag", "ddp.use_megatron_fsdp"


def active(run: Run) -> str | None:
    """The key by which weights are split beyond tensor parallelism, None where they are not."""
    shards = run.number(SHARDS)
    if shards is not None and run.tp > 0 and shards // run.tp > 1:
        return SHARDS
    shards = run.number(EXPERT_SHARDS)
    if shards is not None:
        # upstream leaves a null size of expert tensor parallelism at 1 here
        etp = run.number("model.expert_tensor_parallel_size") or 1
        if shards // etp > 1:
            return EXPERT_SHARDS
    return None


class SharedWeights(RejectingRule):
    """Weights split into more shards than there are tensor parallel ranks need some settings off.

    Such weights are gathered from the ranks that share them. That excludes decentralized process groups, averaging gradients in
    the collective and memory-efficient reshardable checkpoints. With MXFP8 it excludes Megatron-FSDP and needs
    `fp8_param_gather` and `reuse_grad_buf_for_mxfp8_param_ag`, because no BF16 weight is kept.

    ## Bad
    ```yaml
    # mbpack: bridge=0.7 recipe=llama3_8b_sft_2gpu_h100_bf16_config gpus=8 launcher=script
    model: {tensor_model_parallel_size: 2, tensor_parallel_num_weight_shards: 4}
    ddp: {average_in_collective: true}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.7 recipe=llama3_8b_sft_2gpu_h100_bf16_config gpus=8 launcher=script
    model: {tensor_model_parallel_size: 2, tensor_parallel_num_weight_shards: 4}
    ddp: {average_in_collective: false}
    ```

    ## Upstream
    - 0.7: `training/config.py`, `ConfigContainer.validate`; `training/gtp.py`, `is_gtp_remat_active`
    """

    code, slug = "GTP101", "gtp/limits"
    releases = (R07, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        shards = active(run)
        if shards is None:
            return
        if run.flag(DECENTRAL):
            yield self._refuse(run, shards, DECENTRAL, "decentralized process groups")
        if run.flag(AVERAGE):
            yield self._refuse(run, shards, AVERAGE, "average_in_collective")
        if run.flag(RESHARD) and run.flag(FRUGAL):
            yield self._refuse(run, shards, FRUGAL, "memory-efficient reshardable checkpoints")
        if applied(run, "model", "fp8") and applied(run, "model", "fp8_recipe") == "mxfp8":
            yield from self._mxfp8(run, shards)

    def _mxfp8(self, run: Run, shards: str) -> Iterator[Finding]:
        if uses_megatron_fsdp(run):
            yield self._refuse(run, shards, FSDP, "Megatron-FSDP where the weights are MXFP8")
        for key in (GATHER, REUSE):
            name = key.partition(".")[2]
            if not applied(run, "ddp", name):
                owner = key if run.value("mixed_precision") is None else f"mixed_precision.{name}"
                yield self.finding(
                    run,
                    REJECTED,
                    owner,
                    f"MXFP8 weights in more shards than tensor parallel ranks need {name}: true",
                    why="No BF16 weight is kept that could be quantized again.",
                    related=(shards, TP),
                    fix=Fix(f"{name}: true", set_to(run, (owner, True))),
                )

    def _refuse(self, run: Run, shards: str, key: str, what: str) -> Finding:
        return self.finding(
            run,
            REJECTED,
            key,
            f"weights in more shards than tensor parallel ranks exclude {what}",
            related=(shards, TP),
            fix=Fix(f"{key.partition('.')[2]}: false", set_to(run, (key, False))),
        )


RULES: tuple[Rule, ...] = (SharedWeights(),)
