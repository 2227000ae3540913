"""What every recipe function of a release returns, without calling it.

The data lie in `data/recipes-<release>.tsv`, one recipe a line, found by a byte search:

    <name> TAB [parent, [paths taken away ...], [path, value, path, value ...]]

A recipe is stored as its difference to another one, paths as their index in the line `.paths`. They are dotted and
spelled as the release spells them; this module gives them their canonical names. `<path>._target_` says which class
the object at `path` has. "?" after a path marks a value that the recipe does not set but that is inferred, "??" a mere
guess. Paths that start with "@" are about the recipe itself.

0.3 to 0.6 were harvested by calling every recipe of the package (`tools/harvest.py`) and hold all values in which the
returned object differs from the class defaults; 0.7 comes from the development tree and holds the values that matter
for packing, batches and topology (`Recipe.complete` tells which).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from mbpack.facts.keys import RENAMES, path_in
from mbpack.facts.patterns import lazy
from mbpack.facts.releases import RELEASES
from mbpack.facts.schema import NO_DEFAULT, Opaque, decoded, read_data, schema

#: Names of recipes for performance runs (`megatron.bridge.perf_recipes`), of which only those for fine-tuning are held.
#: Endings of a public name that say how the weights were trained on, not which model it is.
_VARIANT = lazy(r"[-_](?:instruct|base|chat|it|hf|pt|bf16|fp8|thinking|\d{4})$", re.IGNORECASE)
PERFORMANCE = lazy(r"_pretrain_\d+gpu_[a-z]+\d+_")


#: What stands for a value that reading could not tell.
UNREAD = {"~": "<unread>"}


#: Recipes of 0.7 and nightly of which only the name is known: they are newer than the recipes that were read.
BY_NAME = frozenset(("qwen3_30b_a3b_pretrain_8gpu_gb200_fp8mx_config", "qwen35_vl_35b_a3b_pretrain_config"))
#: Recipes in the data of 0.7 that came to the main branch after the release.
_NIGHTLY_ONLY = frozenset(("qwen35_text_35b_a3b_sft_8gpu_gb200_bf16_dynamic_cp_config",))


class Recipe(Struct, frozen=True):
    """One recipe function and the configuration it returns.

    `values`: canonical dotted path (0.6 names) -> value. Settings of a nested Megatron-Core config are under
    `model.transformer.`. An object is there twice: whole under its own path, as `{"_target_": import path, ...}`, and
    field by field below it. A path that is missing has the class default when `complete`, else it is not known.
    `likely`: paths whose value the recipe's code does not set: it is inferred from the conversion of the Hugging Face
    configuration, from a public model card, or (0.7) from the same recipe of 0.6. `guessed`: those of them for which
    not even a card was known, so that the value is the default of the model type (layers, heads, widths, experts).
    Sizes that nothing asks for (vocabulary, feed-forward width, rotary base ...) are left out for converted models.
    `unread`: paths whose value the recipe sets and reading its sources could not tell (a learned recipe).
    `gpus`: the GPU count in the recipe's name. `unavailable`: why calling the recipe fails, if it does.
    """

    name: str
    release: str
    module: str | None
    values: Mapping[str, Any]
    likely: frozenset[str]
    guessed: frozenset[str]
    dataset_class: str | None
    model_class: str | None
    hf_id: str | None
    peft: str | None
    gpus: int | None
    perf: bool
    complete: bool
    unavailable: str | None
    unread: frozenset[str] = frozenset()

    def holds(self, path: str) -> bool:
        """Whether the recipe has an object (not null) at a canonical path."""
        value = self.values.get(path)
        return isinstance(value, Mapping) and "_target_" in value

    def value(self, path: str) -> Any:
        """The value at a canonical path: the recipe's own, else the default of its class, else None.

        For what the user may have overridden, ask `Settings` instead.
        """
        for candidate in (path, path.replace("model.", "model.transformer.")):
            if candidate in self.values:
                return self.values[candidate]
        owner, _, field = path.rpartition(".")
        known = schema(self.release)
        cls = {"model": self.model_class, "dataset": self.dataset_class}.get(owner) or known.section_class(owner)
        held = self.values.get(owner)
        if isinstance(held, Mapping) and "_target_" in held:
            cls = known.class_of(held["_target_"])
        for name in filter(None, (cls, known.transformer_class(cls or ""))):
            found = (known.fields(name) or {}).get(field)
            if found is not None and found.default is not NO_DEFAULT:
                return found.default
        return None

    @property
    def gpu(self) -> str | None:
        """The GPU in the recipe's name (a name of `mbpack.facts.gpus`), None when it names none."""
        from mbpack.facts.gpus import gpu_in_recipe

        named = gpu_in_recipe(self.name)
        return named.name if named is not None else None

    @property
    def context(self) -> int | None:
        """Tokens of context its model was trained with, None where that is not known."""
        from mbpack.facts.contexts import context_of

        return context_of(self.hf_id, self.name)

    def is_called(self, name: str) -> bool:
        """Whether this is the recipe of that name."""
        return self.name == name

    def without(self, paths: Collection[str]) -> Recipe:
        """The recipe as far as it is known when what stands at and below some canonical paths is replaced by something else."""
        starts = tuple(f"{path}." for path in paths)
        values = {path: value for path, value in self.values.items() if path not in paths and not path.startswith(starts)}
        return replace(self, values=values, dataset_class=None if "dataset" in paths else self.dataset_class)

    @property
    def spreads_experts(self) -> bool:
        """Whether the recipe itself asks for expert parallelism."""
        return self.values.get("model.expert_model_parallel_size", 1) not in (1, None)

    @property
    def family(self) -> str | None:
        """The slug of the model family (`mbpack.facts.families`), None when it belongs to none."""
        from mbpack.facts import families

        return families.family_name(self.module, self.model_class, self.hf_id)


