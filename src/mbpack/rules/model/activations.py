"""The activation function of the feed-forward layers, and the fused kernels that exist only for some functions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mbpack.config.run import Run
from mbpack.config.settings import Object, Setting, Unknown
from mbpack.facts.activations import (
    ENGINE,
    FUSED,
    GELU,
    OTHER,
    QUICK_GELU,
    RELU,
    SILU,
    at_path,
    described,
    names,
    replaceable,
)
from mbpack.facts.releases import NIGHTLY, R04, R05
from mbpack.facts.schema import Opaque
from mbpack.rules.base import REJECTED, Finding, Fix, RejectingRule, Rule, in_yaml, set_to, words
from mbpack.rules.stated import stated, touched

FUNCTION, GATED, BIAS = "model.activation_func", "model.gated_linear_unit", "model.add_bias_linear"
FUSION, OFFSET, TE = "model.bias_activation_fusion", "model.glu_linear_offset", "model.use_te_activation_func"
STORE, RESIDUAL, NORM = "model.activation_func_fp8_input_store", "model.fused_residual_rmsnorm", "model.normalization"

#: What people mean by names that are none: a function, and whether it is gated.
MEANT = {"swiglu": (SILU, True), "geglu": (GELU, True), "reglu": (RELU, True), "swish": (SILU, None)}


def _inherited(run: Run) -> str | None:
    """The function of the recipe or of the model's class, as the data describe it; None where they do not."""
    recipe = run.settings.recipe
    if recipe is not None:
        given = recipe.complete or not recipe.values.keys().isdisjoint((FUNCTION, "model.transformer.activation_func"))
        value = recipe.value(FUNCTION) if given else None
    else:
        schema, cls = run.settings.schema, run.settings.class_at("model") or ""
        field = (schema.fields(schema.transformer_class(cls) or cls) or {}).get("activation_func")
        value = None if field is None else field.default
    return value.text if isinstance(value, Opaque) else None


def _written(run: Run) -> Setting | None:
    """The setting where the user gives the function and the start-up takes it."""
    setting = run.setting(FUNCTION)
    if setting.item is None:
        return None
    held = _inherited(run)
    if not run.complete and held is not None and not replaceable(run.release, held):
        return None
    return setting


def function(run: Run) -> str:
    """Which function the model computes, as far as the kernels distinguish them.

    Raises:
        Unknown: the recipe's data do not say, or it is imported from a place that is not known here.
    """
    setting = _written(run)
    if setting is None:
        held = _inherited(run)
        if held is None:
            raise Unknown(FUNCTION, (), "the model's function is not known")
        return described(held)
    value = setting.value
    if isinstance(value, Object):
        path = None if value.call else value.target
        return OTHER if path is None else _imported(path)
    if not isinstance(value, str):
        return OTHER
    known = names(run.release)
    return known[value] if value in known else OTHER if _dead(run, value) else _imported(value)


def _dead(run: Run, name: str) -> bool:
    """Whether a text that has no entry in the table of names stays text; only 0.4 tries to import it."""
    return not (R04 <= run.release < R05 and "." in name)


def _imported(path: str) -> str:
    found = at_path(path)
    if found is None:
        raise Unknown(FUNCTION, ("libraries",), "it is imported when the run starts")
    return found


