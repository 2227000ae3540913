"""FP8 and FP4 fields of a model, its own or those that mixed precision writes over them, that need or exclude each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mbpack.config.precision import SECTION
from mbpack.config.run import Run
from mbpack.config.settings import Object
from mbpack.rules.base import REJECTED, Finding, Fix, RejectingRule, Rule, in_yaml, set_to

#: Fields that follow another one: the mixed-precision object keeps the two in step, and what it says of gathering is set last.
_FOLLOWS = {"fp8_param": "fp8_param_gather", "fp4_param": "fp4_param_gather"}

#: Why a field needs another one.
WHY = {
    "fp8_param": "Only a model that computes in FP8 keeps its parameters in FP8.",
    "fp8_output_proj": "The output layer computes in MXFP8, as the others then do.",
    "fp4_param": "Only a model that computes in FP4 keeps its parameters in FP4.",
    "fp4": "A layer computes in one format.",
}


def place_of(run: Run, name: str) -> str:
    """The key that decides a field of the model: mixed precision's where there is one and it has the field."""
    if run.is_set(SECTION) and name in (run.settings.schema.fields("MixedPrecisionConfig") or {}):
        return SECTION if isinstance(run.value(SECTION), str) else f"{SECTION}.{_FOLLOWS.get(name, name)}"
    return f"model.{name}"


def final(run: Run, name: str) -> Any:
    """A field of the model as it is when the model is checked.

    Raises:
        Unknown: the value lives in a recipe that was not named.
    """
    key = place_of(run, name)
    if key == SECTION:
        return (run.settings.schema.mixed_precision(run.value(SECTION)) or {}).get(_FOLLOWS.get(name, name))
    return plain(run.value(key))


def plain(value: Any) -> Any:
    """The name of a member of an enumeration (``Fp8Recipe``) that is written as an object; other values as they are."""
    if isinstance(value, Object) and value.call and len(value.args) == 1:
        return value.args[0]
    return value


class Fp8Fields(RejectingRule):
    """FP8 and FP4 fields need their mode, and the two modes exclude each other.

    `fp8_param` and `fp8_output_proj` need `fp8`, `fp4_param` needs `fp4`; a custom recipe needs a quantizer factory, and
    `fp8_output_proj` the recipe mxfp8. `mixed_precision` writes its own fields over those of the model.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    mixed_precision: null
    model: {bf16: true, fp8_param: true}
    ```
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    mixed_precision:
      _target_: megatron.bridge.training.mixed_precision.MixedPrecisionConfig
      bf16: true
      fp8: hybrid
      fp4: e2m1
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    mixed_precision: null
    model: {bf16: true, fp8: hybrid, fp8_param: true}
    ```

    ## Upstream
    - all releases: Megatron-Core `transformer_config.py`, `TransformerConfig.__post_init__` (`fp8_output_proj`: from 0.5 on);
      `training/mixed_precision.py`, `MixedPrecisionConfig.finalize`
    """

    code, slug = "PRC106", "prec/fp8-fields"

    def check(self, run: Run) -> Iterator[Finding]:
        fp8, fp4 = final(run, "fp8"), final(run, "fp4")
        if fp8:
            yield from self._custom(run, "fp8")
        for name, mode, on in (("fp8_param", "fp8", fp8), ("fp8_output_proj", "fp8", fp8), ("fp4_param", "fp4", fp4)):
            if not final(run, name):
                continue
            if not on:
                yield self._refuse(run, name, f"{name} is on without {mode}", (mode,))
            elif name == "fp8_output_proj" and final(run, "fp8_recipe") != "mxfp8":
                found = f"found {final(run, 'fp8_recipe')}"
                yield self._refuse(run, name, f"fp8_output_proj needs fp8_recipe mxfp8, {found}", ("fp8_recipe",))
        if fp4 and fp8:
            early = place_of(run, "fp8") != "model.fp8"
            yield self._refuse(run, "fp4", "fp4 and fp8 are both on; one of them only", ("fp8",), None, early)
        if fp4:
            yield from self._custom(run, "fp4")

    def _custom(self, run: Run, mode: str) -> Iterator[Finding]:
        factory = f"{mode}_quantizer_factory"
        if final(run, f"{mode}_recipe") == "custom" and not final(run, factory):
            message = f"{mode}_recipe custom needs {factory}, the import path of a function"
            yield self._refuse(run, f"{mode}_recipe", message, (factory,), Fix(f"{factory}: package.module.function"))

    def _refuse(
        self, run: Run, name: str, message: str, others: tuple[str, ...], fix: Fix | None = None, early: bool = False
    ) -> Finding:
        key = place_of(run, name)
        if fix is None:
            off = None if name == "fp4" else False
            fix = Fix(f"{key}: {in_yaml(off)}", set_to(run, (key, off)) if key != SECTION else ())
        return self.finding(
            run,
            REJECTED,
            key,
            message,
            why=WHY.get(name, "The function builds the quantizers."),
            related=tuple(place_of(run, other) for other in others),
            fix=fix,
            station=f"{self.slug}@mixed" if early else "",
        )


RULES: tuple[Rule, ...] = (Fp8Fields(),)