def _data(release_name: str) -> bytes:
    return _read("0.7" if release_name == "nightly" else release_name)


@functools.cache
def _read(release_name: str) -> bytes:
    return read_data(f"recipes-{release_name}.tsv")


def _body(data: bytes, name: str) -> Any:
    start = data.find(b"\n" + name.encode() + b"\t")
    if start < 0:
        return None
    start = data.index(b"\t", start)
    return decoded(data[start : data.index(b"\n", start)])  # the tab is white space to JSON


@functools.cache
def _aliases(release_name: str) -> Mapping[str, str]:
    found: Mapping[str, str] = _body(_data(release_name), ".aliases")
    return found


@functools.cache
def _paths(release_name: str) -> list[str]:
    found: list[str] = _body(_data(release_name), ".paths")
    return found


def _stored(data: bytes, name: str, paths: list[str]) -> dict[str, Any] | None:
    body = _body(data, name)
    if body is None:
        return None
    parent, gone, changed = body
    values = (_stored(data, parent, paths) or {}) if parent else {}
    for index in gone:
        values.pop(paths[index], None)
    pairs = iter(changed)
    for index in pairs:
        values[paths[index]] = next(pairs)
    return values


@functools.cache
def _renames(release_name: str) -> tuple[tuple[str, str], ...]:
    """(name in this release, canonical name) of the keys that have another name here."""
    release = next(r for r in RELEASES if r.name == release_name)
    return tuple((r.old, r.new) for r in RENAMES if path_in(release, r.new) == r.old)


def _canonical(path: str, renames: Sequence[tuple[str, str]]) -> str:
    for old, new in renames:
        if path == old or path.startswith(old + "."):
            return new + path[len(old) :]
    return path


def _decode(value: Any) -> Any:
    return Opaque(value["~"]) if type(value) is dict and len(value) == 1 and "~" in value else value


@functools.cache
def card_fields() -> frozenset[str]:
    """Fields of a model that the recipe data leave out where the conversion of a public model sets them."""
    return frozenset(read_data("card-fields.txt").decode().split())


@functools.lru_cache(maxsize=64)
def find(release_name: str, name: str) -> Recipe | None:
    """The recipe of that name in "0.3" ... "nightly"; old names are followed. None when the release has none."""
    if not re.fullmatch(r"[\w:]+", name):
        return None
    held = stored(release_name, name) if release_name != "0.7" or name not in _NIGHTLY_ONLY else None
    if held is None:
        current = _aliases(release_name).get(name)
        held = stored(release_name, current) if current else None
        if held is None or current is None:
            return None
        name = current
    return built(name, release_name, held)


