"""Pages of `mbpack explain` about model families, derived numbers and groups of rules."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable, Iterator
from types import CodeType, FunctionType

from mbpack.facts import families, formulas, upstream_tests
from mbpack.facts.derivations import MEANINGS
from mbpack.facts.modes import ENERGON, GLOBAL_BATCH, IN_BATCH, MODES, NONE, OFFLINE
from mbpack.facts.pitfalls import PITFALLS
from mbpack.facts.releases import DEFAULT, RELEASES, Release
from mbpack.facts.schema import NO_DEFAULT, Field, Opaque, classes_with, schema
from mbpack.report.style import Style
from mbpack.rules.base import Rule
from mbpack.rules.catalogue import ALL_RULES, BY_NAME
from mbpack.rules.documentation import page_of
from mbpack.rules.worded import Worded

_SAID = {families.OK: "works", families.OPTED_OUT: "not offered", families.REFUSED: "refused"}

#: Classes that most runs use, of those that share a field.
_USUAL = ("GPTModelProvider", "GPTSFTDatasetConfig", "FinetuningDatasetConfig")

#: Parts of slugs that tell which packing mode, or context parallelism, a rule is about.
FEATURES = {
    OFFLINE.name: ("batch/offline", "data/", "align/"),
    IN_BATCH.name: ("inbatch",),
    ENERGON.name: ("nrg/",),
    GLOBAL_BATCH.name: ("gbp/", "dcp/"),
    upstream_tests.CONTEXT_PARALLEL: ("cp/",),
}


def concerned(rule: Rule, marks: Iterable[str]) -> bool:
    """Whether a rule is about a feature of :data:`FEATURES`: by its slug, or by its topic where the slug is named otherwise."""
    return any(mark in rule.slug or mark == f"{rule.topic}/" for mark in marks)


#: Derived numbers: what each is, an example computed as everywhere else, and the flags of `explain` that compute it.
_NUMBERS = {
    "data_parallel_size": (
        "The number of model replicas: what is left of the GPUs after tensor, pipeline and context parallelism.",
        formulas.data_parallel_size(16, 4, 1, 2),
        "--gpus 16 --tp 4 --cp 2",
    ),
    "num_microbatches": (
        "The microbatches every data parallel rank works through in one step.",
        formulas.num_microbatches(8, 1, 2),
        "--gbs 8 --mbs 1 --dp 2",
    ),
    "token_slots_per_step": (
        "The tokens that fit the rows of one step, padding included. Keep it when the pack length changes.",
        formulas.token_slots(8192, 8),
        "--seq-length 8192 --gbs 8",
    ),
    "collate_alignment": (
        "The multiple that packing in the collate function or the Energon loader pads every sample to.",
        formulas.pad_multiple(4, 2, True),
        "",
    ),
    "pack_capacity": (
        "The tokens that one pack may hold.",
        formulas.pack_capacity(4096, 2),
        "--max-seqlen-per-dp-cp-rank 4096 --cp 2",
    ),
}


def names() -> Iterator[str]:
    """Everything that has a page here."""
    yield from (family.name for family in families.FAMILIES)
    yield from _NUMBERS
    yield from dict.fromkeys(rule.topic for rule in ALL_RULES)


def family_page(topic: str, style: Style) -> list[str] | None:
    """Which packing mode works for a family, release by release, and its recipes in the newest one."""
    name = topic.lower().replace("-", "_").replace(".", "")
    found = next((family for family in families.FAMILIES if name == family.name), None)
    if found is None:
        return None
    lines = [style.paint("bold", f"{found.name}: {found.title}"), f"{found.modality} models", ""]
    offered = [release for release in RELEASES if families.recipes_of(release.name, found.name)]
    if offered:
        lines.append("Recipes in " + ", ".join(release.name for release in offered))
    slugs: list[str] = []
    for mode in MODES.values():
        if mode is NONE:
            continue
        lines.append(f"{mode.title}")
        for first, last, said, slug in _spans(found.name, mode.name):
            span = str(first) if first is last else f"{first} to {last}"
            lines += style.wrap(said, f"  {span:<16} ", " " * 19)
            slugs += [slug] if slug else []
    rules = [BY_NAME[slug] for slug in dict.fromkeys(slugs) if slug in BY_NAME]
    if rules:
        lines += ["", style.paint("bold", "Rules")]
        for rule in rules:
            lines += style.wrap(page_of(rule).title, f"  {rule.code}  ", "          ")
    recipes = [name for name in families.recipes_of(DEFAULT.name, found.name) if families.workload(name) != "pretrain"]
    if recipes:
        lines += ["", style.paint("bold", f"Fine-tuning recipes in {DEFAULT}"), *(f"  {name}" for name in recipes)]
    return lines


def _spans(family: str, mode: str) -> Iterator[tuple[Release, Release, str, str | None]]:
    """Runs of releases about which the same is to be said: first, last, the words, the rule."""
    current: tuple[Release, Release, str, str | None] | None = None
    for release in RELEASES:
        if release < MODES[mode].since:
            continue
        support = families.support(release, family, mode)
        said = _SAID[support.verdict] + (f": {support.reason}" if support.reason else "")
        if current is not None and current[2] == said:
            current = (current[0], release, said, current[3])
            continue
        if current is not None:
            yield current
        current = (release, release, said, support.slug)
    if current is not None:
        yield current


def number_page(topic: str, style: Style) -> list[str] | None:
    """What a derived number is, with an example."""
    entry = _NUMBERS.get(topic.lower().replace("-", "_"))
    if entry is None:
        return None
    text, example, flags = entry
    name = topic.lower().replace("-", "_")
    lines = [style.paint("bold", name), "", *style.wrap(text, "", ""), *style.wrap(f"For example {example}.", "", "")]
    if flags:
        lines += ["", f"Yours: mbpack explain {name} {flags}"]
    return lines


def topic_page(topic: str, style: Style) -> list[str] | None:
    """The rules of a group, as --select takes it."""
    rules = sorted((rule for rule in ALL_RULES if rule.topic == topic.lower().rstrip("/")), key=lambda rule: rule.code)
    if not rules:
        return None
    lines = [style.paint("bold", f"{rules[0].topic}: {len(rules)} rule{'' if len(rules) == 1 else 's'}")]
    for rule in rules:
        lines += style.wrap(page_of(rule).title, f"  {rule.code}  ", "          ")
    return lines


def usual_field(release: Release, path: str) -> tuple[str, Field] | None:
    """The class that most runs use of those that have a key, spelled as the release spells it, and the field there."""
    known = schema(release.name)
    section, _, name = path.rpartition(".")
    if "." in section:
        owners = classes_with(release.name, "nested", name)
    elif section in ("model", "dataset"):
        owners = classes_with(release.name, section, name)
    else:
        owners = [owner] if (owner := known.section_class(section)) is not None else []
    owner = next((one for one in _USUAL if one in owners), owners[0] if owners else None)
    field = (known.fields(owner) or {}).get(name) if owner is not None else None
    return (owner, field) if owner is not None and field is not None else None


def field_lines(key: str, style: Style) -> list[str]:
    """Type and default of a configuration field, in the release that is assumed or the newest that has it."""
    for release in (DEFAULT, *reversed(RELEASES)):
        found = usual_field(release, key)
        if found is not None:
            owner, field = found
            return style.wrap(f"{field.type}, {default_words(field.default)} ({owner}, {release})", "Field      ", "           ")
    return []


def default_words(value: object) -> str:
    """A default as words."""
    if value is NO_DEFAULT:
        return "no default"
    if isinstance(value, Opaque):
        return f"default {value.text}"
    return "default " + ("null" if value is None else str(value).lower() if isinstance(value, bool) else str(value))


#: Keys that rules read through a property of the run.
_PROPERTIES = {
    "mbs": "train.micro_batch_size",
    "gbs": "train.global_batch_size",
    "tp": "model.tensor_model_parallel_size",
    "pp": "model.pipeline_model_parallel_size",
    "vpp": "model.virtual_pipeline_model_parallel_size",
    "cp": "model.context_parallel_size",
    "ep": "model.expert_model_parallel_size",
    "etp": "model.expert_tensor_parallel_size",
    "sp_asked": "model.sequence_parallel",
    "sp": "model.sequence_parallel",
    "eval_cp": "dist.eval_context_parallel_size",
    "eval_mbs": "validation.eval_micro_batch_size",
    "eval_gbs": "validation.eval_global_batch_size",
    "pack_size": "dataset.offline_packing_specs.packed_sequence_size",
    "in_batch": "dataset.enable_in_batch_packing",
    "global_batch": "dataset.enable_global_batch_packing",
}


@functools.cache
def keys_read(rule: Rule) -> frozenset[str]:
    """The keys that stand in a rule's code: by literal, by the name of a constant, or as a property of the run."""
    if isinstance(rule, Worded):
        return frozenset(rule.whole(key) for said in rule.checks.values() for key in said.at.split())
    code = [value.__code__ for value in vars(type(rule)).values() if isinstance(value, FunctionType)]
    code += [value.__func__.__code__ for value in vars(type(rule)).values() if isinstance(value, staticmethod)]
    names = vars(sys.modules[type(rule).__module__])
    found: set[str] = set()
    while code:
        one = code.pop()
        found.update(_PROPERTIES[name] for name in one.co_names if name in _PROPERTIES)
        code += [value for value in one.co_consts if isinstance(value, CodeType)]  # comprehensions
        for value in (*one.co_consts, *(names.get(name) for name in one.co_names)):
            if isinstance(value, str):
                found.add(value)
            elif isinstance(value, tuple):
                found.update(part for part in value if isinstance(part, str))
    return frozenset(found)


