"""Global-batch online packing (0.7 and later): which models, datasets and modes it goes with, and what to expect of it.

All of it is documented upstream and newer than the source these rules were read from.
"""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.run import Run
from mbpack.facts.keys import OFFLINE_SWITCH, SPECS
from mbpack.facts.releases import NIGHTLY, R07
from mbpack.rules.base import (
    IGNORED,
    REJECTED,
    REJECTED_LOAD,
    Finding,
    Fix,
    RejectingRule,
    Rule,
    set_to,
)
from mbpack.rules.lookup import foreign, is_hybrid, packs_online, uses_megatron_fsdp
from mbpack.rules.online.global_batch_refusals import OnlineRule

SWITCH, SCHEDULER = "dataset.enable_global_batch_packing", "model.sequence_packing_scheduler"
IN_BATCH, BUFFER = "dataset.enable_in_batch_packing", "dataset.packing_buffer_size"


class OnlineMamba(OnlineRule):
    """Global-batch packing does not work with Mamba hybrids.

    ## Bad
    ```yaml
    # mbpack: bridge=0.7 recipe=nemotronh_8b_sft_config gpus=8 launcher=script
    dataset: {enable_global_batch_packing: true}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.7 recipe=nemotronh_8b_sft_config gpus=8 launcher=script
    dataset: {enable_global_batch_packing: false}
    ```

    ## Upstream
    - 0.7 (documented): `training/config.py`, `ConfigContainer.validate`
    """

    code, slug = "GBP106", "gbp/mamba"

    def refuse(self, run: Run) -> Iterator[Finding]:
        if is_hybrid(run):
            yield self.finding(
                run,
                REJECTED,
                SWITCH,
                "global-batch packing does not work with Mamba hybrids",
                fix=Fix("offline packing", set_to(run, (SWITCH, False))),
            )


class OnlineFsdp(OnlineRule):
    """Global-batch packing excludes Megatron-FSDP.

    ## Bad
    ```yaml
    # mbpack: bridge=0.7 gpus=8 launcher=script
    dataset: {enable_global_batch_packing: true}
    ddp: {use_megatron_fsdp: true}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.7 gpus=8 launcher=script
    dataset: {enable_global_batch_packing: true}
    ddp: {use_megatron_fsdp: false}
    dist: {use_megatron_fsdp: false}
    ```

    ## Upstream
    - 0.7 (documented): `training/config.py`, `ConfigContainer.validate`
    """

    code, slug = "GBP107", "gbp/fsdp"

    def refuse(self, run: Run) -> Iterator[Finding]:
        if uses_megatron_fsdp(run):
            keys = ("ddp.use_megatron_fsdp", "dist.use_megatron_fsdp")
            yield self.finding(
                run,
                REJECTED,
                keys[0] if run.maybe(keys[0]) else keys[1],
                "global-batch packing excludes Megatron-FSDP",
                related=(SWITCH,),
                fix=Fix("use_megatron_fsdp: false", set_to(run, *((key, False) for key in keys))),
            )


