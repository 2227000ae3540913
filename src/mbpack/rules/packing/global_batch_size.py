"""The global batch against micro batch and data parallel size."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.run import Run
from mbpack.facts import formulas
from mbpack.facts.keys import CP, PP, TP
from mbpack.facts.releases import NIGHTLY, R05, R06
from mbpack.rules.base import CRASH_DATA, REJECTED, Finding, Fix, RejectingRule, Rule, set_to, words

MBS, GBS = "train.micro_batch_size", "train.global_batch_size"
EVAL_MBS, EVAL_GBS = "validation.eval_micro_batch_size", "validation.eval_global_batch_size"


class GbsDivisible(Rule):
    """The global batch must be a multiple of micro_batch_size x data parallel size.

    Nothing checks it at validation (from 0.5 on the evaluation batch, which defaults to the training batch, is checked
    there); the microbatch calculator asserts it when training starts.

    ## Bad
    ```yaml
    # mbpack: bridge=0.4 recipe=llama3_8b_sft_config gpus=8 launcher=script
    train: {micro_batch_size: 1, global_batch_size: 10}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.4 recipe=llama3_8b_sft_config gpus=8 launcher=script
    train: {micro_batch_size: 1, global_batch_size: 12}
    ```

    ## Upstream
    - all releases: Megatron-Core `num_microbatches_calculator.py`
    """

    code, slug = "GBS101", "gbs/divisible"

    def check(self, run: Run) -> Iterator[Finding]:
        gbs, mbs = run.gbs, run.mbs
        if gbs is None or mbs is None or int(mbs) <= 0 or gbs <= 0:
            return
        if run.flag("train.decrease_batch_size_if_needed"):
            return
        unit = int(mbs) * run.dp
        if gbs % unit:
            refused = self._refused_before(run, int(gbs))
            near = formulas.nearest_multiples(int(gbs), formulas.lcm(unit, refused or unit))
            yield self.finding(
                run,
                CRASH_DATA.as_info() if refused else CRASH_DATA,
                GBS,
                ("behind the start-up check, " if refused else "")
                + f"global_batch_size {gbs} is not a multiple of {unit} = MBS {mbs} x DP {run.dp}",
                why=f"Data parallel {run.dp} = {run.gpus} GPUs / (TP {run.tp} x PP {run.pp} x CP {run.cp}); every rank needs "
                "the same whole number of microbatches.",
                related=(MBS,),
                fix=Fix(f"global_batch_size: {words(near, 'or')}", set_to(run, (GBS, near[-1]))),
            )

    @staticmethod
    def _refused_before(run: Run, gbs: int) -> int:
        """What the evaluation needs the same number to be a multiple of, where the start-up refuses it for that; else 0."""
        if run.release < R05 or run.maybe(EVAL_GBS) is not None:
            return 0
        mbs, ranks = run.eval_mbs, _evaluation_ranks(run)
        unit = mbs * ranks if isinstance(mbs, int) and isinstance(ranks, int) else 0
        return unit if unit > 0 and gbs % unit else 0


class GbsEvalDivisible(RejectingRule):
    """The evaluation batch must be a multiple of its micro batch x data parallel size.

    Both evaluation sizes default to the training ones, so a training batch that does not divide is refused here first.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    validation: {eval_global_batch_size: 10}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    validation: {eval_global_batch_size: 12}
    ```

    ## Upstream
    - 0.5 to 0.7: `training/config.py`, `ConfigContainer.validate`
    """

    code, slug = "GBS102", "gbs/eval-divisible"
    releases = (R05, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        gbs, mbs = run.eval_gbs, run.eval_mbs
        if gbs is None or mbs is None or mbs == 0:
            return
        ranks = _evaluation_ranks(run)
        unit = mbs * ranks
        if gbs % unit == 0:
            return
        inherited = run.value(EVAL_GBS) is None
        key = GBS if inherited else EVAL_GBS
        near = formulas.nearest_multiples(int(gbs), int(unit)) if unit >= 1 else []
        yield self.finding(
            run,
            REJECTED,
            key,
            f"{'eval_global_batch_size' if not inherited else 'global_batch_size (also used for evaluation)'} {gbs} is not a "
            f"multiple of {unit} = evaluation MBS {mbs} x DP {ranks}",
            why="Evaluation splits its global batch over the data parallel ranks in whole microbatches.",
            related=(EVAL_MBS if run.value(EVAL_MBS) is not None else MBS,),
            fix=Fix(
                f"{key.rpartition('.')[2]}: {words(near, 'or')}" if near else "positive batch sizes",
                set_to(run, (key, near[-1])) if near else (),
            ),
        )


def _evaluation_ranks(run: Run) -> int:
    """Data parallel size of the evaluation as the start-up divides; below zero where a size is (and fails only later)."""
    cp = run.given_size(CP) if run.release < R06 or run.eval_cp is None else run.eval_cp
    size = run.given_size(TP) * run.given_size(PP) * cp
    return int(run.copy_gpus // size) if size < 0 and run.copy_gpus % size == 0 else run.eval_dp


RULES: tuple[Rule, ...] = (GbsDivisible(), GbsEvalDivisible())