def meaning_lines(key: str, style: Style) -> list[str]:
    """What a key is, in a sentence."""
    meaning = MEANINGS.get(key)
    return style.wrap(meaning.text, "", "") if meaning is not None else []


def setter_lines(key: str, style: Style) -> list[str]:
    """Who derives or replaces a key's value, by release."""
    meaning = MEANINGS.get(key)
    if meaning is None:
        return []
    lines = [style.paint("bold", "Set by")]
    for setter in meaning.setters:
        who = setter.who if setter.who == "nobody" and not setter.since else f"{setter.who}, {setter.span}"
        lines += style.wrap(f"{who}: {setter.what}", "  ", "    ")
    return [*lines, ""]


def pitfall_lines(key: str, style: Style) -> list[str]:
    """The pitfalls that speak of a key."""
    name = key.rpartition(".")[2]
    about = [pitfall for pitfall in PITFALLS if name in f"{pitfall.title} {pitfall.text}"]
    lines: list[str] = []
    for pitfall in about:
        lines += style.wrap(pitfall.title, f"  {pitfall.number:>2}  ", "      ")
    return [style.paint("bold", "Pitfalls"), *lines, ""] if lines else []


def tests_of(rule: Rule) -> list[str]:
    """Upstream's own tests of what a rule is about, as commands for a checkout of the release that has them."""
    feature = next((feature for feature, marks in FEATURES.items() if concerned(rule, marks)), None)
    if feature is None:
        return []
    for release in (DEFAULT, *reversed(RELEASES)):
        found = [one.command for one in upstream_tests.commands(release.name, {feature}) if one.gpus == 0]
        if found:
            return [f"(Megatron-Bridge {release}, in its checkout)", *found]
    return []
