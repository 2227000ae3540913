"""What to expect of global-batch online packing (0.7 and later) where nothing is wrong with it: notes and waste."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mbpack.config.run import Run
from mbpack.config.settings import Unknown
from mbpack.facts import formulas
from mbpack.facts.releases import NIGHTLY, R07
from mbpack.rules.base import (
    DERIVED,
    NOTE,
    WASTE,
    Finding,
    Fix,
    Rule,
)
from mbpack.rules.lookup import packs_online
from mbpack.rules.online.global_batch import SWITCH


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

    Samples of a validation set are not used twice: (train_iters // eval_interval + 1) x eval_iters x the evaluation's global
    batch must be there, with eval_interval null once eval_iters x global batch. Whether they are depends on the data; building
    the loaders fails otherwise. Test sets are not checked.

    ## Upstream
    - 0.7: `data/loaders.py`, `build_train_valid_test_data_loaders`
    """

    code, slug = "GBP115", "gbp/validation-size"
    reports_unknown = True

    def note(self, run: Run) -> Iterable[Finding]:
        iters = run.maybe("validation.eval_iters")
        if iters == 0 or run.maybe("dataset.do_validation") is False:
            return ()
        need = _samples_needed(run)
        amount = f"{need} samples" if need else "samples for every evaluation"
        raise Unknown("data", ("data",), f"the validation set must hold {amount}, or building the loaders fails")


def _samples_needed(run: Run) -> formulas.Derived | None:
    """Validation samples that all evaluations of the training read; None where a number is missing."""
    iters, steps = run.maybe("validation.eval_iters"), run.maybe("train.train_iters")
    batch = run.maybe("validation.eval_global_batch_size") or run.maybe("train.global_batch_size")
    every = run.maybe("validation.eval_interval")
    if not all(isinstance(number, int) and number > 0 for number in (iters, steps, batch)):
        return None
    if every is None:
        return formulas.Derived(iters * batch, f"eval_iters {iters} x global batch {batch}")
    if not isinstance(every, int) or every <= 0:
        return None
    because = f"(train_iters {steps} // eval_interval {every} + 1) x eval_iters {iters} x global batch {batch}"
    return formulas.Derived((steps // every + 1) * iters * batch, because)


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
