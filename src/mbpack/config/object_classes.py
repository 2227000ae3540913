"""Which class the object at a path has: by the ``_target_`` the user wrote, by the recipe, or by the section."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set

from mbpack.config.answers import Layer, Unknown, twin
from mbpack.config.document import MISSING, Item
from mbpack.config.layering import is_below, is_gone
from mbpack.facts.classes import DatasetKind, dataset_kind
from mbpack.facts.keys import SPECS, SPECS_CLASS
from mbpack.facts.recipes import Recipe
from mbpack.facts.schema import NO_DEFAULT, Schema


class ObjectClasses:
    """The classes of one configuration's objects.

    ``layers`` from the top; ``gone`` the paths that the layers take out of the recipe's tree; ``specs`` the path of the packing
    specs; ``fails`` says whether a mapping with a ``_target_`` certainly does not become an object.
    """

    def __init__(
        self,
        layers: Sequence[Layer],
        gone: Set[tuple[str, ...]],
        schema: Schema,
        recipe: Recipe | None,
        complete: bool,
        specs: tuple[str, ...],
        fails: Callable[[tuple[str, ...], Item], bool],
    ) -> None:
        self.layers, self.gone, self.schema, self.recipe, self.complete = layers, gone, schema, recipe, complete
        self.specs, self.fails = specs, fails
        self.made = frozenset(path for layer in layers for path in layer.document.made)
        #: Paths at and below which the recipe's values are replaced by others -> why those are not known.
        self.clouded: Mapping[tuple[str, ...], str] = {}
        self._found: dict[tuple[str, ...], str | None] = {}

    def on(self, recipe: Recipe) -> ObjectClasses:
        """The same layers on another recipe, with nothing found yet."""
        new = twin(self)
        new.recipe, new._found = recipe, {}
        return new

    def check_clouds(self, key: str, parts: tuple[str, ...]) -> None:
        """Raise Unknown for a key at or below a path whose value in the recipe something else replaces."""
        for path, why in self.clouded.items():
            if parts[: len(path)] == path:
                raise Unknown(key, (), why)

    def at(self, parts: tuple[str, ...]) -> str | None:
        """Short class name of the object at a path of this release, None where it is not known or there is no object."""
        if parts not in self._found:
            self._found[parts] = None  # a key may name itself as its owner
            try:
                self._found[parts] = self._find_class(parts)
            except BaseException:
                del self._found[parts]
                raise
        return self._found[parts]

    def _find_class(self, parts: tuple[str, ...]) -> str | None:
        for layer in self.layers:
            item = walk(layer.root, parts)
            if item is None:
                if is_below(layer.document.opaque, parts[:-1]):
                    return None
                continue
            if item.value.__class__ is not dict:
                if item.value is MISSING:
                    continue
                return None
            target = item.value.get("_target_")
            if target is not None and isinstance(target.value, str):
                cls = self.schema.class_of(target.value)
                if cls is not None and self._constructible(parts, cls) and (self.complete or not self.fails(parts, item)):
                    return cls
                if self.complete:
                    return None
            if layer.document.language == "python" and (parts in layer.document.made or is_below(layer.document.opaque, parts)):
                return None  # of a class that nobody knows
        if self.made and any(parts[:depth] in self.made for depth in range(1, len(parts))):
            return self.schema.transformer_class(self.at(("model",)) or "") if parts == ("model", "transformer") else None
        if len(parts) == 1:
            if self.recipe is not None and parts[0] == "dataset":
                return self.recipe.dataset_class
            if self.recipe is not None and parts[0] == "model":
                return self.recipe.model_class
            return self.schema.section_class(parts[0])
        return self._nested_class(parts)

    def _constructible(self, parts: tuple[str, ...], cls: str) -> bool:
        """Whether an override's ``_target_`` can be made: every required field is written or a field of the recipe's class.

        Upstream merges the recipe's fields into the mapping first; when the constructor still lacks one, the mapping is
        applied like a plain one and the recipe's class stays. The classes of pretraining data hand every field on to a
        constructor that refuses those it does not know, and some that the recipe's object holds are no arguments at all.
        """
        if self.complete or self.recipe is None or parts != ("dataset",) or parts in self.made:
            return True
        same = cls == self.recipe.dataset_class
        if same and not self.gone:
            return True
        base = self.schema.fields(self.recipe.dataset_class or "") or {}
        if not same and base and dataset_kind(cls) is DatasetKind.PRETRAIN:
            return False
        for name, field in (self.schema.fields(cls) or {}).items():
            path, required = (*parts, name), field.default is NO_DEFAULT and field.init
            if required and (name not in base or is_gone(path, self.gone)):
                if not any(walk(layer.root, path) for layer in self.layers):
                    return False
        return True

    def _nested_class(self, parts: tuple[str, ...]) -> str | None:
        if parts == self.specs:
            return SPECS_CLASS if self._holds_object(parts) else None
        if parts == ("model", "transformer"):
            cls = self.at(("model",))
            return self.schema.transformer_class(cls) if cls else None
        if self.recipe is not None:
            held = self.recipe.values.get(".".join(parts))
            if isinstance(held, Mapping) and isinstance(held.get("_target_"), str):
                return self.schema.class_of(held["_target_"])
        return None

    def _holds_object(self, parts: tuple[str, ...]) -> bool:
        """Whether the base holds an object there, so that a mapping without ``_target_`` is merged into it."""
        if self.complete:
            return False
        if self.recipe is None or any(parts[: len(path)] == path for path in self.clouded):
            return True  # not known; its fields may be written on top of the recipe's
        return self.recipe.holds(SPECS) and not self.remade(parts[:-1])

    def remade(self, section: tuple[str, ...]) -> bool:
        """Whether the user's ``_target_`` makes the section's object anew: nested objects then arrive as plain dicts."""
        for layer in self.layers:
            target = walk(layer.root, (*section, "_target_"))
            if target is not None and isinstance(target.value, str):
                cls = self.schema.class_of(target.value)
                made = cls is not None and self._constructible(section, cls)
                return made and self.at(section) == cls and not self.fails(section, walk(layer.root, section) or target)
        return False


def walk(item: Item, parts: Sequence[str]) -> Item | None:
    for part in parts:
        children = item.value
        if children.__class__ is not dict:
            return None
        child = children.get(part)
        if child is None:
            return None
        item = child
    return item
