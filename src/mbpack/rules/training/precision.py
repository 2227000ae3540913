"""Precision, sharding and dispatcher settings that the start-up refuses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mbpack.config.run import Run
from mbpack.facts.releases import NIGHTLY, R05, R06
from mbpack.rules.base import REJECTED, Finding, Fix, RejectingRule, Rule, set_to, words
from mbpack.rules.lookup import second_version

FSDP_KEYS = ("dist.use_megatron_fsdp", "ddp.use_megatron_fsdp")


def uses_fsdp(run: Run) -> bool:
    """Whether Megatron FSDP is on; either flag switches on both."""
    return run.flag(FSDP_KEYS[0]) or run.flag(FSDP_KEYS[1])


class FsdpCheckpoint(RejectingRule):
    """Megatron FSDP and the fsdp_dtensor checkpoint format go together.

    Checked only when the run saves or loads checkpoints, as recipes do.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    ddp: {use_megatron_fsdp: true}
    checkpoint: {ckpt_format: torch_dist}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    checkpoint: {ckpt_format: torch_dist}
    ```

    ## Upstream
    - 0.3 to 0.7: `training/config.py`, `ConfigContainer.validate`
    """

    code, slug = "FSD103", "fsdp/ckpt"

    def check(self, run: Run) -> Iterator[Finding]:
        key = "checkpoint.ckpt_format"
        if not (run.is_set("checkpoint.save") or run.is_set("checkpoint.load")):
            return
        form, fsdp = run.value(key), uses_fsdp(run)
        if fsdp and second_version(run):
            return  # it refuses to save and to load: fsdp/per-token
        if fsdp and form != "fsdp_dtensor":
            yield self.finding(
                run,
                REJECTED,
                key,
                f"Megatron FSDP needs ckpt_format fsdp_dtensor, found {form}",
                related=FSDP_KEYS,
                fix=Fix("ckpt_format: fsdp_dtensor", set_to(run, (key, "fsdp_dtensor"))),
            )
        elif not fsdp and form == "fsdp_dtensor":
            yield self.finding(
                run,
                REJECTED,
                key,
                "ckpt_format fsdp_dtensor needs Megatron FSDP",
                related=FSDP_KEYS,
                fix=Fix("ckpt_format: torch_dist", set_to(run, (key, "torch_dist"))),
                station="fsdp/ckpt@format",
            )


class AsyncSaveFormat(RejectingRule):
    """Asynchronous saving needs a distributed checkpoint format and somewhere to save.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    checkpoint: {async_save: true, save: null}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    checkpoint: {async_save: true, save: checkpoints/run}
    ```

    ## Upstream
    - 0.3 to 0.7: `training/config.py`, `CheckpointConfig.finalize` and `ConfigContainer.validate`
    """

    code, slug = "FSD104", "fsdp/async-save"

    def check(self, run: Run) -> Iterator[Finding]:
        key = "checkpoint.async_save"
        if not run.flag(key):
            return
        if not run.is_set("checkpoint.save"):
            yield self.finding(
                run,
                REJECTED,
                key,
                "async_save is on and checkpoint.save is not set",
                fix=Fix("async_save: false", set_to(run, (key, False)), safe=True),
            )
        formats = ("torch_dist",) if run.release < R05 else ("torch_dist", "fsdp_dtensor")
        form = run.value("checkpoint.ckpt_format")
        if form not in formats:
            yield self.finding(
                run,
                REJECTED,
                key,
                f"async_save needs ckpt_format {words(formats, 'or')}, found {form}",
                related=("checkpoint.ckpt_format",),
                fix=Fix("async_save: false", set_to(run, (key, False)), safe=True),
                station="fsdp/async-save@format",
            )


class MxFp8Reuse(RejectingRule):
    """Gathering MXFP8 parameters needs reuse_grad_buf_for_mxfp8_param_ag.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    mixed_precision:
      _target_: megatron.bridge.training.mixed_precision.MixedPrecisionConfig
      fp8: e4m3
      fp8_recipe: mxfp8
      fp8_param_gather: true
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    mixed_precision:
      _target_: megatron.bridge.training.mixed_precision.MixedPrecisionConfig
      fp8: e4m3
      fp8_recipe: mxfp8
      fp8_param_gather: true
      reuse_grad_buf_for_mxfp8_param_ag: true
    ```

    ## Upstream
    - 0.5 to 0.7: `training/config.py`, `ConfigContainer.validate`; 0.3, 0.4: `training/mixed_precision.py`, `finalize`
    """

    code, slug = "PRC101", "prec/mxfp8-reuse"

    def check(self, run: Run) -> Iterator[Finding]:
        held = _precision(run)
        if held is None or (run.release >= R05 and uses_fsdp(run)):
            return
        gather = held("fp8_param_gather")
        if gather and held("fp8_recipe") == "mxfp8" and not held("reuse_grad_buf_for_mxfp8_param_ag"):
            key = "mixed_precision.reuse_grad_buf_for_mxfp8_param_ag"
            yield self.finding(
                run,
                REJECTED,
                key,
                "fp8_param_gather with MXFP8 needs reuse_grad_buf_for_mxfp8_param_ag: true",
                related=("mixed_precision.fp8_param_gather", "mixed_precision.fp8_recipe"),
                station="section:mixed_precision" if run.release < R05 else "",
                fix=Fix("reuse_grad_buf_for_mxfp8_param_ag: true", set_to(run, (key, True)), safe=True),
            )


class BufferWithoutParameters(RejectingRule):
    """Gradient buffers are reused for gathered MXFP8 parameters only where parameters are gathered in FP8.

    `mixed_precision` writes both switches over those of `ddp`.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    mixed_precision:
      _target_: megatron.bridge.training.mixed_precision.MixedPrecisionConfig
      fp8: e4m3
      fp8_recipe: mxfp8
      fp8_param_gather: false
      reuse_grad_buf_for_mxfp8_param_ag: true
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    mixed_precision:
      _target_: megatron.bridge.training.mixed_precision.MixedPrecisionConfig
      fp8: e4m3
      fp8_recipe: mxfp8
      fp8_param_gather: true
      reuse_grad_buf_for_mxfp8_param_ag: true
    ```

    ## Upstream
    - all releases: Megatron-Core `distributed_data_parallel_config.py`, `DistributedDataParallelConfig.__post_init__`
    """

    code, slug = "PRC103", "prec/reuse-without-mxfp8"

    def check(self, run: Run) -> Iterator[Finding]:
        held = _precision(run)
        owner = "mixed_precision" if held is not None else "ddp"
        read = held if held is not None else lambda name: run.value(f"ddp.{name}")
        if read("reuse_grad_buf_for_mxfp8_param_ag") and not read("fp8_param_gather"):
            key = f"{owner}.reuse_grad_buf_for_mxfp8_param_ag"
            yield self.finding(
                run,
                REJECTED,
                key,
                "reuse_grad_buf_for_mxfp8_param_ag needs fp8_param_gather: true",
                why="There are no MXFP8 parameters that could share the gradient buffer.",
                related=(f"{owner}.fp8_param_gather",),
                fix=Fix("reuse_grad_buf_for_mxfp8_param_ag: false", set_to(run, (key, False)), safe=True),
                station="section:ddp",
            )


def _precision(run: Run) -> Any:
    """A reader of mixed-precision fields, whether the setting is a name or an object; None where there is none."""
    setting = run.value("mixed_precision")
    if setting is None:
        return None
    if isinstance(setting, str):
        named = run.settings.schema.mixed_precision(setting) or {}
        return named.get
    return lambda name: run.value(f"mixed_precision.{name}")


class PrecisionName(RejectingRule):
    """A mixed-precision name must be one the release knows.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    mixed_precision: bf16_mixd
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    mixed_precision: bf16_mixed
    ```

    ## Upstream
    - 0.3 to 0.7: `training/mixed_precision.py`, `get_mixed_precision_config`
    """

    code, slug = "PRC102", "prec/unknown-name"

    def check(self, run: Run) -> Iterator[Finding]:
        name = run.value("mixed_precision")
        if not isinstance(name, str):
            return
        known = run.settings.schema.mixed_precision_names
        if name not in known:
            from difflib import get_close_matches

            near = get_close_matches(name, known, n=2)
            yield self.finding(
                run,
                REJECTED,
                "mixed_precision",
                f"mixed_precision {name} does not exist in {run.release}",
                fix=Fix(f"{words(near, 'or')}" if near else "bf16_mixed"),
            )


class NcclEpNeedsFlex(RejectingRule):
    """The ncclep backend needs the flex dispatcher.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_30b_a3b_sft_config gpus=16 launcher=script
    model: {moe_flex_dispatcher_backend: ncclep, moe_token_dispatcher_type: alltoall}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_30b_a3b_sft_config gpus=16 launcher=script
    model: {moe_flex_dispatcher_backend: ncclep, moe_token_dispatcher_type: flex}
    ```

    ## Upstream
    - 0.6, 0.7: Megatron-Core `transformer_config.py`, `TransformerConfig.__post_init__`
    """

    code, slug = "MOE107", "moe/ncclep-needs-flex"
    releases = (R06, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        backend, kind = "model.moe_flex_dispatcher_backend", "model.moe_token_dispatcher_type"
        if run.value(backend) == "ncclep" and run.value(kind) != "flex":
            yield self.finding(
                run,
                REJECTED,
                backend,
                f"dispatcher backend ncclep needs moe_token_dispatcher_type flex, found {run.value(kind)}",
                related=(kind,),
                fix=Fix("moe_token_dispatcher_type: flex", set_to(run, (kind, "flex"))),
            )


class AllgatherVariable(RejectingRule):
    """The allgather dispatcher excludes variable sequence lengths.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_30b_a3b_sft_config gpus=16 launcher=script
    model: {variable_seq_lengths: true, moe_token_dispatcher_type: allgather}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_30b_a3b_sft_config gpus=16 launcher=script
    model: {variable_seq_lengths: true, moe_token_dispatcher_type: alltoall}
    ```

    ## Upstream
    - all releases: Megatron-Core `transformer_config.py`, `TransformerConfig.__post_init__`
    """

    code, slug = "PPL104", "pp/allgather-variable"

    def check(self, run: Run) -> Iterator[Finding]:
        key, kind = "model.variable_seq_lengths", "model.moe_token_dispatcher_type"
        if run.value(key) is True and run.value(kind) == "allgather":
            yield self.finding(
                run,
                REJECTED,
                key,
                "variable_seq_lengths does not work with the allgather dispatcher",
                related=(kind,),
                fix=Fix("moe_token_dispatcher_type: alltoall", set_to(run, (kind, "alltoall"))),
            )


RULES: tuple[Rule, ...] = (
    FsdpCheckpoint(),
    AsyncSaveFormat(),
    MxFp8Reuse(),
    BufferWithoutParameters(),
    PrecisionName(),
    NcclEpNeedsFlex(),
    AllgatherVariable(),
)
