"""Batch size ramp-up, and what a resumed run does with the schedule of its checkpoint."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.run import Run
from mbpack.facts.keys import EPOCHS, SAMPLES
from mbpack.rules.base import REJECTED, Finding, Fix, RejectingRule, Rule, set_to

RAMP = "train.rampup_batch_size"
OVERRIDE, USE = "scheduler.override_opt_param_scheduler", "scheduler.use_checkpoint_opt_param_scheduler"


class RampUp(RejectingRule):
    """Batch size ramp-up works only where training is counted in iterations.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    train: {num_epochs: 1, train_iters: null, rampup_batch_size: [8, 8, 100]}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    train: {num_epochs: 1, train_iters: null}
    ```

    ## Upstream
    - 0.3 to 0.7: `training/config.py`, `TrainingConfig.finalize`
    """

    code, slug = "SCH105", "sched/ramp-up"

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.is_set(RAMP):
            return
        for key in (EPOCHS, SAMPLES):
            if not run.is_set(key) or run.number(key) <= 0:
                continue
            name = key.partition(".")[2]
            yield self.finding(
                run,
                REJECTED,
                RAMP,
                f"rampup_batch_size does not work with {name}",
                why="With a batch that grows, samples do not say how many steps there are.",
                related=(key,),
                fix=Fix("rampup_batch_size: null, or train_iters instead", set_to(run, (RAMP, None))),
            )


class ResumedSchedule(RejectingRule):
    """A resumed run takes the schedule of its checkpoint or its own, not both.

    `override_opt_param_scheduler` keeps the schedule of the configuration, `use_checkpoint_opt_param_scheduler` that of the
    checkpoint. Recipes switch the first one on.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    scheduler: {use_checkpoint_opt_param_scheduler: true}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    scheduler: {use_checkpoint_opt_param_scheduler: true, override_opt_param_scheduler: false}
    ```

    ## Upstream
    - 0.3 to 0.7: `training/config.py`, `SchedulerConfig.finalize`
    """

    code, slug = "SCH106", "sched/resumed-schedule"

    def check(self, run: Run) -> Iterator[Finding]:
        if not (run.flag(OVERRIDE) and run.flag(USE)):
            return
        kept, other = (USE, OVERRIDE) if run.wrote(USE) else (OVERRIDE, USE)
        yield self.finding(
            run,
            REJECTED,
            kept,
            "override_opt_param_scheduler and use_checkpoint_opt_param_scheduler are both on",
            why="One keeps the schedule that is written here, the other that of the checkpoint.",
            related=(other,),
            fix=Fix(f"{other.partition('.')[2]}: false", set_to(run, (other, False))),
        )


RULES: tuple[Rule, ...] = (RampUp(), ResumedSchedule())
