"""The tree that KEY=VALUE arguments change one after the other, as Hydra sees it: which keys it has, and what they hold.

Source: Hydra `_internal/config_loader_impl.py`, `ConfigLoaderImpl._apply_overrides_to_config`, called with struct mode on by
`training/utils/omegaconf_utils.py`, `parse_hydra_overrides` (all releases).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from mbpack.config.document import MISSING, Interpolation, Item
from mbpack.config.layering import files_as_written
from mbpack.config.overrides import Override, whole
from mbpack.config.run import Run
from mbpack.config.settings import ABSENT, Origin, Setting, Unknown, walk
from mbpack.config.shared import once
from mbpack.facts.schema import ABSOLUTE_PATH, Opaque
from mbpack.rules.arguments.base import FREE, OBJECT, UNTOLD, held, is_apart, object_class, told

Key: TypeAlias = tuple[str, ...]

#: Deleted by an argument.
_GONE: Final = object()
_UNSAID: Final = object()


class _Branch:
    """A mapping that somebody wrote. ``anew``: the recipe's keys are not below it."""

    __slots__ = ("anew", "children")

    def __init__(self, anew: bool = False) -> None:
        self.children: dict[Any, Any] = {}
        self.anew = anew


class Place(NamedTuple):
    """What the tree has at a key.

    kind   "exists", with its `value` (OBJECT for a mapping, UNTOLD where nobody says), or why there is nothing: "missing" (no such
           field), "new" (the object has the field, the tree lacks it), "free" (not in a free mapping), "apart" (a function or an
           adapter of the recipe), "beyond" (no position in a list), "null" or "leaf" (the owner is null or another single value).
    owner  for the last two, and for a position in a list: the key that is no mapping.
    """

    kind: str
    value: Any = None
    owner: Key = ()
    branch: _Branch | None = None


class Judged(NamedTuple):
    """An argument, and the tree's place of its key when it is applied: None where that is not known, because of `unknown`.

    `fault` says why a deletion or an addition is refused although the key exists; `lacking` are the keys inside the argument's
    mapping that the tree lacks, `clashes` those where a list meets a mapping.
    """

    override: Override
    place: Place | None
    unknown: Unknown | None = None
    fault: str = ""
    lacking: tuple[tuple[Key, Place], ...] = ()
    clashes: tuple[Key, ...] = ()


@once
def judged(run: Run) -> list[Judged]:
    """Every argument in order, each on the tree that those before it leave; once per run."""
    return list(_judge(run))


def _judge(run: Run) -> Iterator[Judged]:
    overrides = [entry for entry in run.overrides if isinstance(entry, Override)]
    if not overrides:
        return
    tree = _Tree(run)
    for override in overrides:
        judgement = tree.judge(override)
        yield judgement
        if override.op != "set" or judgement.place is None or judgement.place.kind == "exists":
            tree.apply(override)


