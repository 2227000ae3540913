"""The tree that KEY=VALUE arguments change, as Hydra sees it: which keys it has, and what they hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mbpack.config.document import MISSING
from mbpack.config.overrides import Override
from mbpack.config.run import Run
from mbpack.config.settings import Origin, Setting, Unknown, walk
from mbpack.facts.activations import replaceable
from mbpack.facts.keys import ADAPTER, SPECS, parts_in
from mbpack.facts.schema import NO_DEFAULT, Opaque

FREE = ("dataset.dataset_kwargs", "env_vars")


def state_of(run: Run, override: Override) -> str:
    """:func:`_existing` for an argument; those before it may have added the key, or put null or a leaf over what holds it."""
    state = ""
    for earlier in run.overrides:
        if earlier is override:
            break
        if not isinstance(earlier, Override):
            continue
        if earlier.key == override.key and earlier.op in ("add", "force"):
            state = "exists"
        elif earlier.key == override.key[:-1]:
            state = _over(run, earlier.key, None if earlier.op == "delete" else earlier.value)
    return state or _existing(run, override.key)


def _existing(run: Run, key: tuple[str, ...]) -> str:
    """Whether a key is in the merged tree: exists, missing, null (its owner is null), leaf (its owner is a single value),
    covered (a single value over an object), free (missing in a free mapping).

    Raises:
        Unknown: the recipe that holds the owner was not named.
    """
    settings = run.settings
    if _written_in_file(run, key):
        return "exists"
    if _set_aside(run, key):
        return "apart"
    if len(key) == 1:
        return "exists" if key[0] in settings.schema.sections else "missing"
    owner = ".".join(key[:-1])
    if owner in FREE:
        held = _before(run, owner)
        if held is None:
            return "null"
        below = (held, _base(run, owner, None))  # the file's mapping is merged into the recipe's
        return "exists" if any(isinstance(one, Mapping) and key[-1] in one for one in below) else "free"
    if _existing(run, key[:-1]) == "missing" or _is_foreign(run, key[:-1]):
        return "missing"
    if len(key) == 2 and _is_null_section(run, owner):
        return "null"
    if _told(run) and _is_mapping_in_file(run, key[:-1]):
        held = _base(run, owner, NO_DEFAULT)
        if held is None or _is_callable(run, owner, held):
            return "missing"  # a mapping of the file where the tree has none: it has its own keys and no others
    over = _covered(run, key[:-1])
    if over:
        return over
    cls = _tree_class(run, owner)
    if cls is None:
        if not settings.base_known and key[0] in ("model", "dataset"):
            schema = settings.schema
            known = schema.any_model_fields() if key[0] == "model" else schema.any_dataset_fields()
            if len(key) == 2:
                if key[1] not in known:
                    return "missing"
                return "exists"
        held = _before(run, owner)
        if held is None:
            return "null"
        if isinstance(held, (str, int, float)):
            return "leaf"
        if _is_mapping_in_file(run, key[:-1]):
            return "missing"  # a plain mapping of the file: it has its own keys and no others
        raise Unknown(owner, () if settings.base_known else ("recipe",), "its class is not known")
    fields = settings.schema.fields(cls)
    if fields is None:
        raise Unknown(owner, (), f"the fields of {cls} are not known")
    return "exists" if key[-1] in fields else "missing"


def _covered(run: Run, key: tuple[str, ...]) -> str:
    """What the file puts over a mapping of the recipe, as :func:`_over` names it."""
    for layer in run.settings.layers:
        item = walk(layer.root, key) if layer.origin is Origin.FILE else None
        if item is not None and item.value is not MISSING:
            return _over(run, key, item.value)
    return ""


def _over(run: Run, key: tuple[str, ...], value: Any) -> str:
    """What a value makes of the key it is set at: null, covered (a single value over an object), leaf (over anything else) or "".

    Where an object is covered, a plus sign starts a mapping anew, which is applied to the recipe's object.
    """
    if value is None:
        return "null"
    if not isinstance(value, (str, int, float)):
        return ""
    return "covered" if _tree_class(run, ".".join(key)) is not None else "leaf"


def _tree_class(run: Run, owner: str) -> str | None:
    """The class whose fields the tree has at a path: the recipe's, whatever ``_target_`` the file merges into it."""
    recipe, canonical = run.settings.recipe, _canonical(run, owner)
    held = {"dataset": recipe.dataset_class, "model": recipe.model_class}.get(owner) if recipe is not None else None
    if held is None and recipe is not None and recipe.holds(canonical):
        held = run.settings.schema.class_of(recipe.values[canonical]["_target_"])
    return held or run.settings.class_at(canonical)


