"""What Python itself refuses while a program puts its configuration together."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.document import Item
from mbpack.config.run import Run
from mbpack.config.settings import ABSENT, Layer, Object, Setting, Unknown
from mbpack.config.unknown_keys import UnknownKey, unknown_keys
from mbpack.facts.keys import SPECS, canonical_name, path_in
from mbpack.rules.base import REJECTED_LOAD, Finding, Fix, RejectingRule, Rule, in_yaml


def told(run: Run, key: UnknownKey) -> bool:
    """Whether a rule of this module says that a key does not exist."""
    return _is_argument(key) or ("." not in key.path and _only_entered(run, key.setting))


def _is_argument(key: UnknownKey) -> bool:
    """Whether a key is written as the argument of a constructor: an attribute has a dot before it, a name in quotes may be both."""
    item, document = key.setting.item, key.setting.document
    if not key.in_target or item is None or item.key is None or document is None:
        return False
    start = item.key.start
    return document.text[start : start + 1].isidentifier() and document.text[start - 1 : start] != "."


def _only_entered(run: Run, setting: Setting) -> bool:
    """Whether a section was not assigned: the program goes through it to an attribute of what is there."""
    parts = tuple(setting.key.split("."))
    item = setting.item
    if item is None or item.value.__class__ is not dict or "_target_" in item.value:
        return False
    document = setting.document
    return document is not None and parts not in document.made and parts not in document.opaque


class UnknownArgument(RejectingRule):
    """A constructor gets an argument that its class does not have.

    Where a file is merged, an unknown key is dropped with a log line. A call in Python stops the program with a TypeError.

    ## Bad
    ```python
    # mbpack: bridge=0.6 gpus=8
    from megatron.bridge.data.packing.config import PackedSequenceSpecs
    from megatron.bridge.recipes.llama import llama3_8b_sft_config

    cfg = llama3_8b_sft_config()
    cfg.dataset.offline_packing_specs = PackedSequenceSpecs(packed_sequence_size=4096, pad_to_multiple=1)
    ```

    ## Good
    ```python
    # mbpack: bridge=0.6 gpus=8
    from megatron.bridge.data.packing.config import PackedSequenceSpecs
    from megatron.bridge.recipes.llama import llama3_8b_sft_config

    cfg = llama3_8b_sft_config()
    cfg.dataset.offline_packing_specs = PackedSequenceSpecs(packed_sequence_size=4096, pad_seq_to_mult=1)
    ```

    ## Upstream
    - all releases: the constructors of the dataclasses (TypeError)
    """

    code, slug = "CFG140", "cfg/unknown-argument"

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.settings.python:
            return
        for key in unknown_keys(run.settings):
            if _is_argument(key):
                name = key.path.rpartition(".")[2]
                near = _near(name, key.known)
                yield self.finding(
                    run,
                    REJECTED_LOAD,
                    key.path,
                    f"{key.owner} takes no argument {name} in {run.release}: the program stops with a TypeError",
                    setting=key.setting,
                    on_key=True,
                    caret=f"did you mean {near}?" if near else "",
                    fix=Fix(f"{near}=..." if near else f"no {name}"),
                    station="load",
                )


class AttributeOfNothing(RejectingRule):
    """An attribute is set on something that is no object: null, a text, or a section that does not exist.

    In a file such a mapping takes the place of what is there. In Python the assignment stops the program with an
    AttributeError, because `cfg.a.b = 1` asks `cfg.a` first.

    ## Bad
    ```python
    # mbpack: bridge=0.6 gpus=8
    from megatron.bridge.recipes.llama import llama3_8b_sft_config

    cfg = llama3_8b_sft_config()
    cfg.peft.dim = 32
    ```

    ## Good
    ```python
    # mbpack: bridge=0.6 gpus=8
    from megatron.bridge.peft.lora import LoRA
    from megatron.bridge.recipes.llama import llama3_8b_sft_config

    cfg = llama3_8b_sft_config()
    cfg.peft = LoRA(dim=32)
    cfg.checkpoint.pretrained_checkpoint = "checkpoints/llama3-8b"
    ```

    ## Upstream
    - all releases: Python (AttributeError)
    """

    code, slug = "CFG141", "cfg/attribute-of-nothing"

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.settings.python or not run.settings.base_known:
            return
        first = next((layer for layer in reversed(run.settings.layers) if layer.document.language == "python"), None)
        if first is not None and isinstance(first.root.value, dict):
            for name, item in first.root.value.items():
                yield from self._entered(run, first, (str(name),), item)

    def _entered(self, run: Run, layer: Layer, path: tuple[str, ...], item: Item) -> Iterator[Finding]:
        if item.value.__class__ is not dict:
            return
        setting = Setting(".".join(path), item.value, layer.origin, item, layer.document)
        if not _only_entered(run, setting):
            return
        try:
            held = run.settings.fallback(*_asked(run, path))
        except Unknown:
            return
        if not held.likely and not isinstance(held.value, (Object, dict)):
            yield self._say(run, setting, held)
            return
        for name, child in item.value.items():
            yield from self._entered(run, layer, (*path, str(name)), child)

    def _say(self, run: Run, setting: Setting, held: Setting) -> Finding:
        child = next(iter(setting.item.value)) if setting.item is not None else ""
        what = "does not exist" if held.value is ABSENT else f"is {in_yaml(held.value)}"
        base = run.settings.recipe.name if run.settings.recipe is not None else "the class"
        specs = setting.key == path_in(run.release, SPECS)
        if held.value is ABSENT:
            fix = Fix("the section or object that has this attribute")
        else:
            fix = Fix(
                f"assign an object first, such as {setting.key} = {'PackedSequenceSpecs' if specs else 'SomeConfig'}({child}=...)"
            )
        return self.finding(
            run,
            REJECTED_LOAD,
            setting.key,
            f"{setting.key} {what} in {base}: setting {child} on it stops the program with an AttributeError",
            setting=setting,
            on_key=True,
            fix=fix,
            station="load",
        )


def _asked(run: Run, path: tuple[str, ...]) -> tuple[str, tuple[str, ...], str]:
    written = ".".join(path)
    canonical = canonical_name(run.release, written)
    return canonical, path, canonical


def _near(name: str, known: tuple[str, ...]) -> str:
    from difflib import get_close_matches

    return next(iter(get_close_matches(name, known, n=1, cutoff=0.7)), "")


RULES: tuple[Rule, ...] = (UnknownArgument(), AttributeOfNothing())