class _Tree:
    def __init__(self, run: Run) -> None:
        self.run = run
        self.root = _Branch()
        for layer in files_as_written(run.settings.layers):
            self._merge(self.root, layer.root.value)

    @property
    def _recipe_needed(self) -> tuple[str, ...]:
        return () if self.run.settings.base_known else ("recipe",)

    # ------------------------------------------------------------------ judging

    def judge(self, override: Override) -> Judged:
        try:
            place = self.place(override.key)
            fault = self._fault(override, place) if place.kind == "exists" else ""
            if place.kind != "exists" or fault or override.op == "delete":
                return Judged(override, place, fault=fault)
            lacking = tuple(self._lacking(override.key, place, override.value))
            return Judged(override, place, lacking=lacking, clashes=tuple(self._clashes(override.key, place, override.value)))
        except Unknown as unknown:
            return Judged(override, None, unknown)

    def _fault(self, override: Override, place: Place) -> str:
        """Why an argument is refused although its key exists, "" where it is not."""
        try:
            if override.op == "delete":
                return self._undeletable(override, place)
            plain = override.op == "add" and not isinstance(override.value, (dict, list))
            if plain and self._selected(override, place) is not None:
                return f"+{'.'.join(override.key)} adds a key that exists already"
        except _Refused as refused:
            return str(refused)
        return ""

    def _undeletable(self, override: Override, place: Place) -> str:
        """Why a key that exists cannot be deleted: it is in a list, holds null, or not the value that the argument names."""
        if place.owner:
            return f"{'.'.join(place.owner)} is a list, of which no single element can be deleted"
        path, value = ".".join(override.key), self._selected(override, place)
        if value is None:
            return f"{path} is null: there is nothing to delete, and the override is refused"
        if override.value is None:
            return ""
        if value is OBJECT:
            value = self._whole(place.branch)
        elif isinstance(value, Opaque) and _may_be(value, override.value):
            raise Unknown(path, (), "what it holds is not known")
        if value == override.value:
            return ""
        return f"{path} does not hold {override.text.partition('=')[2]}: it is not deleted, and the override is refused"

    def _selected(self, override: Override, place: Place) -> Any:
        """The value that Hydra looks at before it adds or deletes, expressions resolved.

        Raises:
            _Refused: the expression cannot be resolved.
            Unknown: nobody gave the value.
        """
        path, value = ".".join(override.key), place.value
        if value is MISSING:
            return None
        if value is UNTOLD:
            raise Unknown(path, self._recipe_needed, "what it holds is not known")
        if not isinstance(value, Interpolation):
            return value
        from mbpack.config.interpolation import resolve_interpolation

        settings = self.run.settings
        resolved = resolve_interpolation(value, path, self._raw, settings.environ, settings.doubted)
        settings.assumed.update(dict.fromkeys(resolved.variables))
        if resolved.refused:
            raise _Refused(f"{path} holds an expression that cannot be resolved: {resolved.reason}")
        if resolved.text and (override.op == "add" or not isinstance(override.value, str)):
            return ""  # some text: there, and no number
        if resolved.unknown:
            raise Unknown(path, resolved.needs or ("value",), resolved.reason)
        return resolved.value

    def _raw(self, path: str) -> Any:
        place = self.place(tuple(path.split(".")))
        if place.kind != "exists":
            raise KeyError(path)
        if place.value is UNTOLD or place.value is OBJECT:
            raise Unknown(path, self._recipe_needed)
        return place.value

    def _whole(self, branch: _Branch | None) -> Any:
        """A mapping as plain data, where it has only keys that somebody wrote."""
        if branch is None or not branch.anew:
            return OBJECT
        return {
            name: self._whole(child) if isinstance(child, _Branch) else child
            for name, child in branch.children.items()
            if child is not _GONE
        }

    def _lacking(self, key: Key, place: Place, value: Any) -> Iterator[tuple[Key, Place]]:
        """The keys of a mapping that is merged into one of the tree which the tree does not have."""
        if not isinstance(value, Mapping) or not (place.value is OBJECT or isinstance(place.value, Mapping)):
            return
        for name, child in value.items():
            if str(name).startswith("_"):
                continue  # the class of an object: CFG rules about targets see it
            below = self.place((*key, str(name)))
            if below.kind != "exists":
                yield (*key, str(name)), below
            else:
                yield from self._lacking((*key, str(name)), below, child)

    def _clashes(self, key: Key, place: Place, value: Any) -> Iterator[Key]:
        """Where a list of the argument meets a mapping of the tree, or the other way round: OmegaConf does not merge them."""
        is_mapping = place.value is OBJECT or isinstance(place.value, Mapping)
        if (isinstance(value, list) and is_mapping) or (isinstance(value, Mapping) and isinstance(place.value, list)):
            yield key
        elif isinstance(value, Mapping) and is_mapping:
            for name, child in value.items():
                below = self.place((*key, str(name))) if isinstance(child, (list, dict)) else None
                if below is not None and below.kind == "exists":
                    yield from self._clashes((*key, str(name)), below, child)

    # ------------------------------------------------------------------ looking

    def place(self, key: Key) -> Place:
        """What the tree has at a key.

        Raises:
            Unknown: the recipe that holds the owner was not named, or its class is not known.
        """
        if not key:
            return Place("exists", OBJECT, (), self.root)
        owner = self.place(key[:-1])
        if owner.kind != "exists":
            return owner
        if owner.value is not OBJECT and owner.value is not UNTOLD:
            return self._below_value(owner.value, key)
        branch = owner.branch
        said = branch.children.get(key[-1], _UNSAID) if branch is not None else _UNSAID
        if said is _GONE:
            return self._lost(key)
        if branch is not None and isinstance(said, _Branch):
            self._settle(said, branch, key)
            return Place("exists", OBJECT, branch=said)
        if said is not _UNSAID and said is not MISSING:
            return Place("exists", said)
        if branch is not None and branch.anew:
            return Place("exists", MISSING) if said is MISSING else self._lost(key)
        below = self._below(key)
        return Place("exists", MISSING) if said is MISSING and below.kind != "exists" else below

    def _settle(self, branch: _Branch, owner: _Branch, key: Key) -> None:
        """Whether a mapping builds on one of the recipe's; a mapping over anything else has its own keys and no others."""
        if branch.anew or not told(self.run):
            return
        below = Place("missing") if owner.anew else self._below(key)
        value = below.value
        branch.anew = below.kind != "exists" or not (value is OBJECT or value is UNTOLD or isinstance(value, Mapping))

    def _below_value(self, value: Any, key: Key) -> Place:
        owner = key[:-1]
        if value is None:
            return Place("null", owner=owner)
        if isinstance(value, Interpolation):
            raise Unknown(".".join(owner), (), "an expression")
        if isinstance(value, Mapping):  # a plain mapping of the recipe
            if key[-1] in value:
                return Place("exists", value[key[-1]])
            return Place("free" if ".".join(owner) in FREE else "missing")
        if isinstance(value, list):
            at = int(key[-1]) if key[-1].isdecimal() else len(value)
            return Place("exists" if at < len(value) else "beyond", value[at] if at < len(value) else None, owner)
        return Place("leaf", owner=owner)

    def _lost(self, key: Key) -> Place:
        """A key that the tree lacks because somebody deleted it or started the mapping above it anew."""
        owner = ".".join(key[:-1])
        if not owner:
            return Place("new" if key[0] in self.run.settings.schema.sections else "missing")
        if owner in FREE:
            return Place("free")
        if self._is_foreign(key[:-1]):
            return Place("missing")
        cls = self.run.settings.class_at(owner) or object_class(self.run, owner)
        fields = self.run.settings.schema.fields(cls) if cls is not None else None
        return Place("new" if fields is None or key[-1] in fields else "missing")

    def _is_foreign(self, key: Key) -> bool:
        """Whether no object has a field of that name: there is only what people wrote."""
        if len(key) == 1:
            return key[0] not in self.run.settings.schema.sections
        cls = object_class(self.run, ".".join(key[:-1]))
        fields = self.run.settings.schema.fields(cls) if cls is not None else None
        return self._is_foreign(key[:-1]) or (fields is not None and key[-1] not in fields)

    def _below(self, key: Key) -> Place:
        """What lies below everything that people wrote."""
        run, path, owner = self.run, ".".join(key), ".".join(key[:-1])
        schema = run.settings.schema
        if is_apart(run, path):
            return Place("apart")
        if not owner:
            return Place("exists", held(run, path)) if path in schema.sections else Place("missing")
        base = held(run, owner)
        if base is ABSENT:
            return Place("missing")
        if base is not OBJECT and base is not UNTOLD:
            return self._below_value(base, key)
        cls = object_class(run, owner)
        if cls is None:
            if not run.settings.base_known and len(key) == 2 and key[0] in ("model", "dataset"):
                known = schema.any_model_fields() if key[0] == "model" else schema.any_dataset_fields()
                return Place("exists", UNTOLD) if key[1] in known else Place("missing")
            if owner in FREE and base is UNTOLD:
                raise Unknown(owner, self._recipe_needed, "what it holds is not known")
            raise Unknown(owner, self._recipe_needed, "its class is not known")
        fields = schema.fields(cls)
        if fields is None:
            raise Unknown(owner, (), f"the fields of {cls} are not known")
        return Place("exists", held(run, path)) if key[-1] in fields else Place("missing")

    # ------------------------------------------------------------------ changing

    def apply(self, override: Override) -> None:
        """Change the tree as an argument does. What is refused may be left in any way: the start-up ends there."""
        branch = self.root
        for part in override.key[:-1]:
            child = branch.children.get(part, _UNSAID)
            if not isinstance(child, _Branch):
                if isinstance(child, list):
                    return  # one of its elements
                child = branch.children[part] = _Branch(anew=child is not _UNSAID and child is not MISSING)
            branch = child
        if override.op == "delete":
            branch.children[override.key[-1]] = _GONE
        else:
            self._merge(branch, {override.key[-1]: override.value})

    def _merge(self, branch: _Branch, mapping: Mapping[Any, Any]) -> None:
        for name, written in mapping.items():
            value = written.value if isinstance(written, Item) else written
            before = branch.children.get(name, _UNSAID)
            if isinstance(value, dict):
                if not isinstance(before, _Branch):
                    before = branch.children[name] = _Branch(anew=before is not _UNSAID and before is not MISSING)
                self._merge(before, value)
            elif value is not MISSING or before is _UNSAID:
                branch.children[name] = written.plain if isinstance(value, list) and isinstance(written, Item) else value


def _may_be(described: Opaque, value: Any) -> bool:
    """Whether a value that is only described can be equal to another one."""
    if described == ABSOLUTE_PATH:
        return isinstance(value, str) and value.startswith("/")
    return not isinstance(value, (dict, list))


class _Refused(Exception):
    """An expression that Hydra meets and cannot resolve."""


def place_of_argument(run: Run, override: Override, key: Key = ()) -> Setting:
    """The place of an override, or of a key inside its mapping: the item that stands for it in the override layer."""
    key = key or override.key
    path = ".".join(key)
    for layer in run.settings.layers:
        if layer.origin is Origin.OVERRIDE:
            item = whole(layer.document, override) if override.op == "delete" else walk(layer.root, key)
            if item is not None:
                return Setting(path, item.plain, Origin.OVERRIDE, item, layer.document)
    return Setting(path, override.value, Origin.OVERRIDE)
