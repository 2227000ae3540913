"""Global-batch online packing (0.7 and later): which models, datasets and modes it goes with."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.run import Run
from mbpack.facts.keys import OFFLINE_SWITCH, SPECS
from mbpack.facts.releases import NIGHTLY, R07
from mbpack.rules.base import (
    CRASH_STEP,
    IGNORED,
    REJECTED,
    SILENT,
    Finding,
    Fix,
    RejectingRule,
    Rule,
    set_to,
)
from mbpack.rules.lookup import foreign, is_hybrid, packs_online
from mbpack.rules.online.global_batch_refusals import OnlineRule

SWITCH = "dataset.enable_global_batch_packing"
HYBRID = "model.is_hybrid_model"
IN_BATCH, BUFFER = "dataset.enable_in_batch_packing", "dataset.packing_buffer_size"


class OnlineMamba(OnlineRule):
    """Global-batch packing does not work with Mamba hybrids.

    The start-up refuses it where `is_hybrid_model` is on, as in the recipes of such models. A hybrid model without that flag
    starts, and its state-space layers run over the sample boundaries.

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
    - 0.7: `training/config.py`, `ConfigContainer.validate`
    """

    code, slug = "GBP106", "gbp/mamba"

    def refuse(self, run: Run) -> Iterator[Finding]:
        fix = Fix("offline packing", set_to(run, (SWITCH, False)))
        if run.flag(HYBRID):
            message = "global-batch packing does not work with Mamba hybrids"
            yield self.finding(run, REJECTED, SWITCH, message, related=(HYBRID,), fix=fix)
        elif is_hybrid(run):
            yield self.finding(
                run,
                SILENT.as_warning(),
                SWITCH,
                "global-batch packing starts with this Mamba hybrid, but its state-space layers see no sample boundaries",
                why="The start-up looks at is_hybrid_model only, which is off here; samples of one pack then run into each other.",
                related=(HYBRID,),
                fix=fix,
            )


class OnlineFsdp(OnlineRule):
    """Global-batch packing excludes Megatron-FSDP.

    The start-up refuses it where `ddp.use_megatron_fsdp` is on. With `dist.use_megatron_fsdp` alone it starts, because that
    switch is carried over to `ddp` only afterwards.

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
    - 0.7: `training/config.py`, `ConfigContainer.validate`
    """

    code, slug = "GBP107", "gbp/fsdp"

    def refuse(self, run: Run) -> Iterator[Finding]:
        ddp, dist = "ddp.use_megatron_fsdp", "dist.use_megatron_fsdp"
        fix = Fix("use_megatron_fsdp: false", set_to(run, (ddp, False), (dist, False)))
        if run.flag(ddp):
            yield self.finding(run, REJECTED, ddp, "global-batch packing excludes Megatron-FSDP", related=(SWITCH,), fix=fix)
        elif run.flag(dist):
            yield self.finding(
                run,
                CRASH_STEP.as_warning(),
                dist,
                "global-batch packing is not made for Megatron-FSDP, and the start-up overlooks dist.use_megatron_fsdp",
                why="It looks at ddp.use_megatron_fsdp, which is set from this switch only later; nobody has tested such a run.",
                related=(SWITCH,),
                fix=fix,
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
    - 0.7: `data/builders/gpt_sft.py`, `GPTSFTDatasetConfig.validate`
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
    - 0.7: `data/builders/gpt_sft.py`; nightly also `training/config.py`, `GPTDatasetConfig`
    """

    code, slug = "GBP112", "gbp/dataset-class"
    releases = (R07, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        written = foreign(run, SWITCH)
        if not (written.value if written is not None else run.global_batch) or packs_online(run):
            return
        cls, known = run.settings.class_at("dataset"), written is None
        if run.complete and not known:
            return  # the loader refuses the key, as any that the class lacks
        outcome = REJECTED if known else IGNORED
        yield self.finding(
            run,
            outcome,
            SWITCH,
            f"{cls or 'this dataset class'} cannot be packed per global batch",
            why="" if known else "The class has no such field, so the override is ignored: nothing is packed.",
            fix=Fix("GPTSFTDatasetConfig as dataset, or another packing mode"),
            setting=written,
            on_key=not known,
        )


RULES: tuple[Rule, ...] = (
    OnlineMamba(),
    OnlineFsdp(),
    OnlineExclusive(),
    OnlineDatasetClass(),
)
