"""Pages of `mbpack explain` about recipes and adapters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mbpack.facts import recipes
from mbpack.facts.keys import ADAPTER, CP, EP, ETP, PP, SPECS, TP
from mbpack.facts.launchers import scheme_flags
from mbpack.facts.recipes import Recipe
from mbpack.facts.releases import DEFAULT, NIGHTLY, RELEASES
from mbpack.facts.schema import schema
from mbpack.report.style import Style
from mbpack.rules.base import in_yaml, words
from mbpack.rules.catalogue import ALL_RULES
from mbpack.rules.documentation import page_of

#: What a recipe is asked for: the words, and the keys.
_ASKED = (
    ("Parallel", (("TP", TP), ("PP", PP), ("CP", CP), ("EP", EP), ("ETP", ETP))),
    ("Batch", (("micro", "train.micro_batch_size"), ("global", "train.global_batch_size"))),
    ("Length", (("dataset", "dataset.seq_length"), ("pack", f"{SPECS}.packed_sequence_size"))),
)
#: Adapters by the words that people use: the class, and what it does.
_ADAPTERS = {
    "lora": ("LoRA", "Two small matrices beside each adapted linear layer; the base model stays as it is."),
    "dora": ("DoRA", "LoRA whose product scales the direction of the weights, with a magnitude learned beside it."),
    "canonical_lora": ("CanonicalLoRA", "LoRA with adapters of their own for the parts of fused layers: q, k, v, gate and up."),
}
_FIELDS = ("target_modules", "dim", "alpha", "dropout", "dropout_position")


def recipe_page(topic: str, style: Style) -> list[str] | None:
    """What a shipped recipe holds, in the release that is assumed or the newest one that has it; None for other names."""
    published = [release for release in RELEASES if release < NIGHTLY]
    found = {release: recipe for release in published if (recipe := recipes.find(release.name, topic)) is not None}
    if not found:
        return None
    release = DEFAULT if DEFAULT in found else max(found)
    recipe = found[release]
    lines = [style.paint("bold", topic)]
    if recipe.name != topic:
        lines += style.wrap(f"another name of {recipe.name}", "", "")
    lines += ["", *style.wrap(words(str(one) for one in found), "Releases   ", "           ")]
    lines += style.wrap(
        f"{recipe.hf_id or 'not named'} ({recipe.model_class or 'class not known'})", "Model      ", "           "
    )
    for name, keys in _ASKED:
        told = ", ".join(f"{word} {in_yaml(value)}" for word, value in _told(recipe, keys))
        lines += style.wrap(told, f"{name:<11}", "           ") if told else []
    lines += style.wrap(recipe.dataset_class or "class not known", "Dataset    ", "           ")
    adapter = recipe.value(ADAPTER)
    if isinstance(adapter, dict) and "_target_" in adapter:
        lines += style.wrap(str(adapter["_target_"]).rpartition(".")[2], "Adapter    ", "           ")
    return [*lines, "", *style.wrap(f"All of it: mbpack doctor --recipe {topic} --bridge {release} --show-resolved", "", "")]


def _told(recipe: Recipe, keys: tuple[tuple[str, str], ...]) -> Iterator[tuple[str, Any]]:
    for word, key in keys:
        value = recipe.value(key)
        if isinstance(value, (int, str)):
            yield word, value


def adapter_page(topic: str, style: Style) -> list[str] | None:
    """What an adapter is, how it is chosen, its usual fields, and the rules about it; None for other words."""
    name = topic.lower().replace("-", "_")
    if name not in _ADAPTERS:
        return None
    cls, text = _ADAPTERS[name]
    fields = schema(DEFAULT.name).fields(cls) or {}
    chosen = f"a recipe that ends in peft, with {scheme_flags(DEFAULT)[0]} {name} of run_recipe.py"
    if cls == "CanonicalLoRA":  # run_recipe.py makes the other two
        chosen = f"a program that sets cfg.peft = {cls}(...)"
    lines = [style.paint("bold", cls), "", *style.wrap(text, "", ""), ""]
    lines += style.wrap(chosen, "Chosen by  ", "           ")
    for field in _FIELDS:
        if field in fields:
            default = fields[field].default
            shown = f"[{', '.join(default)}]" if isinstance(default, (list, tuple)) else in_yaml(default)
            lines += style.wrap(f"peft.{field}: {shown}", "Default    ", "             ")
    lines += ["", "Rules"]
    for rule in sorted((rule for rule in ALL_RULES if rule.topic == "peft"), key=lambda rule: rule.code):
        lines += style.wrap(page_of(rule).title, f"  {rule.code}  ", "          ")
    return lines
