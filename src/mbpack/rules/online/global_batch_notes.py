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
    OnlineAlignment(),
    OnlineValidationSize(),
    SingleDpNoGain(),
    OnlineMcoreScheduler(),
    VariableMicrobatches(),
)
