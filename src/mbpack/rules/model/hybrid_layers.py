"""The pattern that says which layers of a hybrid model are Mamba, attention, MLP or experts, and how many there are."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.run import Run
from mbpack.config.settings import Unknown
from mbpack.facts.hard_blocks import is_hybrid_class
from mbpack.facts.hybrid_patterns import MTP_SEPARATOR, STAGE_SEPARATOR, layers_in, symbols
from mbpack.facts.releases import NIGHTLY, R03, R04, R05
from mbpack.rules.base import CRASH_DATA, REJECTED, Finding, Fix, RejectingRule, Rule, set_to

LAYERS, MTP = "model.num_layers", "model.mtp_num_layers"
OLD, NEW = "model.hybrid_override_pattern", "model.hybrid_layer_pattern"
MTP_PATTERN, REPEATED = "model.mtp_hybrid_override_pattern", "model.mtp_use_repeated_layer"


def has_provider(run: Run) -> bool:
    """Whether the model's class finalises a layer pattern."""
    cls = run.settings.class_at("model")
    return cls is not None and is_hybrid_class(run.settings.schema, cls)


def _layers(run: Run) -> int | float | None:
    """``num_layers``, None too where the recipe takes it from the public model and its data only guess it."""
    layers, setting = run.number(LAYERS), run.settings.peek(LAYERS)
    return None if setting is not None and setting.likely else layers


def _other_number(run: Run, pattern_key: str, layers: int | float, count: int) -> Fix:
    """The number for the pattern where the user wrote the pattern, else the pattern for the number."""
    name, pattern = pattern_key.rpartition(".")[2], run.value(pattern_key)
    if not run.wrote(pattern_key) and isinstance(layers, int) and 0 < layers < count:
        main, separator, rest = pattern.partition(MTP_SEPARATOR)
        shorter = main.replace(STAGE_SEPARATOR, "")[:layers] + separator + rest
        return Fix(f"{name} with {layers} layers, such as {shorter}, or num_layers: {count}", set_to(run, (pattern_key, shorter)))
    if count == 0:
        return Fix(f"{name} with {layers} layers")
    return Fix(f"num_layers: {count}", set_to(run, (LAYERS, count)))


