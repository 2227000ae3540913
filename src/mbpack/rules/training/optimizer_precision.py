"""The number formats of the optimizer's state, and precision flags of model and optimizer that contradict each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mbpack.config.precision import SECTION, applied
from mbpack.config.run import Run
from mbpack.config.settings import Object
from mbpack.facts.dtypes import FLOAT32_ATTRIBUTES, is_float32
from mbpack.rules.base import REJECTED, Edit, Finding, Fix, RejectingRule, Rule, in_yaml, set_to

AWARE = "optimizer.use_precision_aware_optimizer"
#: In the order in which the start-up looks at them.
STATES = ("main_grads_dtype", "main_params_dtype", "exp_avg_dtype", "exp_avg_sq_dtype")


def _single(run: Run, value: Any) -> bool:
    """Whether a value of the configuration arrives as ``torch.float32``."""
    if isinstance(value, Object):
        return not value.call and value.target in {f"torch.{name}" for name in FLOAT32_ATTRIBUTES}
    return isinstance(value, str) and is_float32(run.release, value, run.complete)


def _shown(value: Any) -> str:
    if not isinstance(value, Object):
        return in_yaml(value)
    return f"{value.target}{' without _call_: false' if value.call else ''}" if value.target else "a mapping"


class StateTypes(RejectingRule):
    """Without the precision-aware optimizer, gradients, master weights and moments are kept in FP32.

    The four dtypes of the optimizer's state are free only with `use_precision_aware_optimizer: true`; otherwise the start-up
    asserts that each is `torch.float32`, and null is refused as well. An optimizer that a `_target_` makes anew over a recipe gets
    the recipe's dtypes as text, which is none of them in either case.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    optimizer: {exp_avg_dtype: torch.bfloat16}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    optimizer: {exp_avg_dtype: torch.bfloat16, use_precision_aware_optimizer: true}
    ```

    ## Upstream
    - all releases: Megatron-Core `optimizer_config.py`, `OptimizerConfig.__post_init__`
    """

    code, slug = "OPT101", "opt/state-dtypes"

    def check(self, run: Run) -> Iterator[Finding]:
        yield from self._made_anew(run)
        if run.flag(AWARE):
            return
        for name in STATES:
            key = f"optimizer.{name}"
            value = run.value(key, "torch.float32")
            if not _single(run, value):
                yield self.finding(
                    run,
                    REJECTED,
                    key,
                    f"{name} must be torch.float32 without the precision-aware optimizer, found {_shown(value)}",
                    why="Only the precision-aware optimizer keeps its state in other formats.",
                    related=(AWARE,),
                    fix=Fix(
                        f"{name}: torch.float32, or use_precision_aware_optimizer: true",
                        (Edit("delete", key),) if run.complete else set_to(run, (key, "torch.float32")),
                    ),
                )

    def _made_anew(self, run: Run) -> Iterator[Finding]:
        target = run.settings.target_at("optimizer")
        if run.complete or target is None or not run.settings.classes.remade(("optimizer",)):
            return
        if ("optimizer",) in run.settings.made:
            return  # a program calls the class itself: its defaults are dtypes, and nothing of the recipe is written out
        if str(target.value).startswith("megatron.core."):
            return  # it checks itself while it is made, fails at the text, and the mapping is applied without its target
        texts = [name for name in STATES if isinstance(run.value(f"optimizer.{name}"), str)]
        if texts:
            yield self.finding(
                run,
                REJECTED,
                f"optimizer.{texts[0]}",
                f"the recipe's {texts[0]} arrives as text: the optimizer is made anew by its _target_",
                why="A dtype of the recipe is written out as text on the way into a new object, and a new object takes it as it is.",
                setting=target,
                fix=Fix(
                    "remove optimizer._target_: the recipe's optimizer is of this class already",
                    (Edit("delete", "optimizer._target_"),),
                ),
            )


class BothPrecisions(RejectingRule):
    """A model computes in BF16 or in FP16, and so does its optimizer.

    `mixed_precision` writes its flags over those of model and optimizer, so both at once can only come from a
    MixedPrecisionConfig with both, or from the sections' own flags without `mixed_precision`.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    mixed_precision: null
    model: {bf16: true, fp16: true}
    ```
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    mixed_precision: null
    optimizer: {bf16: true, fp16: true}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    mixed_precision: null
    model: {bf16: true, fp16: false}
    optimizer: {bf16: true, fp16: false}
    ```

    ## Upstream
    - all releases: Megatron-Core `transformer_config.py`, `TransformerConfig.__post_init__`
    - 0.3 to 0.7: `training/config.py`, `_validate_mixed_precision_consistency`
    """

    code, slug = "PRC104", "prec/bf16-and-fp16"

    def check(self, run: Run) -> Iterator[Finding]:
        shared = run.is_set(SECTION)  # then both get the same flags, and the model is looked at first
        for section in ("model",) if shared else ("model", "optimizer"):
            if applied(run, section, "bf16") and applied(run, section, "fp16"):
                owner = SECTION if shared else section
                key = f"{owner}.fp16"
                yield self.finding(
                    run,
                    REJECTED,
                    key,
                    f"{owner} has both bf16 and fp16 on; one precision only",
                    related=(f"{owner}.bf16",),
                    fix=Fix(f"{owner}: fp16: false, to train in BF16", set_to(run, (key, False))),
                    station=self.slug if section == "model" else f"{self.slug}@optimizer",
                )


class OptimizerFlags(RejectingRule):
    """With the precision-aware optimizer, model and optimizer name the same precision.

    `mixed_precision` sets both alike; without it the flags `bf16` and `fp16` of the optimizer must follow those of the model.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    mixed_precision: null
    model: {bf16: true}
    optimizer: {use_precision_aware_optimizer: true, bf16: false}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    mixed_precision: null
    model: {bf16: true}
    optimizer: {use_precision_aware_optimizer: true, bf16: true}
    ```

    ## Upstream
    - 0.3 to 0.7: `training/config.py`, `_validate_mixed_precision_consistency`
    """

    code, slug = "PRC105", "prec/optimizer-flags"

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.flag(AWARE) or run.is_set(SECTION):
            return
        model = {name: run.flag(f"model.{name}") for name in ("bf16", "fp16")}
        for name, asked in model.items():
            key = f"optimizer.{name}"
            if asked and not run.flag(key):
                yield self._refuse(run, key, f"model.{name} is on, {key} is off", asked, f"model.{name}")
            elif not any(model.values()) and run.flag(key):
                yield self._refuse(run, key, f"the model computes in FP32, {key} is on", asked, f"model.{name}")

    def _refuse(self, run: Run, key: str, message: str, value: bool, other: str) -> Finding:
        return self.finding(
            run,
            REJECTED,
            key,
            message,
            why="The precision-aware optimizer chooses its formats by its own flags.",
            related=(AWARE, other),
            fix=Fix(f"{key}: {in_yaml(value)}", set_to(run, (key, value))),
        )


RULES: tuple[Rule, ...] = (StateTypes(), BothPrecisions(), OptimizerFlags())