def is_set(run: Run, override: Override) -> bool:
    """Whether a key that exists holds a value when an argument is applied: Hydra adds over null, not over anything else.

    Raises:
        Unknown: nobody says what the recipe holds.
    """
    value = _before(run, ".".join(override.key))
    for earlier in run.overrides:
        if earlier is override:
            break
        if isinstance(earlier, Override) and earlier.key == override.key:
            value = None if earlier.op == "delete" else earlier.value
    return value is not None


def _is_foreign(run: Run, key: tuple[str, ...]) -> bool:
    """Whether a mapping of the file has a name that the release's class does not know: there are only its own keys below."""
    cls = run.settings.class_at(".".join(key[:-1]))
    fields = run.settings.schema.fields(cls) if cls else None
    return fields is not None and key[-1] not in fields and _written_in_file(run, key)


def _told(run: Run) -> bool:
    """Whether it is known what lies below the file; recipes of the development tree do not tell all they set."""
    return run.settings.complete or (run.settings.recipe is not None and run.settings.recipe.complete)


def _set_aside(run: Run, key: tuple[str, ...]) -> bool:
    """Whether the tree that arguments change lacks a key: functions and adapters of a recipe are no part of it."""
    if run.settings.recipe is None:
        return False
    for depth in range(1, len(key) + 1):
        path = ".".join(key[:depth])
        if _is_callable(run, path, _base(run, path, None)):
            return not _written_in_file(run, key[:depth])  # what the file writes there is part of it
    return False


def _is_callable(run: Run, path: str, value: Any) -> bool:
    if path == ADAPTER:
        return isinstance(value, Mapping)
    return isinstance(value, Opaque) and value.text.startswith("<callable ") and not replaceable(run.release, value.text)


def _is_null_section(run: Run, section: str) -> bool:
    """Whether a section that may be null certainly is."""
    field = run.settings.schema.sections.get(section)
    return field is not None and field.default is None and _told(run) and _before(run, section) is None


def _before(run: Run, path: str) -> Any:
    """What a path holds before the arguments are applied: in the files, the recipe or as the class default.

    Raises:
        Unknown: the recipe that holds it was not named, or its class is not known.
    """
    settings, parts = run.settings, path.split(".")
    for layer in settings.layers:
        item = walk(layer.root, parts) if layer.origin is Origin.FILE else None
        if item is not None and item.value is not MISSING:
            return item.value
    if not settings.base_known:
        raise Unknown(path, ("recipe",))
    found = _base(run, path, NO_DEFAULT)
    if found is NO_DEFAULT:
        raise Unknown(path, (), "its default is not known")
    return found


def _base(run: Run, path: str, unknown: Any) -> Any:
    """What the recipe or else the class holds at a path, whatever the file says; ``unknown`` where neither tells."""
    settings, parts = run.settings, path.split(".")
    canonical = _canonical(run, path)
    if settings.recipe is not None:
        values, (owner, _, name) = settings.recipe.values, canonical.rpartition(".")
        if canonical in values:
            return values[canonical]
        if owner in FREE and isinstance(values.get(owner), Mapping) and name in values[owner]:
            return values[owner][name]
    if len(parts) == 1:
        field = settings.schema.sections.get(path)
        if field is not None and field.default is NO_DEFAULT and settings.recipe is not None:
            return {}  # every recipe gives the sections that have no default
    else:
        owner = ".".join(parts[:-1])
        field = (settings.schema.fields(settings.class_at(owner) or _tree_class(run, owner) or "") or {}).get(parts[-1])
    return unknown if field is None else field.default


def _canonical(run: Run, path: str) -> str:
    specs = ".".join(parts_in(run.release, SPECS))
    return SPECS + path.removeprefix(specs) if path == specs or path.startswith(f"{specs}.") else path


def _written_in_file(run: Run, key: tuple[str, ...]) -> bool:
    for layer in run.settings.layers:
        if layer.origin is not Origin.FILE:
            continue
        item = layer.root
        for part in key:
            child = item.value.get(part) if isinstance(item.value, dict) else None
            if child is None:
                break
            item = child
        else:
            return True
    return False


def _is_mapping_in_file(run: Run, key: tuple[str, ...]) -> bool:
    """Whether the file has a mapping at a path; a list is none, its elements are keys to Hydra."""
    return isinstance(_before(run, ".".join(key)), dict) if _written_in_file(run, key) else False


def place_of_argument(run: Run, override: Override) -> Setting:
    """The place of an override: the item that stands for it in the override layer."""
    path = ".".join(override.key)
    for layer in run.settings.layers:
        if layer.origin is Origin.OVERRIDE:
            item = layer.root
            for part in override.key:
                child = item.value.get(part) if isinstance(item.value, dict) else None
                if child is None:
                    break
                item = child
            else:
                return Setting(path, override.value, Origin.OVERRIDE, item, layer.document)
    return Setting(path, override.value, Origin.OVERRIDE)
