"""What lies below the files and the arguments: the recipe's objects, as the tree that Hydra changes shows them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mbpack.config.run import Run
from mbpack.config.settings import ABSENT
from mbpack.facts.activations import replaceable
from mbpack.facts.keys import ADAPTER, SPECS, parts_in
from mbpack.facts.recipes import card_fields
from mbpack.facts.schema import NO_DEFAULT, Opaque

#: Mappings that have whatever keys they are given.
FREE: Final = ("dataset.dataset_kwargs", "env_vars")


class _Untold:
    def __repr__(self) -> str:
        return "UNTOLD"


#: Nobody says what the recipe holds there; it may be an object, a value or null.
UNTOLD: Final = _Untold()
#: An object of the recipe or a mapping, whose keys are asked for one by one.
OBJECT: Final = Opaque("<object>")
#: A value that the conversion of a public model sets, whatever it is.
CARD_VALUE: Final = Opaque("<value of the public model>")


def told(run: Run) -> bool:
    """Whether it is known what lies below the file; recipes of the development tree do not tell all they set."""
    return run.settings.complete or (run.settings.recipe is not None and run.settings.recipe.complete)


def held(run: Run, path: str) -> Any:
    """What the recipe or else the class holds at a path: a value, a plain mapping, OBJECT, UNTOLD, or ABSENT (no such key)."""
    settings, canonical = run.settings, _canonical(run, path)
    owner, _, name = canonical.rpartition(".")
    if settings.recipe is not None:
        values = settings.recipe.values
        if canonical in values:
            return _shown(values[canonical])
        plain = values.get(owner)
        if isinstance(plain, Mapping) and "_target_" not in plain:
            return plain.get(name, ABSENT)
    if not owner:
        field = settings.schema.sections.get(path)
        if field is not None and field.default is NO_DEFAULT:
            return OBJECT  # every recipe gives the sections that have no default
    else:
        owner = path.rpartition(".")[0]
        fields = settings.schema.fields(settings.class_at(owner) or object_class(run, owner) or "")
        if fields is None:
            return UNTOLD
        field = fields.get(name)
        if field is not None and owner.startswith("model") and _from_card(run, name):
            return UNTOLD if field.default is None else CARD_VALUE
    if field is None:
        return ABSENT
    return _shown(field.default) if told(run) and field.default is not NO_DEFAULT else UNTOLD


def _from_card(run: Run, name: str) -> bool:
    """Whether the recipe's model is converted from a public one, and the field one of those that only its card tells."""
    return run.settings.recipe is not None and bool(run.settings.recipe.likely) and name in card_fields()


def _shown(value: Any) -> Any:
    is_object = value.kind == "object" if isinstance(value, Opaque) else isinstance(value, Mapping) and "_target_" in value
    return OBJECT if is_object else value


def object_class(run: Run, path: str) -> str | None:
    """The class whose fields the tree has at a path: the recipe's, whatever ``_target_`` the file merges into it."""
    recipe, canonical = run.settings.recipe, _canonical(run, path)
    cls = {"dataset": recipe.dataset_class, "model": recipe.model_class}.get(path) if recipe is not None else None
    if cls is None and recipe is not None and recipe.holds(canonical):
        cls = run.settings.schema.class_of(recipe.values[canonical]["_target_"])
    if cls is None and recipe is not None and "." not in path:
        cls = run.settings.schema.section_class(path)
    return cls or run.settings.class_at(canonical)


def is_apart(run: Run, path: str) -> bool:
    """Whether the recipe holds a function or an adapter there: they are no part of the tree that arguments change.

    Source: `training/utils/omegaconf_utils.py`, `_is_omegaconf_problematic`, all releases.
    """
    if run.settings.recipe is None:
        return False
    if path == ADAPTER:
        return run.settings.recipe.holds(ADAPTER)
    value = held(run, path)
    return isinstance(value, Opaque) and value.kind == "callable" and not replaceable(run.release, value.text)


def _canonical(run: Run, path: str) -> str:
    specs = ".".join(parts_in(run.release, SPECS))
    return SPECS + path.removeprefix(specs) if path == specs or path.startswith(f"{specs}.") else path
