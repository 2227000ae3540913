"""Adapters that cannot be made as they are described, and adapters of recipes that cannot be exchanged."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.document import MISSING, Interpolation
from mbpack.config.run import Run
from mbpack.config.settings import Setting, walk
from mbpack.facts.keys import ADAPTER
from mbpack.facts.launchers import scheme_flags
from mbpack.facts.releases import R05
from mbpack.rules.base import (
    IGNORED,
    REJECTED_LOAD,
    Edit,
    Finding,
    Fix,
    RejectingRule,
    Rule,
    built_at,
    in_yaml,
    is_number,
    set_to,
    words,
)

POSITION, TARGETS, MAPPING = "peft.dropout_position", "peft.target_modules", "peft.canonical_mapping"
#: Fused layers, and the parts that Canonical LoRA adapts instead.
PARTS = {
    "linear_qkv": ("linear_q", "linear_k", "linear_v"),
    "linear_fc1": ("linear_fc1_up", "linear_fc1_gate"),
}


class Adapter(RejectingRule):
    """DoRA drops out before the adapter only, and Canonical LoRA adapts the parts of fused layers.

    DoRA refuses `dropout_position: post`. Canonical LoRA refuses `linear_qkv` and `linear_fc1`, whose parts it adapts one by
    one. A complete file is then refused; in an override the object is not made: its keys are set one by one on the recipe's
    adapter, and another method is trained.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_peft_config gpus=8 launcher=script
    peft: {_target_: megatron.bridge.peft.dora.DoRA, dropout_position: post}
    checkpoint: {pretrained_checkpoint: checkpoints/llama3-8b}
    ```
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_peft_config gpus=8 launcher=script
    peft: {_target_: megatron.bridge.peft.canonical_lora.CanonicalLoRA, target_modules: [linear_qkv, linear_proj]}
    checkpoint: {pretrained_checkpoint: checkpoints/llama3-8b}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    peft: {_target_: megatron.bridge.peft.canonical_lora.CanonicalLoRA, target_modules: [linear_q, linear_k, linear_v, linear_proj]}
    checkpoint: {pretrained_checkpoint: checkpoints/llama3-8b}
    ```

    ## Upstream
    - all releases: `peft/dora.py`, `DoRA.__post_init__`; `peft/canonical_lora.py`, `CanonicalLoRA.__post_init__`
    """

    code, slug = "PFT102", "peft/adapter"

    def check(self, run: Run) -> Iterator[Finding]:
        cls = run.settings.class_at("peft")
        if cls == "DoRA":
            position = run.value(POSITION)
            if position != "pre":
                message = f"DoRA drops out before the adapter only, found dropout_position {position}"
                yield self._refuse(run, POSITION, message, Fix("dropout_position: pre", set_to(run, (POSITION, "pre"))))
        elif cls == "CanonicalLoRA":
            targets = run.value(TARGETS)
            if not targets and (run.release >= R05 or targets is not None):
                return
            if targets is None or is_number(targets):
                fix = Fix("target_modules: a list of names, or no line for it")
                yield self._refuse(run, TARGETS, f"target_modules must be a list of names, found {in_yaml(targets)}", fix)
                return
            if run.wrote(MAPPING):
                fix = Fix("no canonical_mapping", (Edit("delete", MAPPING),))
                yield self._refuse(run, MAPPING, "canonical_mapping is made from target_modules and takes no values", fix)
                return
            for target in targets if isinstance(targets, list) else ():
                if not isinstance(target, str):
                    fix = Fix("target_modules: names of layers")
                    yield self._refuse(
                        run, TARGETS, f"target_modules must be a list of names, found {in_yaml(target)} in it", fix
                    )
                    return
                fused = next((name for name in PARTS if isinstance(target, str) and target.endswith(name)), None)
                if fused is not None and not isinstance(target, Interpolation):
                    yield self._refuse(
                        run, TARGETS, f"Canonical LoRA does not adapt {target} as a whole", self._parts(run, targets)
                    )
                    return

    @staticmethod
    def _parts(run: Run, targets: list[object]) -> Fix:
        """The same targets with every fused layer replaced by its parts."""
        parts: list[object] = []
        for target in targets:
            fused = next((name for name in PARTS if isinstance(target, str) and target.endswith(name)), None)
            parts += [str(target).removesuffix(fused) + part for part in PARTS[fused]] if fused is not None else [target]
        return Fix(f"target_modules: {', '.join(map(str, parts))}", set_to(run, (TARGETS, parts)))

    def _refuse(self, run: Run, key: str, message: str, fix: Fix) -> Finding:
        return self.finding(
            run,
            REJECTED_LOAD if run.complete else IGNORED,
            key,
            message,
            why="" if run.complete else "The adapter is not made: its keys are set one by one on what the recipe holds.",
            related=("peft._target_",),
            fix=fix,
            station="load" if run.complete else "",
            offset=built_at(run, "peft") if run.complete else None,
        )


class KeptAdapter(Rule):
    """The adapter of a recipe cannot be taken away or exchanged by an override; only its fields can be changed.

    Adapters can be called, and overrides leave what can be called out: the recipe's object is put back after them. A field
    alone (`peft: {dim: 64}`) reaches it. With `peft: null` the recipe's adapter is trained all the same, and with a `_target_`
    another object is made, given the values, and dropped.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_peft_config gpus=8 launcher=script
    peft: {_target_: megatron.bridge.peft.lora.LoRA, dim: 64}
    checkpoint: {pretrained_checkpoint: checkpoints/llama3-8b}
    ```
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_peft_config gpus=8 launcher=script
    peft: null
    checkpoint: {pretrained_checkpoint: checkpoints/llama3-8b}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_peft_config gpus=8 launcher=script
    peft: {dim: 64}
    checkpoint: {pretrained_checkpoint: checkpoints/llama3-8b}
    ```
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    peft: {_target_: megatron.bridge.peft.lora.LoRA, dim: 64}
    checkpoint: {pretrained_checkpoint: checkpoints/llama3-8b}
    ```

    ## Upstream
    - all releases: `training/utils/omegaconf_utils.py`, `_is_omegaconf_problematic`, `apply_overrides`, `_restore_excluded_fields`
    """

    code, slug = "PFT103", "peft/kept"
    programs = False

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.settings.keeps_adapter:
            return
        kept = run.value(ADAPTER).name
        for layer in run.settings.layers:
            item = walk(layer.root, (ADAPTER,))
            if item is None or item.value is MISSING:
                continue
            target = run.settings.target_at(ADAPTER)
            if not isinstance(item.value, dict):
                yield self._say(
                    run,
                    Setting(ADAPTER, item.value, layer.origin, item, layer.document),
                    f"peft is {'null' if item.value is None else 'no adapter'} here, and the recipe's {kept} is trained all the same",
                    Fix("a recipe for full fine-tuning, or no peft line", (Edit("delete", ADAPTER),)),
                )
            elif target is not None:
                yield from self._exchanged(run, kept, target, [name for name in item.value if name != "_target_"])
            return

    def _exchanged(self, run: Run, kept: str, target: Setting, fields: list[object]) -> Iterator[Finding]:
        cls = run.settings.schema.class_of(target.value)
        if cls is None or list(ADAPTER_RULE.check(run)):
            return  # the object is not made, and the fields reach the recipe's adapter: other rules say so
        if cls != kept:
            how = " or ".join(scheme_flags(run.release))
            fix = Fix(f"choose it where the recipe is called: {how}, or recipe(peft_scheme=...)")
            yield self._say(run, target, f"the recipe's {kept} is trained, not {cls}", fix)
        elif fields:
            fix = Fix("no _target_: the fields alone reach the recipe's adapter", (Edit("delete", f"{ADAPTER}._target_"),))
            yield self._say(run, target, f"{words(fields)} of peft {'has' if len(fields) == 1 else 'have'} no effect", fix)

    def _say(self, run: Run, setting: Setting, message: str, fix: Fix) -> Finding:
        why = "After the overrides the object that the recipe made is put back in its place."
        return self.finding(run, IGNORED, ADAPTER, message, why=why, setting=setting, fix=fix)


ADAPTER_RULE = Adapter()
RULES: tuple[Rule, ...] = (ADAPTER_RULE, KeptAdapter())
