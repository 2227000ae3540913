"""What to expect of global-batch online packing (0.7 and later) where nothing is wrong with it: notes and waste."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mbpack.config.run import Run
from mbpack.config.settings import Unknown
from mbpack.facts.keys import ITERS
from mbpack.facts.releases import NIGHTLY, R07
from mbpack.rules.base import (
    CRASH_DATA,
    DERIVED,
    NOTE,
    WASTE,
    Finding,
    Fix,
    Rule,
)
from mbpack.rules.lookup import packs_online
from mbpack.rules.online.global_batch import SWITCH

EVAL_ITERS, EVAL_INTERVAL, EVAL_GBS = (f"validation.eval_{name}" for name in ("iters", "interval", "global_batch_size"))


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
    """Global-batch packing pads every sample to what context and sequence parallelism split it into.

    That is the least common multiple of 2 x CP and, with sequence parallelism, CP x TP, over the context parallel sizes of
    training and evaluation. The start-up writes it to `global_batch_packing_pad_to_multiple_of`.

    ## Bad
    ```yaml
    # mbpack: bridge=0.7 gpus=8 launcher=script
    dataset: {enable_global_batch_packing: true}
    model: {tensor_model_parallel_size: 2, sequence_parallel: true, context_parallel_size: 2}
    dist: {eval_context_parallel_size: null}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.7 gpus=8 launcher=script
    dataset: {enable_global_batch_packing: true}
    model: {tensor_model_parallel_size: 1, sequence_parallel: false, context_parallel_size: 1}
    dist: {eval_context_parallel_size: null}
    ```

    ## Upstream
    - 0.7: `training/config.py`, `ConfigContainer.validate` and `_apply_global_batch_packing_padding`
    """

    code, slug = "GBP114", "gbp/alignment"

    def note(self, run: Run) -> Iterator[Finding]:
        if run.dynamic_cp:
            return
        multiple = run.online_multiple
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

    When the loaders are built, 0.7 asks for all of them at once: (train_iters // eval_interval + 1) x eval_iters x
    evaluation batch, and refuses a smaller set. Test sets are not checked.

    ## Bad
    ```yaml
    # mbpack: bridge=0.7 recipe=qwen3_8b_sft_4gpu_h100_bf16_config gpus=8 launcher=script
    # found: {raw: {training: true, validation: true, validation_lines: 3}}
    dataset: {dataset_root: data, hf_dataset: null, hf_validation_proportion: null, enable_offline_packing: false,
      offline_packing_specs: null, enable_global_batch_packing: true, dataloader_type: single}
    train: {micro_batch_size: 1, global_batch_size: 32, train_iters: 1000}
    validation: {eval_iters: 32, eval_interval: 50}
    model: {calculate_per_token_loss: true, max_seqlen_per_dp_cp_rank: 4096}
    ddp: {average_in_collective: false}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.7 recipe=qwen3_8b_sft_4gpu_h100_bf16_config gpus=8 launcher=script
    # found: {raw: {training: true, validation: true, validation_lines: 30000}}
    dataset: {dataset_root: data, hf_dataset: null, hf_validation_proportion: null, enable_offline_packing: false,
      offline_packing_specs: null, enable_global_batch_packing: true, dataloader_type: single}
    train: {micro_batch_size: 1, global_batch_size: 32, train_iters: 1000}
    validation: {eval_iters: 32, eval_interval: 50}
    model: {calculate_per_token_loss: true, max_seqlen_per_dp_cp_rank: 4096}
    ddp: {average_in_collective: false}
    ```

    ## Upstream
    - 0.7 (documented): `data/loaders.py`, `build_train_valid_test_data_loaders`
    """

    code, slug = "GBP115", "gbp/validation-size"
    reports_unknown = True

    def note(self, run: Run) -> Iterator[Finding]:
        iters = run.maybe(EVAL_ITERS)
        if iters == 0 or not run.maybe("dataset.do_validation", True):
            return
        wanted = self._wanted(run, iters)
        raw = run.evidence.raw_data
        found = raw.validation_lines if raw is not None else None
        if wanted is not None and (found is None or found < wanted):
            interval, steps = run.maybe(EVAL_INTERVAL), run.maybe(ITERS)
            rounds = f"({steps} // {interval} + 1) x " if interval else ""
            number = (
                f"{rounds}{iters} x {run.maybe(EVAL_GBS) or run.maybe('train.global_batch_size')} = {wanted:,} validation samples"
            )
            yield self.finding(
                run,
                NOTE if found is None else CRASH_DATA,
                EVAL_ITERS,
                f"the run needs {number}" + ("" if found is None else f", the file has {found:,}"),
                why="0.7 asks for the samples of all evaluations when the loaders are built, and refuses a smaller set.",
                related=(EVAL_INTERVAL, ITERS, "train.global_batch_size", "dataset.dataset_root"),
                fix=Fix("fewer eval_iters, a smaller eval_global_batch_size, more validation samples, or eval_iters: 0"),
            )
        if wanted is None or found is None:
            raise Unknown("data", ("data",), "the loaders refuse a validation set with too few samples")

    @staticmethod
    def _wanted(run: Run, iters: object) -> int | None:
        """Validation samples of the whole run, None where a number is not known."""
        steps, interval, batch = (
            run.maybe(ITERS),
            run.maybe(EVAL_INTERVAL),
            run.maybe(EVAL_GBS) or run.maybe("train.global_batch_size"),
        )
        if not isinstance(iters, int) or not isinstance(batch, int):
            return None
        if not interval:
            return iters * batch
        return (steps // interval + 1) * iters * batch if isinstance(steps, int) and isinstance(interval, int) else None


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
    - 0.7: Megatron-Core's sequence packing scheduler
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
    - 0.7: Megatron-Core's sequence packing scheduler
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
    OnlineAlignment(),
    OnlineValidationSize(),
    SingleDpNoGain(),
    VariableMicrobatches(),
)
