"""Adapters that cannot be made as they are described."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.document import Interpolation
from mbpack.config.run import Run
from mbpack.rules.base import IGNORED, REJECTED_LOAD, Finding, Fix, RejectingRule, Rule, built_at, set_to

POSITION, TARGETS = "peft.dropout_position", "peft.target_modules"
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
    # mbpack: bridge=0.6 recipe=llama3_8b_peft_config gpus=8 launcher=script
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
            for target in targets if isinstance(targets, list) else ():
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


RULES: tuple[Rule, ...] = (Adapter(),)
