"""What Megatron-FSDP cannot be combined with."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.run import Run
from mbpack.facts.releases import R05
from mbpack.rules.base import REJECTED, Edit, Finding, Fix, RejectingRule, Rule, in_yaml, set_to
from mbpack.rules.environment import variable
from mbpack.rules.lookup import second_version, uses_megatron_fsdp

MEGATRON, DDP, TORCH = "dist.use_megatron_fsdp", "ddp.use_megatron_fsdp", "dist.use_torch_fsdp2"
MAPPING = "dist.use_tp_pp_dp_mapping"
REGISTER, BUFFERS = "ddp.fsdp_manual_registration", "ddp.nccl_ub"
EXPERT_STRATEGY = "ddp.expert_data_parallel_sharding_strategy"
STRATEGY, HASHES = "ddp.data_parallel_sharding_strategy", "train.check_weight_hash_across_dp_replicas_interval"
CONNECTIONS = "CUDA_DEVICE_MAX_CONNECTIONS"


class Limits(RejectingRule):
    """Megatron-FSDP excludes PyTorch's FSDP2, the tp-pp-dp mapping of ranks, and from 0.5 on three more settings.

    From 0.5 on `fsdp_manual_registration` needs `nccl_ub`, the weights of the replicas cannot be compared where each rank
    holds a part of them (`optim_grads_params`), and CUDA_DEVICE_MAX_CONNECTIONS must not be 1. That variable is read from
    the environment and, from 0.6 on, from `env_vars`; elsewhere only the machine that trains can tell.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    dist: {use_megatron_fsdp: true}
    checkpoint: {ckpt_format: fsdp_dtensor}
    ddp: {fsdp_manual_registration: true}
    ```
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    dist: {use_megatron_fsdp: true}
    checkpoint: {ckpt_format: fsdp_dtensor}
    env_vars: {CUDA_DEVICE_MAX_CONNECTIONS: 1}
    ```
    ```yaml
    # mbpack: bridge=0.4 recipe=llama3_8b_sft_config gpus=8 launcher=script
    dist: {use_megatron_fsdp: true, use_tp_pp_dp_mapping: true}
    checkpoint: {ckpt_format: fsdp_dtensor}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    dist: {use_megatron_fsdp: true}
    checkpoint: {ckpt_format: fsdp_dtensor}
    ddp: {fsdp_manual_registration: true, nccl_ub: true}
    env_vars: {CUDA_DEVICE_MAX_CONNECTIONS: 8}
    ```

    ## Upstream
    - 0.3, 0.4: `training/config.py`, `ConfigContainer.validate`
    - 0.5 to 0.7: the same, and `_validate_and_apply_megatron_fsdp_configs`
    """

    code, slug = "FSD105", "fsdp/limits"

    def check(self, run: Run) -> Iterator[Finding]:
        if not uses_megatron_fsdp(run):
            return
        if run.flag(TORCH):
            yield from self._torch(run)
        if second_version(run):
            return  # a contract of its own: fsdp/per-token
        if run.flag(MAPPING):
            yield self._refuse(run, MAPPING, "use_tp_pp_dp_mapping does not work with Megatron-FSDP", place="mapping")
        if run.release < R05:
            return
        if run.flag(REGISTER) and not run.flag(BUFFERS):
            yield self._refuse(
                run,
                REGISTER,
                "fsdp_manual_registration needs nccl_ub: true",
                why="It registers NCCL's user buffers, which are off.",
                related=(BUFFERS,),
                place="registration",
            )
        if run.is_set(HASHES) and "optim_grads_params" in (run.value(STRATEGY), run.value(EXPERT_STRATEGY)):
            yield self._refuse(
                run,
                HASHES,
                "replicas sharded with optim_grads_params cannot be compared by check_weight_hash_across_dp_replicas_interval",
                None,
                why="Each rank holds a part of the weights, not a replica.",
                related=(STRATEGY,),
            )
        if str(variable(run, CONNECTIONS)) == "1":
            yield self._one_connection(run)

    def _torch(self, run: Run) -> Iterator[Finding]:
        """FSDP2 beside ``dist``'s own switch is refused; beside that of ``ddp``, only the checkpoint format is."""
        saves = run.is_set("checkpoint.save") or run.is_set("checkpoint.load")
        if run.flag(MEGATRON):
            yield self._refuse(run, TORCH, "use_megatron_fsdp and use_torch_fsdp2 are both on", place="torch")
        elif saves and run.value("checkpoint.ckpt_format") == "fsdp_dtensor":
            message = "ckpt_format fsdp_dtensor does not work with use_torch_fsdp2"
            yield self._refuse(run, TORCH, message, related=("checkpoint.ckpt_format",), place="format")

    def _one_connection(self, run: Run) -> Finding:
        key = f"env_vars.{CONNECTIONS}"
        exported = run.settings.environ is not None and CONNECTIONS in run.settings.environ
        return self.finding(
            run,
            REJECTED,
            key,
            f"Megatron-FSDP needs {CONNECTIONS} unset or above 1, found 1",
            why="With one connection to the GPU its communication cannot overlap the computation.",
            related=(MEGATRON, DDP),
            fix=Fix(f"unset {CONNECTIONS}") if exported else Fix(f"{CONNECTIONS}: 8", (Edit("set", key, 8),)),
            station=f"{self.slug}@connections",
        )

    def _refuse(
        self,
        run: Run,
        key: str,
        message: str,
        value: bool | None = False,
        *,
        why: str = "",
        related: tuple[str, ...] = (),
        place: str = "",
    ) -> Finding:
        shown = in_yaml(value)
        return self.finding(
            run,
            REJECTED,
            key,
            message,
            why=why,
            related=(*related, MEGATRON, DDP),
            fix=Fix(f"{key.partition('.')[2]}: {shown}", set_to(run, (key, value))),
            station=f"{self.slug}@{place}" if place else self.slug,
        )


RULES: tuple[Rule, ...] = (Limits(),)
