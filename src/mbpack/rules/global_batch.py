"""Global-batch online packing (0.7 and later): which models, datasets and modes it goes with, and what to expect of it.

All of it is documented upstream and newer than the source these rules were read from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mbpack.config.run import Run
from mbpack.config.settings import Unknown
from mbpack.facts import formulas
from mbpack.facts.releases import NIGHTLY, R07
from mbpack.rules.base import (
    DERIVED,
    IGNORED,
    NOTE,
    REJECTED,
    REJECTED_LOAD,
    WASTE,
    Finding,
    Fix,
    RejectingRule,
    Rule,
    set_to,
)
from mbpack.rules.lookup import foreign, is_hybrid, packs_online, uses_megatron_fsdp
from mbpack.rules.online import OnlineRule

SWITCH, SCHEDULER = "dataset.enable_global_batch_packing", "model.sequence_packing_scheduler"
OFFLINE, SPECS = "dataset.enable_offline_packing", "dataset.offline_packing_specs"
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
            off: tuple[tuple[str, object], ...] = ((OFFLINE, False), (SPECS, None))
            yield self._say(run, OFFLINE, "offline packing", Fix("offline packing off", set_to(run, *off)))
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


class OnlineNote(Rule):
    """A remark about runs that pack online."""

    releases = (R07, NIGHTLY)
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        if packs_online(run):
            yield from self.note(run)

    def note(self, run: Run) -> Iterable[Finding]:
        """Yield what there is to say about such a run."""
        raise NotImplementedError


class OnlineAlignment(OnlineNote):
    """Global-batch packing pads every sample: to 2 x CP, times TP with sequence parallelism.

    ## Bad
    ```yaml
    # mbpack: bridge=0.7 gpus=8 launcher=script
    dataset: {enable_global_batch_packing: true}
    model: {tensor_model_parallel_size: 2, sequence_parallel: true, context_parallel_size: 2}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.7 gpus=8 launcher=script
    dataset: {enable_global_batch_packing: true}
    model: {tensor_model_parallel_size: 1, sequence_parallel: false, context_parallel_size: 1}
    ```

    ## Upstream
    - 0.7 (documented): Megatron-Core's sequence packing scheduler
    """

    code, slug = "GBP114", "gbp/alignment"

    def note(self, run: Run) -> Iterator[Finding]:
        if run.release >= NIGHTLY and run.flag("model.dynamic_context_parallel"):
            return
        multiple = formulas.global_batch_multiple(run.tp, run.cp, run.sp)
        if multiple.value > 1:
            yield self.finding(
                run,
                DERIVED,
                SWITCH,
                f"every sample is padded to a multiple of {multiple}",
                related=("model.context_parallel_size", "model.tensor_model_parallel_size"),
            )


class OnlineValidationSize(OnlineNote):
    """The validation set must hold enough samples for every evaluation of a run that packs online.

    Whether it does depends on the data; evaluation stops when the samples run out.

    ## Upstream
    - 0.7 (documented): `training/eval.py`
    """

    code, slug = "GBP115", "gbp/validation-size"
    reports_unknown = True

    def note(self, run: Run) -> Iterable[Finding]:
        iters = run.maybe("validation.eval_iters")
        if iters != 0:
            raise Unknown("data", ("data",), "evaluation stops when the validation set has too few samples")
        return ()


class SingleDpNoGain(OnlineNote):
    """Global-batch packing balances samples over data parallel ranks; with one rank there is nothing to balance.

    ## Bad
    ```yaml
    # mbpack: bridge=0.7 gpus=2 launcher=script
    dataset: {enable_global_batch_packing: true}
    model: {tensor_model_parallel_size: 1, pipeline_model_parallel_size: 1, context_parallel_size: 2}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.7 gpus=8 launcher=script
    dataset: {enable_global_batch_packing: true}
    model: {tensor_model_parallel_size: 1, pipeline_model_parallel_size: 1, context_parallel_size: 2}
    ```

    ## Upstream
    - 0.7 (documented): Megatron-Core's sequence packing scheduler
    """

    code, slug = "GBP116", "gbp/single-dp-no-gain"

    def note(self, run: Run) -> Iterator[Finding]:
        if run.dp == 1:
            yield self.finding(
                run,
                WASTE.as_info(),
                SWITCH,
                "global-batch packing gains nothing with data parallel size 1",
                why=f"Data parallel 1 = {run.gpus} GPUs / (TP {run.tp} x PP {run.pp} x CP {run.cp}).",
                fix=Fix("offline packing fills packs better"),
            )


class OnlineMcoreScheduler(OnlineNote):
    """Global-batch packing needs a Megatron-Core that registers the scheduler.

    The core pinned in August 2026 does not, and building the model fails. A configuration does not tell which is
    installed.

    ## Upstream
    - 0.7 (documented): Megatron-Core's scheduler registry
    """

    code, slug = "GBP117", "gbp/mcore-scheduler"
    reports_unknown = True

    def note(self, run: Run) -> Iterable[Finding]:
        raise Unknown("libraries", ("libraries",), "the installed Megatron-Core must know the packing scheduler")


class VariableMicrobatches(OnlineNote):
    """With global-batch packing the number of microbatches varies from step to step.

    ## Bad
    ```yaml
    # mbpack: bridge=0.7 gpus=8 launcher=script
    dataset: {enable_global_batch_packing: true}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.7 gpus=8 launcher=script
    dataset: {enable_global_batch_packing: false}
    ```

    ## Upstream
    - 0.7 (documented): Megatron-Core's sequence packing scheduler
    """

    code, slug = "GBP118", "gbp/variable-microbatches"

    def note(self, run: Run) -> Iterator[Finding]:
        yield self.finding(
            run,
            NOTE,
            SWITCH,
            "the number of microbatches varies from step to step, and so does the time of a step",
            why="Packs are formed from the samples of each global batch.",
        )


RULES: tuple[Rule, ...] = (
    OnlineMamba(),
    OnlineFsdp(),
    OnlineExclusive(),
    OnlineDatasetClass(),
    SchedulerWithoutSwitch(),
    OnlineAlignment(),
    OnlineValidationSize(),
    SingleDpNoGain(),
    OnlineMcoreScheduler(),
    VariableMicrobatches(),
)