class OnlineExclusive(OnlineRule):
    """Global-batch packing excludes the other packing modes.

    ## Bad
    ```yaml
    # mbpack: bridge=0.7 recipe=llama3_8b_sft_2gpu_h100_bf16_config gpus=8 launcher=script
    dataset: {enable_global_batch_packing: true}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.7 recipe=llama3_8b_sft_2gpu_h100_bf16_config gpus=8 launcher=script
    dataset:
      enable_offline_packing: false
      offline_packing_specs: null
      enable_global_batch_packing: true
      dataloader_type: cyclic
    model: {max_seqlen_per_dp_cp_rank: 4096, calculate_per_token_loss: true}
    ddp: {average_in_collective: false}
    ```

    ## Upstream
    - 0.7 (documented): `data/builders/gpt_sft.py`, `GPTSFTDatasetConfig.validate`
    """

    code, slug = "GBP111", "gbp/exclusive"

    def refuse(self, run: Run) -> Iterator[Finding]:
        if run.offline:
            off: tuple[tuple[str, object], ...] = ((OFFLINE_SWITCH, False), (SPECS, None))
            yield self._say(run, OFFLINE_SWITCH, "offline packing", Fix("offline packing off", set_to(run, *off)))
        if run.in_batch:
            fix = Fix("enable_in_batch_packing: false", set_to(run, (IN_BATCH, False)))
            yield self._say(run, IN_BATCH, "in-batch packing", fix)
        if run.value(BUFFER) is not None:
            fix = Fix("packing_buffer_size: null", set_to(run, (BUFFER, None)))
            yield self._say(run, BUFFER, "a packing buffer", fix)

    def _say(self, run: Run, key: str, other: str, fix: Fix) -> Finding:
        return self.finding(
            run,
            REJECTED,
            key,
            f"global-batch packing and {other} are both switched on",
            why="The scheduler packs unpacked samples; upstream allows one packing owner.",
            related=(SWITCH,),
            fix=fix,
        )


class OnlineDatasetClass(RejectingRule):
    """Global-batch packing needs a dataset that yields unpacked samples: GPT-SFT, on nightly also GPT pretraining.

    Other classes have no such field: an override is ignored and the run is not packed, a complete file is refused.

    ## Bad
    ```yaml
    # mbpack: bridge=0.7 recipe=qwen3_vl_8b_sft_config gpus=8 launcher=script
    dataset: {enable_global_batch_packing: true}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.7 gpus=8 launcher=script
    dataset:
      _target_: megatron.bridge.data.builders.gpt_sft.GPTSFTDatasetConfig
      enable_global_batch_packing: true
    ```

    ## Upstream
    - 0.7 (documented): `data/builders/gpt_sft.py`; nightly also `training/config.py`, `GPTDatasetConfig`
    """

    code, slug = "GBP112", "gbp/dataset-class"
    releases = (R07, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        written = foreign(run, SWITCH)
        if not (written.value if written is not None else run.global_batch) or packs_online(run):
            return
        cls, known = run.settings.class_at("dataset"), written is None
        outcome = REJECTED if known else REJECTED_LOAD if run.complete else IGNORED
        yield self.finding(
            run,
            outcome,
            SWITCH,
            f"{cls or 'this dataset class'} cannot be packed per global batch",
            why="" if known or run.complete else "The class has no such field, so the override is ignored: nothing is packed.",
            fix=Fix("GPTSFTDatasetConfig as dataset, or another packing mode"),
            setting=written,
            station="load" if outcome is REJECTED_LOAD else "",
            on_key=not known,
        )


class SchedulerWithoutSwitch(RejectingRule):
    """model.sequence_packing_scheduler needs dataset.enable_global_batch_packing.

    ## Bad
    ```yaml
    # mbpack: bridge=0.7 gpus=8 launcher=script
    model: {sequence_packing_scheduler: dp_balanced}
    dataset: {enable_global_batch_packing: false}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.7 gpus=8 launcher=script
    model: {sequence_packing_scheduler: dp_balanced}
    dataset: {enable_global_batch_packing: true}
    ```

    ## Upstream
    - 0.7 (documented): `training/config.py`, `ConfigContainer.validate`
    """

    code, slug = "GBP113", "gbp/scheduler-without-switch"
    releases = (R07, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        if run.value(SCHEDULER) is None or run.flag(SWITCH):
            return
        yield self.finding(
            run,
            REJECTED,
            SCHEDULER,
            "sequence_packing_scheduler is set, but global-batch packing is off",
            related=(SWITCH,),
            fix=Fix("enable_global_batch_packing: true, or sequence_packing_scheduler: null"),
        )


RULES: tuple[Rule, ...] = (
    OnlineMamba(),
    OnlineFsdp(),
    OnlineExclusive(),
    OnlineDatasetClass(),
    SchedulerWithoutSwitch(),
)
