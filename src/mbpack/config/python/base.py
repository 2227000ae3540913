"""What recipes hold and classes default to, for a program that reads what it did not write."""

from __future__ import annotations

from functools import lru_cache

from mbpack.config.answers import ABSENT, Object, Unknown
from mbpack.config.python.values import Known, Value
from mbpack.config.settings import Settings
from mbpack.facts import recipes
from mbpack.facts.keys import canonical_name
from mbpack.facts.releases import Version
from mbpack.facts.schema import NO_DEFAULT, Opaque, schema


class Facts:
    """The objects of one release."""

    def __init__(self, version: Version) -> None:
        self.version, self.schema = version, schema(version.release.name)

    def held(self, recipe: str | None, path: tuple[str, ...]) -> Value | bool | None:
        """What a recipe holds at a path: a value, True for some object, False where there is no such attribute."""
        settings = _settings(self.version, recipe) if recipe else None
        if settings is None:
            return None
        if len(path) == 1:
            if path[0] not in self.schema.sections:
                return False
        elif settings.class_at(path[0]) is None and len(path) == 2:
            return None
        try:
            found = settings.find(canonical_name(self.version.release, ".".join(path)))
        except (Unknown, KeyError):
            return None
        if found.likely:
            return None
        value = found.value
        if value is ABSENT:
            owner = settings.classes.at(path[:-1])
            known = owner is not None and self.schema.fields(owner) is not None
            return False if known and owner is not None and path[-1] not in self.schema.attributes(owner) else None
        if value is None or isinstance(value, (bool, int, float, str)):
            return Known(value)
        return True if isinstance(value, (Object, Opaque)) else None

    def default(self, cls: str, name: str) -> Value | bool | None:
        """The same for an attribute that the constructor of a class was not given."""
        short = cls.rpartition(".")[2]
        fields = self.schema.fields(short)
        if fields is None or not cls.startswith("megatron."):
            return None
        field = fields.get(name)
        if field is None:
            return None if name in self.schema.attributes(short) or self.schema.nested_transformer(short) else False
        if field.default is NO_DEFAULT:
            return None
        if field.default is None or isinstance(field.default, (bool, int, float, str)):
            return Known(field.default)
        return True if isinstance(field.default, Opaque) else None


@lru_cache(maxsize=8)
def _settings(version: Version, recipe: str) -> Settings | None:
    found = recipes.find(version.release.name, recipe)
    if found is None or not found.complete:
        return None
    return Settings(version, schema(version.release.name), (), recipe=found)
