"""The scheduler that packs a global batch: what names there are, and when one may be set."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.run import Run
from mbpack.config.settings import Unknown
from mbpack.facts.modes import schedulers
from mbpack.facts.releases import NIGHTLY, R07
from mbpack.rules.base import CRASH_STEP, REJECTED, Finding, Fix, RejectingRule, Rule, in_yaml, set_to, words
from mbpack.rules.lookup import packs_online
from mbpack.rules.online.global_batch_refusals import OnlineRule

SWITCH, SCHEDULER = "dataset.enable_global_batch_packing", "model.sequence_packing_scheduler"
DYNAMIC, DYNAMIC_SCHEDULER = "model.dynamic_context_parallel", "default_dynamic_cp"


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
    - 0.7: `training/config.py`, `ConfigContainer.validate`
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


class KnownScheduler(OnlineRule):
    """The packing scheduler must be one that Megatron-Core registers.

    Unset, the start-up takes `dp_balanced`, with dynamic context parallelism (nightly) `default_dynamic_cp`. The latter lives in
    Megatron-Core's dev branch only; which branch is installed a configuration does not tell.

    ## Bad
    ```yaml
    # mbpack: bridge=0.7 gpus=8 launcher=script
    dataset: {enable_global_batch_packing: true}
    model: {sequence_packing_scheduler: balanced}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.7 gpus=8 launcher=script
    dataset: {enable_global_batch_packing: true}
    model: {sequence_packing_scheduler: dp_balanced}
    ```

    ## Upstream
    - 0.7: `training/global_batch_packing.py`, `probe_global_batch_packing_support`
    """

    code, slug = "GBP117", "gbp/mcore-scheduler"

    def refuse(self, run: Run) -> Iterator[Finding]:
        name, known = run.value(SCHEDULER), schedulers(run.release)
        if name is not None and name not in known:
            yield self.finding(
                run,
                REJECTED,
                SCHEDULER,
                f"no packing scheduler of {run.release} is called {in_yaml(name)}",
                why=f"Megatron-Core registers {words(known)}.",
                related=(SWITCH,),
                fix=Fix("sequence_packing_scheduler: null, the start-up chooses", set_to(run, (SCHEDULER, None))),
            )
        elif name == DYNAMIC_SCHEDULER or run.dynamic_cp:
            raise Unknown("libraries", ("libraries",), f"{DYNAMIC_SCHEDULER} needs the dev branch of Megatron-Core")


class DynamicScheduler(RejectingRule):
    """Dynamic context parallelism has a scheduler of its own, and that scheduler needs dynamic context parallelism.

    Any other scheduler beside `dynamic_context_parallel` is refused; leave the key out. `default_dynamic_cp` without dynamic
    context parallelism starts, but then nothing delivers the samples in the form that scheduler reads.

    ## Bad
    ```yaml
    # mbpack: bridge=nightly gpus=8 launcher=script
    dataset: {enable_global_batch_packing: true}
    model: {dynamic_context_parallel: true, sequence_packing_scheduler: dp_balanced}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=nightly gpus=8 launcher=script
    dataset: {enable_global_batch_packing: true}
    model: {dynamic_context_parallel: true, sequence_packing_scheduler: default_dynamic_cp}
    ```

    ## Upstream
    - nightly: `training/config.py`, `_validate_global_batch_packing`
    """

    code, slug = "DCP107", "dcp/scheduler"
    releases = (NIGHTLY, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        if not packs_online(run):
            return
        name = run.value(SCHEDULER)
        if run.dynamic_cp and name not in (None, DYNAMIC_SCHEDULER):
            yield self.finding(
                run,
                REJECTED,
                SCHEDULER,
                f"dynamic context parallelism needs the scheduler {DYNAMIC_SCHEDULER}, found {in_yaml(name)}",
                why="Only that scheduler deals a sample to a number of ranks that fits its length.",
                related=(DYNAMIC,),
                fix=Fix(
                    f"sequence_packing_scheduler: {DYNAMIC_SCHEDULER}", set_to(run, (SCHEDULER, DYNAMIC_SCHEDULER)), safe=True
                ),
            )
        elif name == DYNAMIC_SCHEDULER and not run.dynamic_cp:
            yield self.finding(
                run,
                CRASH_STEP.as_warning(),
                SCHEDULER,
                f"{DYNAMIC_SCHEDULER} without dynamic_context_parallel: true is not what that scheduler is made for",
                why="The start-up accepts the name; the samples still come as for a fixed context parallel group.",
                related=(DYNAMIC,),
                fix=Fix("dynamic_context_parallel: true, or sequence_packing_scheduler: null"),
            )


RULES: tuple[Rule, ...] = (SchedulerWithoutSwitch(), KnownScheduler(), DynamicScheduler())