class LayerPattern(RejectingRule):
    """A hybrid model has as many layers as its pattern has letters.

    The start-up counts the letters of `hybrid_layer_pattern` (or of its former name, `hybrid_override_pattern`) up to the first
    slash, without the bars between pipeline stages. `num_layers` must say the same or be null. To train with fewer layers, shorten
    the pattern as well.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=nemotronh_8b_sft_config gpus=8 launcher=script
    model: {num_layers: 4}
    ```
    ```yaml
    # mbpack: bridge=0.6 recipe=nemotronh_8b_sft_config gpus=8 launcher=script
    model: {num_layers: 4, hybrid_layer_pattern: M-MX}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=nemotronh_8b_sft_config gpus=8 launcher=script
    model: {num_layers: 4, hybrid_layer_pattern: M-M*}
    ```

    ## Upstream
    - 0.4, 0.5: `models/mamba/mamba_provider.py`, `MambaModelProvider.finalize`
    - 0.6, 0.7: `models/hybrid/hybrid_provider.py`, `HybridModelProvider.finalize`; Megatron-Core `hybrid_layer_allocation.py`
    """

    code, slug = "SSM103", "ssm/layer-pattern"
    releases = (R04, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        if not has_provider(run):
            return
        old, new = run.value(OLD), run.value(NEW)
        if old is not None and new is not None:
            message = "hybrid_override_pattern and hybrid_layer_pattern cannot both be set"
            why = "The first is the former name of the second."
            yield self.finding(
                run,
                REJECTED,
                OLD,
                message,
                why=why,
                related=(NEW,),
                fix=Fix("hybrid_override_pattern: null", set_to(run, (OLD, None))),
            )
            return
        key, pattern = (NEW, new) if old is None else (OLD, old)
        if pattern is None:
            yield from self._of_the_hub(run, key)
            return
        wrong = self._unreadable(run, key, pattern)
        if wrong is not None:
            yield wrong
            return
        layers, count = _layers(run), layers_in(pattern)
        if layers is not None and layers != count:
            yield self.finding(
                run,
                REJECTED,
                LAYERS,
                f"num_layers is {layers}, {key.rpartition('.')[2]} has {count} layers",
                why="The start-up takes the number from the pattern and refuses another one.",
                related=(key,),
                fix=_other_number(run, key, layers, count),
            )

    def _of_the_hub(self, run: Run, key: str) -> Iterator[Finding]:
        """A recipe whose pattern comes with the public model: it has as many layers as the recipe itself."""
        recipe = run.settings.recipe
        held = (
            recipe.values.get(LAYERS) if recipe is not None and not run.wrote(key) and not run.wrote("model._target_") else None
        )
        layers = run.number(LAYERS)
        if recipe is None or not isinstance(held, int) or not run.wrote(LAYERS) or layers is None or LAYERS not in recipe.likely:
            return
        if LAYERS in recipe.guessed:
            raise Unknown(key, ("value",), "the layer pattern comes with the recipe's public model")
        if layers != held:
            yield self.finding(
                run,
                REJECTED,
                LAYERS,
                f"num_layers is {layers}, the layer pattern of the recipe's public model has {held} layers",
                why="The start-up takes the number from the pattern and refuses another one.",
                fix=Fix(f"{key.rpartition('.')[2]} with {layers} layers beside it, or num_layers: {held}"),
            )

    def _unreadable(self, run: Run, key: str, pattern: object) -> Finding | None:
        """What is wrong with the letters of the pattern and of the MTP block that is put behind it."""
        if not isinstance(pattern, str):
            return self.finding(run, REJECTED, key, f"{key} must be text, found {pattern!r}", fix=Fix("a pattern such as M-M*"))
        parts = [(key, pattern.partition(MTP_SEPARATOR)[0].replace(STAGE_SEPARATOR, ""))]
        block = run.value(MTP_PATTERN)
        if isinstance(block, str) and block and (run.flag(REPEATED) or (run.number(MTP) or 0) > 0):
            parts.append((MTP_PATTERN, block))
        for place, letters in parts:
            known = symbols(run.release)
            strange = next((letter for letter in letters if known and letter not in known), None)
            if strange is not None:
                message = f"{strange!r} in {place.rpartition('.')[2]} is no kind of layer"
                return self.finding(run, REJECTED, place, message, fix=Fix(f"one of {' '.join(known)} for each layer"))
            if run.release >= R05 and "*" in letters and ("D" in letters or "+" in letters):
                message = f"{place.rpartition('.')[2]} mixes attention (*) with latent or sparse attention (+, D)"
                return self.finding(run, REJECTED, place, message, fix=Fix("one kind of attention for all layers"))
        return None


class LayerPatternBuilt(Rule):
    """On 0.3 the pattern of a hybrid model is compared with `num_layers` while the model is built.

    ## Bad
    ```yaml
    # mbpack: bridge=0.3 recipe=nemotronh_8b_sft_config gpus=8 launcher=script
    model: {num_layers: 4}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.3 recipe=nemotronh_8b_sft_config gpus=8 launcher=script
    model: {num_layers: 4, hybrid_override_pattern: M-M*}
    ```

    ## Upstream
    - 0.3: Megatron-Core 0.16 `ssm/mamba_hybrid_layer_allocation.py`, `_allocate_override`
    """

    code, slug = "SSM104", "ssm/layer-pattern-built"
    releases = (R03, R03)

    def check(self, run: Run) -> Iterator[Finding]:
        pattern = run.value(OLD) if has_provider(run) else None
        if not isinstance(pattern, str):
            return
        layers = _layers(run)
        if layers is not None and layers != len(pattern):
            yield self.finding(
                run,
                CRASH_DATA,
                LAYERS,
                f"num_layers is {layers}, hybrid_override_pattern has {len(pattern)} layers",
                why="The start-up accepts it; building the model stops with a ValueError.",
                related=(OLD,),
                fix=_other_number(run, OLD, layers, len(pattern)),
            )


RULES: tuple[Rule, ...] = (LayerPattern(), LayerPatternBuilt())
