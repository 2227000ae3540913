"""Recipes that were read, in the form of the facts; what a public model's configuration tells is taken from a known recipe."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from mbpack.facts import recipes
from mbpack.facts.knowledge import KNOWLEDGE
from mbpack.facts.recipes import UNREAD
from mbpack.learn.recipes.read import Read

#: Releases whose recipes were called.
RAN = tuple(release.name for release, known in KNOWLEDGE.items() if known.ran)
#: A field is the conversion's where it is that many times as often as a recipe's.
_SELDOM = 10
_GPUS = re.compile(r"_(\d+)gpus?_")


class Known:
    """What a release that mbpack knows holds of models that are made from public configurations.

    Where the release itself was only read, what 0.6 holds of the same public model fills in.
    """

    def __init__(self, release: str) -> None:
        self.releases = (release,) if release in RAN else (release, RAN[-1])
        self._by_model: list[dict[str, Mapping[str, Any]]] = []
        #: Fields that conversions set and hardly a recipe does; where a conversion was not watched, their values carry no mark.
        self._inferred: set[str] = set()
        by_conversion, by_recipe = Counter[str](), Counter[str]()
        for one in self.releases:
            found: dict[str, Mapping[str, Any]] = {}
            for name in recipes.names(one):
                held = recipes.stored(one, name) or {}
                marked = {path.rstrip("?") for path in held if path[-1] == "?"}
                by_conversion.update(marked)
                by_recipe.update(list(held) if marked else ())
                hf_id = held.get("@hf_id")
                if hf_id and "@model_class" in held:
                    found.setdefault(hf_id, held)
            self._by_model.append(found)
        self._inferred = {path for path, count in by_conversion.items() if count > _SELDOM * by_recipe[path]}

    def of(self, name: str, hf_id: str | None) -> Mapping[str, Any]:
        """The class of a public model and its inferred values: from the recipe of that name, else from any."""
        merged: dict[str, Any] = {}
        for release, models in zip(reversed(self.releases), reversed(self._by_model), strict=True):
            own = recipes.stored(release, name)
            held = own if own is not None and own.get("@hf_id") == hf_id else models.get(hf_id or "", {})
            for path, value in held.items():
                if path[-1] == "?" or path == "@model_class":
                    merged[path] = value
                elif path in self._inferred:
                    merged.setdefault(f"{path}?", value)
        return merged


def stored(name: str, read: Read, paths: Mapping[str, str], known: Known, fields: Mapping[str, Iterable[str]]) -> dict[str, Any]:
    """One recipe as the facts hold it.

    ``paths``: import path -> name of a class. ``fields``: name of a class -> its fields. A value that could not be read is
    stored as ``UNREAD``; one that a known recipe of the same model has from the model's configuration as likely.
    """
    found: dict[str, Any] = {"@module": read.module}
    gpus = _GPUS.search(name)
    if gpus is not None:
        found["@gpus"] = int(gpus.group(1))
    if ".perf_recipes" in read.module:
        found["@perf"] = True
    if read.hf_id is not None:
        found["@hf_id"] = read.hf_id
    for section, key in (("dataset", "@dataset_class"), ("model", "@model_class"), ("peft", "@peft")):
        if section in read.classes and read.classes[section] in paths:
            found[key] = paths[read.classes[section]]
    found.update(read.values)
    found.update((path, UNREAD) for path in read.open if path != "model")
    if "model" in read.open:
        found["@complete"] = False
        _from_a_known_model(found, known.of(name, read.hf_id), fields)
    return found


def _from_a_known_model(found: dict[str, Any], other: Mapping[str, Any], fields: Mapping[str, Iterable[str]]) -> None:
    cls = other.get("@model_class")
    if cls is None:
        return
    found["@model_class"] = cls
    own = set(fields.get(cls, ()))
    for path in [path for path in found if path.startswith("model.") and path.count(".") == 1]:
        if own and path.partition(".")[2] not in own:
            del found[path]  # an attribute that the class has no field for
    for path, value in other.items():
        bare = path.rstrip("?")
        if path != bare and bare.startswith("model.") and (bare not in found or found[bare] == UNREAD):
            found.pop(bare, None)
            found[path] = value
