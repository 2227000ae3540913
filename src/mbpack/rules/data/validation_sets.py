"""Validation over whole sets, and Megatron-FSDP against the loss."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.run import Run
from mbpack.facts.releases import NIGHTLY, R03, R04, R06, R07
from mbpack.rules.base import DERIVED, Finding, Fix, Outcome, Rule, set_to
from mbpack.rules.lookup import uses_megatron_fsdp

FULL, SETS, NAMES = (
    "validation.full_validation",
    "validation.multiple_validation_sets",
    "validation.validation_set_names",
)
AVERAGE, PER_TOKEN, VERSION = (
    "ddp.average_in_collective",
    "model.calculate_per_token_loss",
    "ddp.megatron_fsdp_version",
)
NOT_READ = Outcome("warning", "ignored", "evaluation")


class FullValidation(Rule):
    """validation.full_validation does nothing: evaluation still runs `eval_iters` steps.

    The field exists since 0.4, and no release reads it.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    validation: {full_validation: true}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    validation: {full_validation: false}
    ```

    ## Upstream
    - 0.4 to 0.7: `training/config.py`, `ValidationConfig`
    """

    code, slug = "VAL101", "val/full-validation"
    releases = (R04, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.flag(FULL):
            return
        fix = Fix("full_validation: false, and eval_iters that cover the set", set_to(run, (FULL, False)))
        yield self.finding(
            run,
            NOT_READ,
            FULL,
            f"nothing in {run.release} reads full_validation: evaluation runs eval_iters steps",
            related=("validation.eval_iters",),
            fix=fix,
        )


class MultipleSets(Rule):
    """Several validation sets are not evaluated up to 0.6.

    The fields exist since 0.4, but nothing reads them. 0.7 has rules of its own for them, which are not published.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    validation: {multiple_validation_sets: true}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    validation: {multiple_validation_sets: false}
    ```

    ## Upstream
    - 0.4 to 0.6: `training/config.py`, `ValidationConfig`
    """

    code, slug = "VAL102", "val/multiple-sets"
    releases = (R04, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        key = next((key for key in (SETS, NAMES) if run.value(key)), None)
        if key is None:
            return
        name = key.rpartition(".")[2]
        if run.release <= R06:
            fix = Fix("leave it unset", set_to(run, (key, None if key == NAMES else False)))
            yield self.finding(run, NOT_READ, key, f"nothing in {run.release} reads {name}", fix=fix)
        else:
            yield self.finding(
                run, DERIVED, key, f"{run.release} has rules for {name} that mbpack does not know; it is not judged"
            )


class FsdpAverage(Rule):
    """Megatron-FSDP switches average_in_collective off.

    From 0.4 on it does so unless symmetric registration is disabled.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    ddp: {use_megatron_fsdp: true, average_in_collective: true, disable_symmetric_registration: false}
    checkpoint: {ckpt_format: fsdp_dtensor}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    ddp: {use_megatron_fsdp: true, average_in_collective: false}
    checkpoint: {ckpt_format: fsdp_dtensor}
    ```

    ## Upstream
    - 0.3, 0.4: `training/config.py`, `ConfigContainer.validate`
    - 0.5 to 0.7: `training/config.py`, `_validate_and_apply_megatron_fsdp_configs`
    """

    code, slug = "FSD102", "fsdp/avg"
    releases = (R03, NIGHTLY)
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        if not uses_megatron_fsdp(run) or not run.flag(AVERAGE):
            return
        if run.release >= R04 and run.flag("ddp.disable_symmetric_registration"):
            return
        if run.release >= R07 and run.number(VERSION) == 2:
            return
        yield self.finding(
            run,
            DERIVED,
            AVERAGE,
            "Megatron-FSDP switches average_in_collective off",
            fix=Fix("average_in_collective: false", set_to(run, (AVERAGE, False)), safe=True),
        )


RULES: tuple[Rule, ...] = (
    FullValidation(),
    MultipleSets(),
    FsdpAverage(),
)
