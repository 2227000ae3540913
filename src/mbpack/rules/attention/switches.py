"""Switches of attention that the start-up checks: layers without rotary embeddings, FlashAttention's version, output gates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mbpack.config.run import Run
from mbpack.config.settings import Object, Unknown
from mbpack.rules.base import REJECTED, Finding, Fix, RejectingRule, Rule, set_to
from mbpack.rules.parallel.stage_counts import LAYERS, layers_of, need_layers
from mbpack.rules.stated import touched

NO_ROPE, FLASH_DECODE = "model.no_rope_freq", "model.flash_decode"


class NoRope(RejectingRule):
    """Layers without rotary embeddings: a number that divides the layers, or a list with one entry for each.

    With `no_rope_freq: 4` every fourth layer goes without. `flash_decode` does not know such layers.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {no_rope_freq: 5}
    ```
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {no_rope_freq: 4, flash_decode: true}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {no_rope_freq: 4}
    ```

    ## Upstream
    - 0.3 to 0.6: Megatron-Core `transformer_config.py`, `TransformerConfig.__post_init__`
    """

    code, slug = "ATN106", "attn/no-rope"

    def check(self, run: Run) -> Iterator[Finding]:
        if not touched(run, NO_ROPE, FLASH_DECODE, LAYERS):
            return
        frequency = _plain(run.value(NO_ROPE))
        if not frequency:
            return
        if run.flag(FLASH_DECODE):
            fix = Fix("flash_decode: false", set_to(run, (FLASH_DECODE, False)))
            yield self._refuse(run, "flash_decode does not go with no_rope_freq", (FLASH_DECODE,), fix)
        if not run.wrote(NO_ROPE):
            if run.wrote(LAYERS):
                raise Unknown(NO_ROPE, (), "the recipe takes its list from the public model")
            return
        if isinstance(frequency, float):
            message = f"no_rope_freq must be a whole number or a list, found {frequency}"
            yield self._refuse(run, message, (), Fix("a whole number that divides num_layers"))
            return
        layers = layers_of(run)
        if layers is None:
            return
        if isinstance(frequency, int):
            if layers % frequency:
                need_layers(run)
                message = f"{layers} layers cannot be divided by no_rope_freq {frequency}"
                yield self._refuse(run, message, (LAYERS,), Fix(f"no_rope_freq: a number that divides {layers}"))
        elif len(frequency) != layers:
            need_layers(run)
            message = f"no_rope_freq has {len(frequency)} entries for {layers} layers"
            yield self._refuse(run, message, (LAYERS,), Fix(f"no_rope_freq: a list of {layers} entries"))

    def _refuse(self, run: Run, message: str, related: tuple[str, ...], fix: Fix) -> Finding:
        why = "It says for each layer whether its attention uses rotary embeddings."
        key = next((name for name in (NO_ROPE, *related) if run.wrote(name)), NO_ROPE)
        return self.finding(run, REJECTED, key, message, why=why, related=(NO_ROPE, *related), fix=fix)


def _plain(frequency: Any) -> Any:
    """A mapping without a class is judged by its length, like a list; an object of a class is not judged at all."""
    if not isinstance(frequency, Object):
        return frequency
    if frequency.target is not None or frequency.item is None:
        return None
    return list(frequency.item.value)


RULES: tuple[Rule, ...] = (NoRope(),)
