"""Switches of attention that the start-up checks: layers without rotary embeddings, FlashAttention's version, output gates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mbpack.config.run import Run
from mbpack.config.settings import Object, Origin, Unknown
from mbpack.facts.attention import FLASH_VERSIONS, INVARIANT_VERSIONS
from mbpack.facts.releases import R06
from mbpack.facts.schema import Opaque
from mbpack.rules.base import REJECTED, Finding, Fix, RejectingRule, Rule, set_to, words
from mbpack.rules.parallel.stage_counts import LAYERS, layers_of, need_layers
from mbpack.rules.stated import stated, touched

NO_ROPE, FLASH_DECODE = "model.no_rope_freq", "model.flash_decode"
INVARIANT, VERSION = "model.batch_invariant_mode", "model.flash_attention_version"
BACKEND, CP, DROPOUT = "model.attention_backend", "model.context_parallel_size", "model.attention_dropout"
FUSED_ROPE, GATE = "model.fused_single_qkv_rope", "model.attention_output_gate"
ENUM = "AttnBackend"


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


class BatchInvariant(RejectingRule):
    """Batch invariant mode runs on FlashAttention; from 0.6 on in a version that is named, without context parallelism or dropout.

    The backend must arrive as a member of `AttnBackend`: the text `flash` is not one. `flash_attention_version` (0.6 and
    later) is 2, 3 or 4; the mode needs 3 or 4, whose kernels always split the work in the same way.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {batch_invariant_mode: true, attention_backend: flash, flash_attention_version: 3}
    ```
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {flash_attention_version: 1}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model:
      batch_invariant_mode: true
      attention_backend: {_target_: megatron.core.transformer.enums.AttnBackend, _call_: true, _args_: [1]}
      flash_attention_version: 3
    ```

    ## Upstream
    - 0.3 to 0.6: Megatron-Core `transformer_config.py`, `TransformerConfig.__post_init__`
    """

    code, slug = "ATN107", "attn/batch-invariant"

    def check(self, run: Run) -> Iterator[Finding]:
        if not touched(run, INVARIANT, VERSION):
            return
        versioned = run.release >= R06
        version = run.value(VERSION) if versioned else None
        if version is not None and version not in FLASH_VERSIONS:
            message = f"flash_attention_version must be {words(FLASH_VERSIONS, 'or')}, found {version}"
            fix = Fix("flash_attention_version: null, to take what is installed", set_to(run, (VERSION, None)))
            yield self.finding(run, REJECTED, VERSION, message, fix=fix)
        if not run.flag(INVARIANT):
            return
        if not _is_flash(run):
            yield self._refuse(run, BACKEND, "batch_invariant_mode needs attention_backend flash, a member of AttnBackend")
        if not versioned:
            return
        if version not in INVARIANT_VERSIONS:
            found = "none is named" if version is None else f"found {version}"
            message = f"batch_invariant_mode needs flash_attention_version {words(INVARIANT_VERSIONS, 'or')}, {found}"
            yield self._refuse(run, VERSION, message)
        if run.cp != 1:
            yield self._refuse(run, CP, f"batch_invariant_mode does not run with context parallel {run.cp}")
        dropout = stated(run, DROPOUT)
        if dropout != 0.0:
            yield self._refuse(run, DROPOUT, f"batch_invariant_mode needs attention_dropout 0.0, found {dropout}")

    def _refuse(self, run: Run, key: str, message: str) -> Finding:
        return self.finding(
            run,
            REJECTED,
            key if run.wrote(key) else INVARIANT,
            message,
            why="The mode gives every row the same result whatever stands beside it, which other kernels do not promise.",
            related=(INVARIANT, key),
            fix=Fix("batch_invariant_mode: false", set_to(run, (INVARIANT, False))),
        )


def _is_flash(run: Run) -> bool:
    """Whether the attention backend is the enum's member ``flash``: the class's own, or written by its number or its name."""
    setting = run.setting(BACKEND)
    value = _class_default(run) if setting.origin is Origin.DEFAULT else setting.value
    if isinstance(value, Opaque):
        return value.text == f"<enum {ENUM}.flash>"
    if not isinstance(value, Object):
        return False
    if value.call:
        return value.name == ENUM and value.args == (run.settings.schema.enums[ENUM]["flash"],)
    return str(value.target).endswith(f".{ENUM}.flash")


def _class_default(run: Run) -> Any:
    """The backend of the model's class; classes whose settings are in an object of their own leave it open."""
    field = (run.settings.schema.fields(run.model_class) or {}).get("attention_backend")
    return None if field is None else field.default


class GatedRope(RejectingRule):
    """The fused rotary embedding of queries, keys and values does not know attention with an output gate.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_next_80b_a3b_sft_config gpus=64 launcher=script
    model: {fused_single_qkv_rope: true}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {fused_single_qkv_rope: true}
    dataset: {enable_offline_packing: false, offline_packing_specs: null}
    ```

    ## Upstream
    - 0.3 to 0.6: Megatron-Core `transformer_config.py`, `TransformerConfig.__post_init__`
    """

    code, slug = "ATN108", "attn/gated-rope"

    def check(self, run: Run) -> Iterator[Finding]:
        if not touched(run, FUSED_ROPE, GATE):
            return
        if run.flag(FUSED_ROPE) and run.flag(GATE):
            yield self.finding(
                run,
                REJECTED,
                FUSED_ROPE if run.wrote(FUSED_ROPE) else GATE,
                "fused_single_qkv_rope does not go with attention_output_gate",
                why="The queries then hold the gate as well, which the fused kernel would rotate with them.",
                related=(FUSED_ROPE, GATE),
                fix=Fix("fused_single_qkv_rope: false", set_to(run, (FUSED_ROPE, False)), safe=True),
            )


RULES: tuple[Rule, ...] = (NoRope(), BatchInvariant(), GatedRope())
