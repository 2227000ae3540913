"""Checkpoints that are kept, and optimizer state that is staged on the CPU (0.7 and later)."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.run import Run
from mbpack.facts import formulas
from mbpack.facts.releases import NIGHTLY, R07
from mbpack.rules.base import REJECTED, Finding, Fix, RejectingRule, Rule, in_yaml, set_to, words

RETAIN, EVERY, RECENT = "checkpoint.save_retain_interval", "checkpoint.save_interval", "checkpoint.most_recent_k"
STAGE, FORMAT = "checkpoint.stage_precision_aware_optimizer_state_on_cpu", "checkpoint.ckpt_format"


class RetainInterval(RejectingRule):
    """save_retain_interval keeps some of the checkpoints that save_interval writes.

    So it is a positive multiple of `save_interval`, which must be set. It excludes `most_recent_k`, the other way of choosing.

    ## Bad
    ```yaml
    # mbpack: bridge=0.7 gpus=8 launcher=script
    checkpoint: {save_interval: 50, save_retain_interval: 75}
    ```
    ```yaml
    # mbpack: bridge=0.7 gpus=8 launcher=script
    checkpoint: {save_interval: 50, save_retain_interval: 100, most_recent_k: 3}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.7 gpus=8 launcher=script
    checkpoint: {save_interval: 50, save_retain_interval: 100, most_recent_k: -1}
    ```

    ## Upstream
    - 0.7: `training/config.py`, `CheckpointConfig.finalize`
    """

    code, slug = "CKP106", "new/ckpt-retain-interval"
    topic = "ckpt"
    releases = (R07, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        kept = run.number(RETAIN)
        if kept is None:
            return
        off = Fix("save_retain_interval: null", set_to(run, (RETAIN, None)))
        if kept <= 0:
            yield self._refuse(run, f"save_retain_interval must be positive, found {kept}", off)
            return
        every = run.number(EVERY)
        if every is None or every <= 0:
            fix = Fix(f"save_interval: {kept}", set_to(run, (EVERY, kept)))
            yield self._refuse(run, f"save_retain_interval needs a positive save_interval, found {in_yaml(every)}", fix)
        elif kept % every:
            near = formulas.nearest_multiples(int(kept), int(every))
            fix = Fix(f"save_retain_interval: {words(near, 'or')}", set_to(run, (RETAIN, near[-1])))
            yield self._refuse(run, f"save_retain_interval {kept} is no multiple of save_interval {every}", fix)
        if run.value(RECENT) != -1:
            yield self._refuse(
                run, f"save_retain_interval and most_recent_k {run.value(RECENT)} both choose what is kept", off, (RECENT,)
            )

    def _refuse(self, run: Run, message: str, fix: Fix, related: tuple[str, ...] = (EVERY,)) -> Finding:
        return self.finding(run, REJECTED, RETAIN, message, related=related, fix=fix)


class StagedState(RejectingRule):
    """Staging the optimizer state on the CPU is for ckpt_format torch_dist.

    ## Bad
    ```yaml
    # mbpack: bridge=0.7 gpus=8 launcher=script
    checkpoint: {stage_precision_aware_optimizer_state_on_cpu: true, ckpt_format: fsdp_dtensor}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.7 gpus=8 launcher=script
    checkpoint: {stage_precision_aware_optimizer_state_on_cpu: true, ckpt_format: torch_dist}
    ```

    ## Upstream
    - 0.7: `training/config.py`, `CheckpointConfig.finalize`
    """

    code, slug = "CKP107", "new/ckpt-stage-precision"
    topic = "ckpt"
    releases = (R07, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        if run.flag(STAGE) and run.value(FORMAT) != "torch_dist":
            yield self.finding(
                run,
                REJECTED,
                STAGE,
                f"staging the optimizer state on the CPU needs ckpt_format torch_dist, found {in_yaml(run.value(FORMAT))}",
                related=(FORMAT,),
                fix=Fix("ckpt_format: torch_dist", set_to(run, (FORMAT, "torch_dist"))),
            )


RULES: tuple[Rule, ...] = (RetainInterval(), StagedState())
