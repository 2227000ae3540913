"""The versions of Megatron-FSDP (0.7 and later), and what each of them cannot be combined with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mbpack.config.precision import SECTION, applied
from mbpack.config.run import Run
from mbpack.config.settings import Object
from mbpack.facts.dtypes import is_bfloat16
from mbpack.facts.releases import NIGHTLY, R07
from mbpack.rules.base import REJECTED, Finding, Fix, RejectingRule, Rule, in_yaml, set_to
from mbpack.rules.lookup import second_version, uses_megatron_fsdp

VERSION, STRATEGY = "ddp.megatron_fsdp_version", "ddp.data_parallel_sharding_strategy"
EXPERT_STRATEGY, META = "ddp.expert_data_parallel_sharding_strategy", "model.init_model_with_meta_device"
PARAMS = "model.params_dtype"
SIZES = ("model.tensor_model_parallel_size", "model.pipeline_model_parallel_size")
VPP, EP = "model.virtual_pipeline_model_parallel_size", "model.expert_model_parallel_size"
#: Settings that the second version needs as they are by default: (key, default, what it is called).
OFF: tuple[tuple[str, Any, str], ...] = (
    ("dist.use_tp_pp_dp_mapping", False, "use_tp_pp_dp_mapping"),
    ("rng.data_parallel_random_init", False, "data_parallel_random_init"),
    ("checkpoint.save", None, "saving checkpoints"),
    ("checkpoint.load", None, "loading checkpoints"),
    ("checkpoint.pretrained_checkpoint", None, "pretrained_checkpoint"),
    ("optimizer.loss_scale", None, "loss scaling"),
    ("optimizer.optimizer_cpu_offload", False, "an optimizer on the CPU"),
    ("optimizer.use_layer_wise_distributed_optimizer", False, "the layer-wise distributed optimizer"),
    ("model.calculate_per_token_loss", False, "per-token loss"),
)
#: Number formats that it lacks: (section, field).
FORMATS = (("model", "fp8"), ("model", "fp4"), ("ddp", "fp8_param_gather"), ("ddp", "fp4_param_gather"))


class FsdpVersion(RejectingRule):
    """There are two versions of Megatron-FSDP; the number is checked also where it is off.

    ## Bad
    ```yaml
    # mbpack: bridge=0.7 recipe=llama3_8b_sft_2gpu_h100_bf16_config gpus=8 launcher=script
    ddp: {megatron_fsdp_version: 3}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.7 recipe=llama3_8b_sft_2gpu_h100_bf16_config gpus=8 launcher=script
    ddp: {megatron_fsdp_version: 1}
    ```

    ## Upstream
    - 0.7: Megatron-Core `distributed_data_parallel_config.py`, `DistributedDataParallelConfig.__post_init__`
    """

    code, slug = "FSD106", "new/fsdp-version"
    topic = "fsdp"
    releases = (R07, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        version = run.value(VERSION, 1)
        if version not in (1, 2):
            yield self.finding(
                run,
                REJECTED,
                VERSION,
                f"megatron_fsdp_version is 1 or 2, found {in_yaml(version)}",
                fix=Fix("megatron_fsdp_version: 1", set_to(run, (VERSION, 1))),
            )


class SecondVersion(RejectingRule):
    """Megatron-FSDP v2 is experimental: BF16 data parallel training without checkpoints.

    It needs bf16 in model and optimizer and BF16 parameters, and excludes tensor and pipeline parallelism, the tp-pp-dp mapping,
    different initial weights per data parallel rank, checkpoints of any kind, loss scaling, an optimizer on the CPU or by layers,
    per-token loss, FP8 and FP4. Context parallelism is allowed, but fine-tuning with it needs per-token loss.

    ## Bad
    ```yaml
    # mbpack: bridge=0.7 recipe=llama3_8b_sft_2gpu_h100_bf16_config gpus=8 launcher=script
    ddp: {use_megatron_fsdp: true, megatron_fsdp_version: 2}
    model: {calculate_per_token_loss: true}
    ```
    ```yaml
    # mbpack: bridge=0.7 recipe=llama3_8b_sft_2gpu_h100_bf16_config gpus=8 launcher=script
    ddp: {use_megatron_fsdp: true, megatron_fsdp_version: 2}
    checkpoint: {pretrained_checkpoint: checkpoints/base}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.7 recipe=llama3_8b_sft_2gpu_h100_bf16_config gpus=8 launcher=script
    ddp: {use_megatron_fsdp: true, megatron_fsdp_version: 1}
    model: {calculate_per_token_loss: true}
    checkpoint: {pretrained_checkpoint: checkpoints/base}
    ```

    ## Upstream
    - 0.7: `training/config.py`, `_validate_and_apply_megatron_fsdp_v2_configs`
    """

    code, slug = "FSD101", "fsdp/per-token"
    releases = (R07, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        if not uses_megatron_fsdp(run) or not second_version(run):
            return
        yield from self._precision(run)
        for key in SIZES:
            size = run.number(key)
            if size != 1:
                yield self._refuse(run, key, f"does not work with {key.rpartition('.')[2]} {in_yaml(size)}")
        if run.is_set(VPP):
            yield self._refuse(run, VPP, "has no virtual pipeline")
        for key, default, what in OFF:
            scale = key == "optimizer.loss_scale"
            held = applied(run, "optimizer", "loss_scale") if scale else run.value(key, default)
            if (held is not None) if default is None else held:
                yield self._refuse(run, key, f"does not work with {what}")
        for section, field in FORMATS:
            if applied(run, section, field):
                yield self._refuse(run, self._owner(run, section, field), f"does not work with {field}")

    def _precision(self, run: Run) -> Iterator[Finding]:
        """BF16 in model and optimizer, and parameters of that kind."""
        for section in ("model", "optimizer"):
            if not applied(run, section, "bf16") or applied(run, section, "fp16"):
                yield self._refuse(run, self._owner(run, section, "bf16"), f"needs bf16: true in {section}")
        held = run.value(SECTION)
        if isinstance(held, str):
            return  # a name with bf16 brings such parameters
        kind = run.value(PARAMS) if held is None else run.value(f"{SECTION}.params_dtype")
        name = kind.target if isinstance(kind, Object) else kind
        if (held is None or name is not None) and not (isinstance(name, str) and is_bfloat16(name)):
            yield self._refuse(run, self._owner(run, "model", "params_dtype"), f"needs BF16 parameters, found {in_yaml(name)}")

    @staticmethod
    def _owner(run: Run, section: str, field: str) -> str:
        held = run.value(SECTION)
        return f"{section}.{field}" if held is None else SECTION if isinstance(held, str) else f"{SECTION}.{field}"

    def _refuse(self, run: Run, key: str, what: str) -> Finding:
        return self.finding(
            run,
            REJECTED,
            key,
            f"Megatron-FSDP v2 {what}",
            why="It keeps parameters and gradients in storage of its own, which the rest does not know yet.",
            related=(VERSION,),
            fix=Fix("megatron_fsdp_version: 1", set_to(run, (VERSION, 1))),
        )


class MetaDevice(RejectingRule):
    """A model on the meta device gets its weights when it is sharded, so something must be sharded.

    Of `data_parallel_sharding_strategy` and, where it is set, `expert_data_parallel_sharding_strategy` one must be another than
    no_shard.

    ## Bad
    ```yaml
    # mbpack: bridge=0.7 recipe=llama3_8b_sft_2gpu_h100_bf16_config gpus=8 launcher=script
    ddp: {use_megatron_fsdp: true, data_parallel_sharding_strategy: no_shard}
    model: {init_model_with_meta_device: true}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.7 recipe=llama3_8b_sft_2gpu_h100_bf16_config gpus=8 launcher=script
    ddp: {use_megatron_fsdp: true, data_parallel_sharding_strategy: optim_grads_params}
    model: {init_model_with_meta_device: true}
    ```

    ## Upstream
    - 0.7: `training/config.py`, `_validate_and_apply_megatron_fsdp_v1_configs`
    """

    code, slug = "FSD107", "new/fsdp-meta-device"
    topic = "fsdp"
    releases = (R07, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.flag(META) or not uses_megatron_fsdp(run) or second_version(run):
            return
        held = {run.value(STRATEGY), run.value(EXPERT_STRATEGY)} - {None}
        if held == {"no_shard"}:
            yield self.finding(
                run,
                REJECTED,
                META,
                "init_model_with_meta_device needs a sharding strategy other than no_shard",
                related=(STRATEGY, EXPERT_STRATEGY),
                fix=Fix("data_parallel_sharding_strategy: optim_grads_params", set_to(run, (STRATEGY, "optim_grads_params"))),
            )


RULES: tuple[Rule, ...] = (FsdpVersion(), SecondVersion(), MetaDevice())