class UnknownFunction(RejectingRule):
    """A name of an activation function must be one the release knows.

    SwiGLU and GeGLU are no functions of their own: they are `silu` and `gelu` with `gated_linear_unit: true`.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {activation_func: swiglu}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {activation_func: silu, gated_linear_unit: true}
    ```

    ## Upstream
    - 0.4 to 0.7: `models/transformer_config.py`, `_resolve_string_fields`; `utils/activation_map.py`, `str_to_callable`

    ## Release notes
    0.3 takes no names: a recipe keeps its function whatever is written.
    """

    code, slug = "ACT101", "act/unknown-function"
    releases = (R04, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        setting = _written(run)
        if setting is None or not isinstance(setting.value, str):
            return
        name, known = setting.value, names(run.release)
        if name in known:
            return
        if not _dead(run, name):
            _imported(name)
            return
        short = sorted(other for other in known if "." not in other)
        yield self.finding(
            run,
            REJECTED,
            FUNCTION,
            f"activation_func {name!r} is no function {run.release} knows",
            why=f"It knows {words(short)}.",
            fix=self._fix(run, name, short),
        )

    def _fix(self, run: Run, name: str, short: list[str]) -> Fix:
        meant, gated = MEANT.get(name.lower(), (None, None))
        if meant is not None:
            pairs = ((FUNCTION, meant), (GATED, True)) if gated else ((FUNCTION, meant),)
            title = f"activation_func: {meant}{', gated_linear_unit: true' if gated else ''}"
            return Fix(title, set_to(run, *pairs))
        from difflib import get_close_matches

        near = get_close_matches(name, short, n=1)
        return Fix(f"activation_func: {near[0] if near else 'one of them'}", set_to(run, *((FUNCTION, other) for other in near)))


class Fusions(RejectingRule):
    """Fused kernels exist for some activation functions and norms only.

    `bias_activation_fusion` takes gelu, silu and quick_gelu (which must be gated; ungated gelu needs a bias), shifts the gate only for
    quick_gelu and excludes `use_te_activation_func`, which takes gelu, silu and relu. `activation_func_fp8_input_store` is for SwiGLU,
    `fused_residual_rmsnorm` for RMSNorm.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {bias_activation_fusion: true, activation_func: relu}
    ```
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {fused_residual_rmsnorm: true, normalization: LayerNorm}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {bias_activation_fusion: false, activation_func: relu}
    ```

    ## Upstream
    - all releases: Megatron-Core `transformer_config.py`, `TransformerConfig.__post_init__` (`fused_residual_rmsnorm`: from 0.4 on)
    """

    code, slug = "ACT102", "act/fusions"

    def check(self, run: Run) -> Iterator[Finding]:
        if touched(run, FUSION, FUNCTION, GATED, BIAS, OFFSET, TE) and stated(run, FUSION, False):
            yield from self._bias(run, function(run))
        if touched(run, RESIDUAL, NORM) and stated(run, RESIDUAL, False) and stated(run, NORM) != "RMSNorm":
            yield self._refuse(run, RESIDUAL, "is for RMSNorm", f"found normalization {_shown(run.value(NORM))}", (NORM,))
        if touched(run, TE, FUNCTION) and stated(run, TE, False) and function(run) not in ENGINE:
            yield self._refuse(run, TE, f"takes {words(ENGINE, 'or')}", self._found(run), (FUNCTION,))
        if touched(run, STORE, FUNCTION, GATED) and stated(run, STORE, False):
            if function(run) != SILU or not stated(run, GATED):
                found = self._found(run) if function(run) != SILU else "gated_linear_unit is off"
                yield self._refuse(run, STORE, "is for gated silu (SwiGLU)", found, (FUNCTION, GATED))

    def _bias(self, run: Run, name: str) -> Iterator[Finding]:
        if name not in FUSED:
            yield self._refuse(run, FUSION, f"takes {words(FUSED, 'or')}", self._found(run), (FUNCTION,))
        elif name in (GELU, QUICK_GELU) and not stated(run, GATED):
            if name == QUICK_GELU:
                yield self._refuse(run, FUSION, "takes quick_gelu only gated", "gated_linear_unit is off", (FUNCTION, GATED))
            elif not stated(run, BIAS):
                found = "gated_linear_unit and add_bias_linear are off"
                yield self._refuse(run, FUSION, "with gelu needs a gate or a bias", found, (FUNCTION, GATED, BIAS))
        if name != QUICK_GELU and stated(run, OFFSET, 0.0) != 0.0:
            found = f"found glu_linear_offset {_shown(run.value(OFFSET))}"
            yield self._refuse(run, FUSION, "shifts the gate only for quick_gelu", found, (OFFSET, FUNCTION))
        if stated(run, TE, False):
            yield self._refuse(run, FUSION, "excludes use_te_activation_func", "both are on", (TE,))

    @staticmethod
    def _found(run: Run) -> str:
        setting = _written(run)
        if setting is not None:
            return f"found activation_func {_shown(setting.value)}"
        held = _inherited(run) or ""
        return f"found {held.removeprefix('<callable ').removesuffix('>')}"

    def _refuse(self, run: Run, switch: str, rule: str, found: str, related: tuple[str, ...]) -> Finding:
        name = switch.rpartition(".")[2]
        place = switch if run.wrote(switch) else next((key for key in related if run.wrote(key)), switch)
        return self.finding(
            run,
            REJECTED,
            place,
            f"{name} {rule}; {found}",
            why="There is no kernel for the combination.",
            related=(switch, *related),
            fix=self._fix(run, switch, related),
        )

    @staticmethod
    def _fix(run: Run, switch: str, related: tuple[str, ...]) -> Fix:
        """The switch off, unless a value of null would then break the model."""
        if FUNCTION in related and run.wrote(FUNCTION) and run.value(FUNCTION) is None:
            return Fix("activation_func: a name")
        if OFFSET in related and run.value(OFFSET) is None:
            return Fix("glu_linear_offset: 0.0", set_to(run, (OFFSET, 0.0)))
        return Fix(f"{switch.rpartition('.')[2]}: false", set_to(run, (switch, False)), safe=switch != STORE)


def _shown(value: Any) -> str:
    if isinstance(value, Object):
        return value.target or "a mapping"
    return in_yaml(value)


RULES: tuple[Rule, ...] = (UnknownFunction(), Fusions())
