"""Settings over a set of recipes: what the recipes answer is kept for all of them, and what is read is noted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache
from typing import Any, TypeVar, cast

from mbpack.config.answers import Layer, Setting, Unknown
from mbpack.config.document import MISSING, Interpolation, Item
from mbpack.config.loading import Loading
from mbpack.config.object_classes import ObjectClasses
from mbpack.config.settings import Settings
from mbpack.engine.columns import Asked, note, unnoted
from mbpack.facts.recipe_sets import RecipeSet, RecipeTable
from mbpack.facts.recipes import Recipe
from mbpack.facts.releases import Version
from mbpack.facts.schema import schema

T = TypeVar("T")
Path = tuple[str, ...]
_WHOLE = {("dataset",), ("model",), ("model", "transformer")}


class PartClasses(ObjectClasses):
    """Classes of objects over a set of recipes."""

    owner: PartSettings

    def at(self, parts: Path) -> str | None:
        """See :meth:`ObjectClasses.at`."""
        note(("class", parts))
        if parts in self._found:
            return self._found[parts]
        source = self.owner.over.source(("class", parts))
        found: str | None = source.ask(("class", parts), self.owner.mask, lambda part: part.own_class(parts))
        self._found[parts] = found
        return found

    def remade(self, section: Path) -> bool:
        """See :meth:`ObjectClasses.remade`."""
        note(("class", section))
        return super().remade(section)


class PartSettings(Settings):
    """Settings over a set of recipes."""

    over: SettingsOver
    mask: int

    def find(self, key: str) -> Setting:
        """See :meth:`Settings.find`."""
        parts = self._paths[key]
        note(parts)
        answer = self._answers.get(key)
        if answer is None:
            answer = self._answers[key] = self.over.source(parts).ask(key, self.mask, lambda part: part.own_answer(key))
        if answer.__class__ is Unknown:
            raise answer
        return answer  # type: ignore[return-value]

    def own_answer(self, key: str) -> Setting | Unknown:
        """The answer, worked out for this set."""
        return unnoted(lambda: self._answer(key))

    def own_class(self, parts: Path) -> str | None:
        """The class at a path, worked out for this set."""
        return unnoted(lambda: ObjectClasses.at(self.classes, parts))

    def once(self, work_out: Callable[[Settings], T]) -> T:
        """See :meth:`Settings.once`."""
        note("layers")
        found: T = self.over.ask(work_out, self.mask, work_out)
        return found

    def written(self, key: str) -> Setting | None:
        """See :meth:`Settings.written`."""
        parts = self._paths[key]
        note(parts)
        if not self.over.is_written(parts):
            return None
        found = self.peek(key)
        return found if found is not None and found.item is not None else None

    def mapping(self, key: str) -> dict[str, Setting]:
        """See :meth:`Settings.mapping`."""
        note(self._paths[key])
        return unnoted(lambda: super(PartSettings, self).mapping(key))

    def recipe_entries(self, key: str) -> Mapping[str, Any]:
        """See :meth:`Settings.recipe_entries`."""
        note(self._paths[key])
        return unnoted(lambda: super(PartSettings, self).recipe_entries(key))

    def target_at(self, section: str) -> Setting | None:
        """See :meth:`Settings.target_at`."""
        note(("class", self._paths[section]))
        return unnoted(lambda: super(PartSettings, self).target_at(section))

    def sections(self) -> Iterator[tuple[str, Item, Layer]]:
        """See :meth:`Settings.sections`."""
        note("layers")
        return super().sections()

    def fallback(self, key: str, parts: Path, canonical: str) -> Setting:
        """See :meth:`Settings.fallback`."""
        note("layers")
        return super().fallback(key, parts, canonical)

    def keeps(self, path: str) -> bool:
        """See :meth:`Settings.keeps`."""
        note("layers")
        return super().keeps(path)

    @property
    def layers(self) -> tuple[Layer, ...]:  # type: ignore[override]
        """See :class:`Settings`: whoever looks at them may look at anything."""
        note("layers")
        found: tuple[Layer, ...] = self.__dict__["layers"]
        return found

    @property
    def loading(self) -> Loading:
        """See :attr:`Settings.loading`."""
        note("layers")
        found = self.memo.get("loading")
        if found is None:
            found = self.memo["loading"] = Loading(self)
        return found


class SettingsOver(Asked[PartSettings]):
    """What was asked of the settings of one configuration.

    ``alone`` is that of the recipes with nothing written over them. ``before`` is that of a configuration from which this one
    differs only at and below the paths ``changed``.
    """

    def __init__(
        self,
        settings: Settings,
        table: RecipeTable,
        everybody: int,
        alone: SettingsOver | None = None,
        before: SettingsOver | None = None,
        changed: Collection[Path] = (),
    ) -> None:
        super().__init__(everybody, self._settings)
        self.table, self._alone = table, alone
        self._layers = settings.layers
        self.is_plain = _is_plain(settings)
        self.before = before if before is not None and before.is_plain and self.is_plain else None
        self._changed = [_outer(path) for path in changed]
        #: Sections that name classes or hold values which follow from others: everything in them may be another after any change.
        self._odd = {str(name) for layer in self._layers for name, item in layer.root.value.items() if _has_more(item)}
        self._odd |= before._odd if before is not None else set()
        self._sources: dict[Any, SettingsOver] = {}
        self._written: dict[Path, bool] = {}
        blank = settings.on(cast(Recipe, RecipeSet(table, everybody)))
        self._blank, self._blank_classes = vars(blank), vars(blank.classes)

    def _settings(self, mask: int) -> PartSettings:
        recipe = cast(Recipe, RecipeSet(self.table, mask))
        settings, classes = object.__new__(PartSettings), object.__new__(PartClasses)
        vars(settings).update(self._blank, recipe=recipe, classes=classes, over=self, mask=mask, _answers={}, memo={})
        vars(classes).update(self._blank_classes, recipe=recipe, owner=settings, fails=settings._fails, _found={})
        return settings

    def source(self, what: Any) -> SettingsOver:
        """Who answers for a path of the release, or for ("class", path): the recipes alone where the layers leave it to them."""
        found = self._sources.get(what)
        if found is None:
            found = self._sources[what] = self._find_source(what)
        return found

    def _find_source(self, what: Any) -> SettingsOver:
        if self._alone is not None and self.is_plain and not self._touches(what):
            return self._alone
        return self if self.before is None or self.is_changed(what) else self.before.source(what)

    def _touches(self, what: Any) -> bool:
        if what[0] == "class" and what[1].__class__ is tuple:
            return any(_is_touched(layer.root, (*what[1], "_target_")) for layer in self._layers)
        return any(_is_touched(layer.root, path) for layer in self._layers for path in _both(what))

    def is_changed(self, what: Any) -> bool:
        """Whether a path lies on the way to one that is changed, or below it; of a whole model or dataset rules only ask whether there is one."""
        if what[0] == "class" and what[1].__class__ is tuple:
            path = _outer(what[1])
            return path[0] in self._odd or any(path[: len(one)] == one for one in self._changed)
        path = _outer(what)
        if path[0] in self._odd:
            return True
        return any(path[: len(one)] == one or (path == one[: len(path)] and what not in _WHOLE) for one in self._changed)

    def is_written(self, parts: Path) -> bool:
        """Whether some layer has something at a path."""
        found = self._written.get(parts)
        if found is None:
            found = self._written[parts] = any(_holds(layer.root, path) for layer in self._layers for path in _both(parts))
        return found


@cache
def alone(version: Version, table: RecipeTable) -> SettingsOver:
    """What the recipes of a release answer with nothing written over them; kept, since every configuration asks for it."""
    return SettingsOver(Settings(version, schema(version.release.name), ()), table, table.all)


def _both(parts: Path) -> set[Path]:
    """A path, and where it may stand in a model that holds another."""
    return {parts, ("model", "transformer", *parts[1:])} if parts[0] == "model" else {parts}


def _outer(path: Path) -> Path:
    return ("model", *path[2:]) if path[:2] == ("model", "transformer") else path


def _is_plain(settings: Settings) -> bool:
    """Whether the layers are mappings over what the recipe holds, and nothing in them changes anything beside its own place."""
    if settings.complete or settings.python or settings.gone or settings.made or settings.classes.clouded:
        return False
    return not any(layer.document.opaque for layer in settings.layers)


def _has_more(item: Item) -> bool:
    """Whether a tree names classes, or holds values that follow from others."""
    if item.value.__class__ is dict:
        return "_target_" in item.value or any(map(_has_more, item.value.values()))
    if item.value.__class__ is list:
        return any(map(_has_more, item.value))
    return item.value is MISSING or isinstance(item.value, Interpolation)


def _is_touched(root: Item, path: Path) -> bool:
    """Whether a mapping writes something at a path, a leaf above it, or the class of what holds it."""
    item = root
    for part in path:
        if item.value.__class__ is not dict or ("_target_" in item.value and item is not root):
            return True
        child = item.value.get(part)
        if child is None:
            return False
        item = child
    return True


def _holds(root: Item, path: Path) -> bool:
    item = root
    for part in path:
        child = item.value.get(part) if item.value.__class__ is dict else None
        if child is None:
            return False
        item = child
    return True