def built(name: str, release_name: str, held: Mapping[str, Any]) -> Recipe:
    """A recipe from what is stored of it: values by the paths of its release, "@" keys about the recipe itself."""
    renames = _renames(release_name)
    values: dict[str, Any] = {}
    objects: list[str] = []
    likely: set[str] = set()
    guessed: set[str] = set()
    unread: set[str] = set()
    for path, raw in held.items():
        if path[0] == "@":
            continue
        path = _canonical(path, renames)
        if raw == UNREAD:
            unread.add(path)
            continue
        if path[-1] == "?":
            guess = path[-2] == "?"
            path = path[: -2 if guess else -1]
            likely.add(path)
            if guess:
                guessed.add(path)
        values[path] = _decode(raw)
        if path.endswith("._target_"):
            objects.append(path[:-9])
    for path in sorted(objects, key=len):
        values[path] = {}
    for path, value in list(values.items()):  # every object again as a whole
        owner, _, field = path.rpartition(".")
        if owner in values and owner in objects:
            values[owner][field] = value
    if "dataset.sequence_length" in values:
        values.setdefault("dataset.seq_length", values["dataset.sequence_length"])
    return Recipe(
        name=name,
        release=release_name,
        module=held.get("@module"),
        values=values,
        likely=frozenset(likely),
        guessed=frozenset(guessed),
        dataset_class=held.get("@dataset_class"),
        model_class=held.get("@model_class"),
        hf_id=held.get("@hf_id"),
        peft=held.get("@peft"),
        gpus=held.get("@gpus"),
        perf=bool(held.get("@perf")),
        complete=bool(held.get("@complete", True)),
        unavailable=held.get("@unavailable"),
        unread=frozenset(unread),
    )


def stored(release_name: str, name: str) -> dict[str, Any] | None:
    """What the data of a release hold of a recipe as they spell it: values by path, "@" keys about the recipe itself."""
    return _stored(_data(release_name), name, _paths(release_name))


def find_learned(release_name: str, patch: str, name: str) -> Recipe | None:
    """The recipe as the user's own sources of a patch have it, None where it was not learned."""
    from mbpack.facts import learned

    held = learned.recipe(patch, name)
    return built(name, release_name, held) if held is not None else None


def modules(release_name: str) -> Mapping[str, list[str]]:
    """The modules that recipe functions live in, each with the names of its recipes."""
    found: Mapping[str, list[str]] = _body(_data(release_name), ".modules")
    if release_name != "0.7":
        return found
    return {module: [name for name in held if name not in _NIGHTLY_ONLY] for module, held in found.items()}


@functools.lru_cache(maxsize=8)
def _names(release_name: str) -> tuple[str, ...]:
    lines = (line for line in _data(release_name).split(b"\n")[4:-1] if line[:1] != b"_")
    found = {line[: line.index(b"\t")].decode() for line in lines}
    return tuple(sorted(found - _NIGHTLY_ONLY if release_name == "0.7" else found))


def names(release_name: str) -> list[str]:
    """All recipe names of a release, sorted; performance recipes that share a name carry the prefix "perf:".

    Those that others start from (``_sft_common``) are no names to launch by; :func:`find` knows them.
    """
    return list(_names(release_name))


def suggest(release_name: str, text: str, n: int = 3, likeness: float = 0.6) -> list[str]:
    """Up to `n` recipe names that a misspelled `text` may have meant, best first."""
    import difflib

    known = [*_names(release_name), *_aliases(release_name)]
    found = search(release_name, text.replace("_", " ")) + difflib.get_close_matches(text, known, n=2 * n, cutoff=likeness)
    return list(dict.fromkeys(_aliases(release_name).get(name, name) for name in found))[:n]


def search(release_name: str, words: str) -> list[str]:
    """Recipe names that contain every word (case does not matter), shortest first; for search as you type."""
    parts = words.lower().split()
    return sorted((n for n in _names(release_name) if all(p in n.lower() for p in parts)), key=lambda n: (len(n), n))


def of_model(release_name: str, model: str) -> list[str]:
    """The recipes of a public model, by its id on the Hub (``Qwen/Qwen3-8B``); how it was trained on and by whom does not count."""
    wanted = public_name(model)
    found = (find(release_name, name) for name in _names(release_name))
    return [one.name for one in found if one is not None and one.hf_id is not None and public_name(one.hf_id) == wanted]


def public_name(model: str) -> str:
    """The letters and digits of a public model's name, without its owner and without how it was trained on."""
    name = model.strip().rpartition("/")[2]
    while _VARIANT.search(name):
        name = _VARIANT.sub("", name)
    return re.sub(r"[^a-z0-9]", "", re.sub(r"(?i)^meta[-_]", "", name).lower())
