"""The three-valued view of a configuration: what each key holds, who said so, or that nobody did.

Layers are read from the top: KEY=VALUE overrides, then the files (last first), then the recipe, then the class
defaults. Nothing is merged or copied: a key is looked up when a rule asks, and the answer is remembered.

A key has one of three answers: a :class:`Setting`, a value with its origin and place; one whose value is :data:`ABSENT`, where
the class that owns the key has no such field; or :class:`Unknown`, raised, where nobody gave the value.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from mbpack.config.answers import ABSENT, Layer, Object, Origin, Setting, Unknown, WrongKind, object_of, of_recipe, twin
from mbpack.config.document import MISSING, Interpolation, Item
from mbpack.config.layering import are_positions, is_below, is_gone, settle, stop_where_opaque
from mbpack.config.object_classes import ObjectClasses, walk
from mbpack.facts.keys import ADAPTER, SPECS, paths
from mbpack.facts.recipes import Recipe
from mbpack.facts.releases import Version
from mbpack.facts.schema import NO_DEFAULT, Opaque, Schema

if TYPE_CHECKING:
    from mbpack.config.interpolation import Resolved
    from mbpack.config.loading import Loading

__all__ = ["ABSENT", "Layer", "Object", "Origin", "Setting", "Settings", "Unknown", "WrongKind", "walk"]

T = TypeVar("T")

_MOST_DEFAULTS = 10_000
#: What settings work out once, and their recipe decides.
_WORKED_OUT = ("keeps_adapter", "_nested_model", "_new_dataset", "loading")


class Settings:
    """Layers over a recipe over class defaults, for one release.

    ``complete`` says that the layers are a whole configuration (top-level ``_target_`` ConfigContainer): what they lack
    has the class default. Otherwise they are a diff over ``recipe``; without one, what they lack is unknown. Where ``environ`` is
    None, defaults of environment variables count as their values, but for those that are ``doubted``.
    """

    def __init__(
        self,
        version: Version,
        schema: Schema,
        layers: Sequence[Layer],
        recipe: Recipe | None = None,
        complete: bool = False,
        environ: Mapping[str, str] | None = None,
        clouded: Mapping[str, str] | None = None,
        doubted: Collection[str] = (),
    ) -> None:
        self.version, self.schema, self.recipe, self.complete = version, schema, recipe, complete
        settled, self.gone = settle(layers)
        self.layers = tuple(reversed(settled))
        self.environ, self.doubted = environ, doubted
        self.assumed: dict[str, None] = {}  # environment variables whose defaults have stood in for them so far
        self.made = frozenset(path for layer in self.layers for path in layer.document.made)  # a program's, made anew
        self.python = any(layer.document.language == "python" for layer in self.layers)
        self.base_known = complete or recipe is not None or () in self.made
        self._paths = paths(version.release)
        self._answers: dict[str, Setting | Unknown] = {}
        self.classes = ObjectClasses(self.layers, self.gone, schema, recipe, complete, self._paths[SPECS], self._fails)
        self.classes.clouded = {self._paths[key]: why for key, why in (clouded or {}).items()}
        self.memo: dict[str, Any] = {}  # what others worked out once from these settings

    def on(self, recipe: Recipe) -> Settings:
        """The same layers on another recipe, with nothing worked out yet."""
        new = twin(self)
        for name in _WORKED_OUT:
            vars(new).pop(name, None)
        new.recipe, new.base_known, new.classes = recipe, True, self.classes.on(recipe)
        new.classes.fails, new._answers, new.memo = new._fails, {}, {}
        return new

    # ------------------------------------------------------------------ asking

    def find(self, key: str) -> Setting:
        """The answer for a canonical key (its 0.6 name).

        Raises:
            Unknown: nobody gave the value.
        """
        answer = self._answers.get(key)
        if answer is None:
            answer = self._answers[key] = self._answer(key)
        if answer.__class__ is Unknown:
            raise answer
        return answer  # type: ignore[return-value]

    def _answer(self, key: str) -> Setting | Unknown:
        try:
            return self._find(key)
        except Unknown as unknown:
            return unknown

    def peek(self, key: str) -> Setting | None:
        """The answer for a canonical key, or None where it is unknown."""
        try:
            return self.find(key)
        except Unknown:
            return None

    def written(self, key: str) -> Setting | None:
        """The answer where the user wrote the key, else None."""
        if not self._may_be_written(self._paths[key]):
            return None
        found = self.peek(key)
        return found if found is not None and found.item is not None else None

    def _may_be_written(self, parts: tuple[str, ...]) -> bool:
        """Whether some layer has something at a path; asked first because the answer needs no recipe."""
        inner = ("model", "transformer", *parts[1:]) if parts[0] == "model" else parts
        return any(walk(layer.root, path) is not None for layer in self.layers for path in {parts, inner})

    def once(self, work_out: Callable[[Settings], T]) -> T:
        """What a function makes of these settings, worked out once; nobody changes it."""
        name = work_out.__qualname__
        found: T = self.memo[name] if name in self.memo else self.memo.setdefault(name, work_out(self))
        return found

    def mapping(self, key: str) -> dict[str, Setting]:
        """All entries of a free mapping (``dataset.dataset_kwargs``) over all layers and the recipe.

        Raises Unknown where a recipe that was not named may hold more entries.
        """
        entries: dict[str, Setting] = {}
        parts = self._paths[key]
        for layer in self.layers:
            item = walk(layer.root, parts)
            if item is None:
                stop_where_opaque(key, parts, layer)
                continue
            if not isinstance(item.value, dict):
                return entries
            stop_where_opaque(key, parts, layer)
            for name, child in item.value.items():
                if name in entries:
                    continue
                if child.value is not MISSING:
                    entries[name] = self._setting(f"{key}.{name}", child, layer)
                elif self.base_known and not self.complete and not self._base_has((*parts, name)):
                    entries[name] = Setting(f"{key}.{name}", "???", layer.origin, child, layer.document)
        if not (self.base_known or self._starts_anew(parts)):
            raise Unknown(key, ("recipe",))
        self.classes.check_clouds(key, parts)
        for name, value in self.recipe_entries(key).items():
            entries.setdefault(name, Setting(f"{key}.{name}", value, Origin.RECIPE))
        return entries

    def recipe_entries(self, key: str) -> Mapping[str, Any]:
        """What the recipe holds in a free mapping, as far as the user's layers leave it there."""
        held, parts = self.recipe.values.get(key) if self.recipe is not None else None, self._paths[key]
        if not isinstance(held, Mapping) or self._starts_anew(parts) or is_below(self.made, parts):
            return {}
        return {name: value for name, value in held.items() if (*parts, name) not in self.gone}

    def class_at(self, section: str) -> str | None:
        """Short class name of the object at a canonical key (``dataset``, ``model``), None where it is not known."""
        return self.classes.at(self._paths[section])

    def target_at(self, section: str) -> Setting | None:
        """The ``_target_`` the user wrote for an object, if any; one that a higher layer covers with a leaf counts no more.

        Neither does one over a recipe that is certainly not made: its mapping is then applied like a plain one.
        """
        for layer in self.layers:
            item: Item | None = layer.root
            for part in (*self._paths[section], "_target_"):
                if item is None or item.value is MISSING:
                    break
                if item.value.__class__ is not dict:
                    return None
                item = item.value.get(part)
            else:
                if item is not None and isinstance(item.value, str):
                    parts = self._paths[section]
                    holder = walk(layer.root, parts)
                    if not self.complete and holder is not None and self.loading.is_lost(".".join(parts), holder):
                        return None
                    return self._setting(f"{section}._target_", item, layer)
        return None

    def sections(self) -> Iterator[tuple[str, Item, Layer]]:
        """Every top-level name the user wrote, with its layer, lowest layer first."""
        for layer in reversed(self.layers):
            if isinstance(layer.root.value, dict):
                for name, item in layer.root.value.items():
                    if name.__class__ is str:
                        yield name, item, layer

    # ------------------------------------------------------------------ looking up

    def _find(self, key: str) -> Setting:
        parts = self._paths[key]
        if key == ADAPTER and self.keeps_adapter:
            return self.fallback(key, parts, key)
        if parts[0] == "model" and len(parts) > 1 and parts[1] != "transformer" and self._nested_model:
            return self._find_nested(key, parts)
        return self._search(key, parts)

    @cached_property
    def keeps_adapter(self) -> bool:
        """Whether the recipe trains an adapter: overrides reach its fields, and the object itself is put back after them.

        Source: 0.3 to 0.6 `training/utils/omegaconf_utils.py`, `_is_omegaconf_problematic` and `_restore_excluded_fields`
        (an adapter can be called).
        """
        return not (self.complete or self.python) and self.recipe is not None and self.recipe.holds(ADAPTER)

    @cached_property
    def _nested_model(self) -> bool:
        cls = self.classes.at(("model",))
        return cls is not None and self.schema.nested_transformer(cls)

    def _find_nested(self, key: str, parts: tuple[str, ...]) -> Setting:
        """A model whose Megatron-Core settings live in ``model.transformer``; overrides set what it hands on after the inner keys."""
        inner = ("model", "transformer", *parts[1:])
        outer_fields = self.schema.fields(self.classes.at(("model",)) or "") or {}
        own = parts[1] in outer_fields
        if own and self.complete:
            inner = parts  # the constructor sets outer fields last, the class defaults included, and hands them on
        for path in (parts, inner):
            found = self._search_layers(key, path)
            if found is not None:
                return found
        return self.fallback(key, parts if own else inner, ".".join(inner) if not own else key)

    def _search(self, key: str, parts: tuple[str, ...]) -> Setting:
        found = self._search_layers(key, parts)
        return found if found is not None else self.fallback(key, parts, key)

    def _search_layers(self, key: str, parts: tuple[str, ...]) -> Setting | None:
        for layer in self.layers:
            item = layer.root
            for depth, part in enumerate(parts):
                children = item.value
                if children.__class__ is not dict:
                    return self._below_leaf(key, parts, depth, item, layer)
                child = children.get(part)
                if child is None:
                    stop_where_opaque(key, parts, layer)
                    break
                item = child
            else:
                if item.value is MISSING and not self.complete:
                    if self._is_alias(parts) or not self._base_has(parts):  # nothing below it: the marker itself arrives
                        return Setting(".".join(parts), "???", layer.origin, item, layer.document)
                    continue  # `???` leaves what is below
                if not self.complete and self._is_foreign(parts):
                    return None  # upstream skips a key that the object does not have
                return self._setting(".".join(parts), item, layer)
        return None

    def _is_alias(self, parts: tuple[str, ...]) -> bool:
        """Whether the name is an attribute of the object but none of its fields."""
        cls = self.classes.at(parts[:-1]) if len(parts) > 1 else None
        fields = self.schema.fields(cls) if cls is not None else None
        return cls is not None and fields is not None and parts[-1] not in fields and parts[-1] in self.schema.attributes(cls)

    def _is_foreign(self, parts: tuple[str, ...]) -> bool:
        """Whether the object at the owner's path certainly has no such attribute."""
        if len(parts) < 2:
            return False
        cls = self.classes.at(parts[:-1])
        fields = self.schema.fields(cls) if cls is not None else None
        if cls is None or fields is None or parts[-1] in fields or parts[-1].startswith("_"):
            return False
        return not self.schema.nested_transformer(cls) and parts[-1] not in self.schema.attributes(cls)

    def _below_leaf(self, key: str, parts: tuple[str, ...], depth: int, item: Item, layer: Layer) -> Setting | None:
        """A key below something that is no mapping: the lower layers are covered up."""
        if item.value is MISSING and not self.complete:
            return None
        if isinstance(item.value, Interpolation):
            raise Unknown(key, (), f"{'.'.join(parts[:depth])} is an expression")
        return Setting(".".join(parts), ABSENT, layer.origin)

    def _setting(self, written: str, item: Item, layer: Layer) -> Setting:
        value, likely = item.value, False
        if value.__class__ is dict:
            if layer.origin is Origin.OVERRIDE and are_positions(value) and self._is_list_below(written):
                raise Unknown(written, (), "arguments set single elements of a list")
            value = self.loading.object_of(written, item) if "_target_" in value else Object(None, item)
        elif isinstance(value, list):
            value = [self._plain(child) for child in value]
        elif isinstance(value, Interpolation):
            value, likely = self._resolve(written, item, layer)
        elif value is MISSING:
            raise Unknown(written, (), "`???` holds no value")
        return Setting(written, value, layer.origin, item, layer.document, likely)

    @cached_property
    def loading(self) -> Loading:
        """What becomes of the mappings that name a class."""
        from mbpack.config.loading import Loading

        return Loading(self)

    def _fails(self, parts: tuple[str, ...], item: Item) -> bool:
        return self.loading.why_unmade(".".join(parts), item) is not None

    def _is_list_below(self, written: str) -> bool:
        lists = [walk(layer.root, written.split(".")) for layer in self.layers]
        held = self.recipe.values.get(written) if self.recipe is not None else None
        return isinstance(held, list) or any(item is not None and isinstance(item.value, list) for item in lists)

    def _plain(self, item: Item) -> Any:
        value = item.value
        if value.__class__ is dict:
            return object_of(item)
        if isinstance(value, list):
            return [self._plain(child) for child in value]
        return value

    def resolve(self, written: str, value: str) -> Resolved:
        """What an expression stands for at a path of this configuration.

        Raises:
            Unknown: it refers to a value that nobody gave.
        """
        from mbpack.config.merged_tree import MergedTree

        return MergedTree(self).resolve(written, value)

    def keeps(self, path: str) -> bool:
        """Whether ``???`` at a path of this release leaves a value below it as it is; true where that is not known."""
        return self._base_has(tuple(path.split(".")))

    def _base_has(self, parts: tuple[str, ...]) -> bool:
        from mbpack.config.merged_tree import MergedTree

        return MergedTree(self).base_has(parts)

    def _resolve(self, written: str, item: Item, layer: Layer) -> tuple[Any, bool]:
        resolved = self.resolve(written, item.value)
        if resolved.unknown:
            text = Setting(written, "", layer.origin, item, layer.document) if resolved.text else None
            raise Unknown(written, resolved.needs or ("value",), resolved.reason, text)
        return resolved.value, resolved.likely

    # ------------------------------------------------------------------ recipe and class defaults

    def fallback(self, key: str, parts: tuple[str, ...], canonical: str) -> Setting:
        """What recipe and class defaults hold at a path of this release, the layers apart; raises Unknown."""
        recipe = self.recipe
        self.classes.check_clouds(key, parts)
        if recipe is not None and not is_below(self.made, parts) and not self._replaced(parts[:-1]) and not self._dropped(parts):
            written = ".".join(parts)
            values = recipe.values
            if canonical in values:
                return Setting(written, of_recipe(values[canonical]), Origin.RECIPE, likely=canonical in recipe.likely)
            if canonical != key and key in values:
                return Setting(written, of_recipe(values[key]), Origin.RECIPE, likely=key in recipe.likely)
            owner = canonical.rpartition(".")[0]
            if isinstance(values.get(owner), Mapping) and "_target_" not in values[owner]:
                entries = self.recipe_entries(owner)
                if parts[-1] in entries:
                    return Setting(written, entries[parts[-1]], Origin.RECIPE)
        return self._default(key, parts)

    def _starts_anew(self, parts: tuple[str, ...]) -> bool:
        """Whether the merged tree has a mapping that does not build on the recipe's."""
        return is_gone(parts, self.gone) and any(walk(layer.root, parts) for layer in self.layers)

    def _dropped(self, parts: tuple[str, ...]) -> bool:
        """Whether the recipe's value is lost on the way into an object that is made anew: gone, or a field only of the former class."""
        if is_gone(parts, self.gone) and self.classes.remade(parts[:-1]):
            return True
        return parts[0] == "dataset" and self._new_dataset and self._is_foreign(parts)

    @cached_property
    def _new_dataset(self) -> bool:
        recipe = self.recipe
        return recipe is not None and self.classes.remade(("dataset",)) and self.classes.at(("dataset",)) != recipe.dataset_class

    def _replaced(self, owner: tuple[str, ...]) -> bool:
        """Whether the user covered the recipe's object with a leaf."""
        for depth in range(1, len(owner) + 1):
            for layer in self.layers:
                item = walk(layer.root, owner[:depth])
                if item is not None and item.value is not MISSING and item.value.__class__ is not dict:
                    return True
        return False

    def _default(self, key: str, parts: tuple[str, ...]) -> Setting:
        """What the owning class says; the answer is the same for every configuration with that class."""
        cls = self.classes.at(parts[:-1]) if len(parts) > 1 else ""
        if cls is None or not self.base_known:
            return self._find_default(key, parts)
        held = self.schema.memo.get((cls, parts))
        if held is None:
            if len(self.schema.memo) > _MOST_DEFAULTS:  # expressions may ask for any path
                self.schema.memo.clear()
            held = self.schema.memo[cls, parts] = self._find_default(key, parts)
        return held

    def _find_default(self, key: str, parts: tuple[str, ...]) -> Setting:
        written = ".".join(parts)
        if len(parts) == 1:
            field = self.schema.sections.get(parts[0])
        else:
            owner = parts[:-1]
            cls = self.classes.at(owner)
            if cls is None:
                holder = self._search(".".join(owner), owner)  # raises Unknown where the owner itself is unknown
                if holder.value is None or not isinstance(holder.value, (Object, dict)):
                    return Setting(written, ABSENT, Origin.DEFAULT)
                if isinstance(holder.value, dict) or (holder.value.target is None and self.base_known):
                    return Setting(written, ABSENT, Origin.DEFAULT)
                raise Unknown(key, ("recipe",) if not self.base_known else (), "the class that holds it is not known")
            fields = self.schema.fields(cls)
            if fields is None:
                raise Unknown(key, (), f"the fields of {cls} are not known")
            field = fields.get(parts[-1])
        if field is None:
            return Setting(written, ABSENT, Origin.DEFAULT)
        if not self.base_known:
            raise Unknown(key, ("recipe",))
        if field.default is NO_DEFAULT:
            return Setting(written, Object(None, None) if len(parts) == 1 else None, Origin.DEFAULT)
        if not isinstance(field.default, Opaque):
            return Setting(written, field.default, Origin.DEFAULT)
        if field.default.text == "<unread>":
            raise Unknown(key, (), "its default could not be read")
        return Setting(written, Object(None, None), Origin.DEFAULT)
