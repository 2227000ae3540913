"""Overrides about data on every recipe, moved to another release and back: rows for the judges.

Each recipe of a release that both releases have gets an override for every way to name data; what `mbpack migrate` makes of it
there, and what it makes of that on the way back, are rows of their release. All must start up where the first one does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from mbpack.config.document import parse
from mbpack.engine.doctor import examine
from mbpack.facts import recipes
from mbpack.facts.recipes import Recipe
from mbpack.fix.migrate import migrate
from mbpack.fix.state import State

ROUTES = (("0.5", "0.6"), ("0.6", "0.5"), ("0.4", "0.5"), ("0.5", "0.4"))
KINDS = ("HFDatasetConfig", "FinetuningDatasetConfig", "GPTSFTDatasetConfig")
_LOCAL_CLASS = "megatron.bridge.training.config.FinetuningDatasetConfig"
_SPECS_CLASS = "megatron.bridge.data.datasets.packed_sequence.PackedSequenceSpecs"

HUB = {
    "squad": "dataset:\n  dataset_name: rajpurkar/squad\n",
    "chat": "dataset:\n  dataset_name: HuggingFaceH4/ultrachat_200k\n",
    "gsm8k": "dataset:\n  dataset_name: openai/gsm8k\n  dataset_subset: main\n",
    "socratic": "dataset:\n  dataset_name: openai/gsm8k\n  dataset_subset: socratic\n  split: train\n",
    "math": "dataset:\n  dataset_name: nvidia/OpenMathInstruct-2\n  split: train_2M\n",
}
SOURCES = {
    "preset": "dataset:\n  hf_dataset: {dataset_name: squad}\n",
    "path": "dataset:\n  hf_dataset: {dataset_name: null, path_or_dataset: HuggingFaceH4/ultrachat_200k}\n",
    "files": "dataset:\n  dataset_root: /data/sft\n  hf_dataset: null\n  hf_validation_proportion: null\n",
}


class Trip(NamedTuple):
    """One override at its start, in the other release, and back; with what is needed to judge it."""

    name: str
    recipe: str
    gpus: int
    source: str
    target: str
    start: str
    there: str
    back: str


def trips(source: str, target: str, every: int = 1) -> Iterator[Trip]:
    """The trips of every ``every``-th recipe that both releases have."""
    both = sorted({*recipes.names(source), *recipes.names(target)})  # names of one release may live on as others in the next
    for number, name in enumerate(both):
        recipe = recipes.find(source, name)
        if number % every or recipe is None or recipe.unavailable or recipe.perf or recipe.dataset_class not in KINDS:
            continue
        if recipes.find(target, name) is None:
            continue
        gpus = _gpus(source, recipe)
        for kind, body in _overrides(recipe, source).items():
            head = f"# mbpack: bridge={source} recipe={name} gpus={gpus} launcher=script\n"
            start = f"{head}checkpoint: {{pretrained_checkpoint: /checkpoints/base}}\n{body}"
            there = _moved(start, target)
            yield Trip(f"{source}-{target}-{name}-{kind}", name, gpus, source, target, start, there, _moved(there, source))


def rows(trip: Trip) -> Iterator[tuple[str, dict[str, Any]]]:
    """The release and the row of each of the three files."""
    for release, text, place in (
        (trip.source, trip.start, "start"),
        (trip.target, trip.there, "there"),
        (trip.source, trip.back, "back"),
    ):
        row = {"id": f"{trip.name}-{place}", "release": release, "recipe": trip.recipe, "gpus": trip.gpus}
        yield release, row | {"launcher": "script", "yaml": text, "expect": "accepted", "check": None, "derived": {}}


def _overrides(recipe: Recipe, source: str) -> dict[str, str]:
    if source == "0.6":
        return SOURCES
    if recipe.dataset_class == "HFDatasetConfig":
        return HUB | {"files": _files(recipe)}
    return {"files": "dataset: {dataset_root: /data/sft}\n"}


def _files(recipe: Recipe) -> str:
    """Local data on a recipe that reads the hub: another class, with all that it needs."""
    length = recipe.value("dataset.seq_length") or 4096
    text = f"dataset:\n  _target_: {_LOCAL_CLASS}\n  dataset_root: /data/sft\n  seq_length: {length}\n"
    size = recipe.value("dataset.offline_packing_specs.packed_sequence_size")
    if not isinstance(size, int) or size <= 0:
        return text
    multiple = recipe.value("dataset.offline_packing_specs.pad_seq_to_mult")
    specs = f"_target_: {_SPECS_CLASS}, packed_sequence_size: {size}"
    specs += f", pad_seq_to_mult: {multiple}" if isinstance(multiple, int) else ""
    return f"{text}  packed_sequence_specs: {{{specs}}}\n"


def _moved(text: str, release: str) -> str:
    return migrate(State((parse(text),)), release).state.documents[0].text


def _gpus(release: str, recipe: Recipe) -> int:
    """The fewest GPUs on which the recipe alone starts up, as far as mbpack knows."""
    for gpus in (recipe.gpus or 8, 8, 16, 32, 64, 128, 256, 512):
        head = f"# mbpack: bridge={release} recipe={recipe.name} gpus={gpus} launcher=script\n"
        if examine([parse(f"{head}checkpoint: {{pretrained_checkpoint: /checkpoints/base}}\n")]).verdict != "rejected":
            return gpus
    return 512
