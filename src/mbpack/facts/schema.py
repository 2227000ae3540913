"""Fields, defaults, classes and import paths of every release's configuration.

The data come from the installed packages (`tools/harvest.py`; 0.7 and nightly from the development tree, with what later
sources and patches add in the line `.later`) and lie in `data/schema-<release>.tsv`, one class a line, found by a byte search so that only the classes asked for are parsed:

    <class> TAB <import path> TAB <kind> TAB {"parent": class, "lacks": [...], "fields": {name: [type, default, init]}}

A class is stored as its difference to `parent`. An entry without a default is a required field; a default that is not
plain data is stored as `{"~": text}`. Lines that start with a dot hold what belongs to the release as a whole.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from mbpack.facts import learned, releases

DATA: Final = os.path.join(os.path.dirname(__file__), "data")
RELEASES: Final = tuple(release.name for release in releases.RELEASES)


class _NoDefault:
    """The type of NO_DEFAULT."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "NO_DEFAULT"


NO_DEFAULT: Final = _NoDefault()


class Opaque(NamedTuple):
    """A default that plain data cannot express, described by `text` ("<object RNGConfig>", "<callable silu>")."""

    text: str

    @property
    def kind(self) -> str:
        """The first word: "object", "callable", "enum" ..."""
        return self.text.strip("<>").partition(" ")[0]


#: A path of the machine that the facts were harvested on.
ABSOLUTE_PATH = Opaque("<absolute path>")


class Field(NamedTuple):
    """A configuration field: its type as text, its default (or NO_DEFAULT), and whether the constructor takes it.

    The type is what upstream's annotation says, together with the kinds of value that the default or a shipped recipe holds:
    annotations are not always true (`rotary_base: int` holds 10000.0 after every conversion).
    """

    type: str
    default: Any
    init: bool


def _field(entry: list[Any], held: str) -> Field:
    default: Any = entry[1] if len(entry) > 1 else NO_DEFAULT
    kind = entry[0]
    if type(default) is float and kind.partition("|")[0] == "int":
        held = "float"
    if held and held not in kind.split("|"):
        kind = f"{kind}|{held}"
    if type(default) is dict and "~" in default:
        text = default["~"]
        default = NO_DEFAULT if text is None else Opaque(text)
    return Field(kind, default, len(entry) < 3)


class _Fields(Mapping[str, Field]):
    """Fields of one class, each turned into a `Field` when it is asked for; `held` has the kinds that recipes add."""

    __slots__ = ("_entries", "_held", "_made")

    def __init__(self, entries: Mapping[str, list[Any]], held: Mapping[str, str]) -> None:
        self._entries, self._held = entries, held
        self._made: dict[str, Field] = {}

    def __getitem__(self, name: str) -> Field:
        found = self._made.get(name)
        if found is None:
            found = self._made[name] = _field(self._entries[name], self._held.get(name, ""))
        return found

    def get(self, name: str, default: Any = None) -> Any:
        """The field, or the default; spelled out because it is asked thousands of times."""
        found = self._made.get(name)
        if found is None:
            return self[name] if name in self._entries else default
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


def decoded(text: bytes) -> Any:
    """Plain data from its JSON; `Infinity`, which Python writes and JSON does not know, is left to Python's own parser."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        import json

        return json.loads(text)


def read_data(name: str) -> bytes:
    """The bytes of one data file."""
    with open(os.path.join(DATA, name), "rb") as file:
        return file.read()


class Schema:
    """The configuration classes of one release. Obtain it with `schema(release)`; every answer is cached."""

    def __init__(self, release: str, patch: str = "", shipped: bool = False) -> None:
        self.release = release
        #: The patch that is described; a line without one is described as its newest known patch.
        self.patch = patch or releases.newest_patch(release)
        self._data = read_data(f"schema-{releases.data_of(release)}.tsv")
        self._later = self._differences()
        #: What the user learned of this patch; it takes the place of what is shipped, unless only that is asked for.
        self._learned = None if shipped else learned.find(self.patch)
        self._raw: dict[str, dict[str, list[Any]] | None] = {}
        self._fields: dict[str, Mapping[str, Field] | None] = {}
        self._targets: dict[str, str | None] = {}
        #: What others worked out once for this release.
        self.memo: dict[Any, Any] = {}

    def _meta(self, key: str) -> Any:
        start = self._data.index(f"\n.{key}\t".encode()) + len(key) + 3
        return decoded(self._data[start : self._data.index(b"\n", start)])

    def _differences(self) -> Mapping[str, Mapping[str, list[Any] | None]]:
        """What patches after the harvested sources added to classes (null: took away), up to this patch."""
        found: dict[str, dict[str, list[Any] | None]] = {}
        for patch, changes in self._meta("later").items():
            if self.release == releases.NIGHTLY.name or releases.reaches(self.patch, patch):
                for cls, fields in changes.items():
                    found.setdefault(cls, {}).update(fields)
        return found

    def _line(self, cls: str) -> list[bytes] | None:
        start = self._data.find(b"\n" + cls.encode() + b"\t")
        if start < 0 or not cls or cls[0] == ".":
            return None
        return self._data[start + 1 : self._data.index(b"\n", start + 1)].split(b"\t", 3)

    def raw_fields(self, cls: str) -> Mapping[str, list[Any]] | None:
        """The fields of a class as they are stored: name -> [type, default, init]."""
        return self._entries(cls)

    def _entries(self, cls: str) -> dict[str, list[Any]] | None:
        if self._learned is not None and cls in self._learned.classes:
            return self._learned.classes[cls][2]
        if cls not in self._raw:
            line = self._line(cls)
            found: dict[str, list[Any]] | None = None
            if line is not None:
                body = decoded(line[3])
                found = dict(self._entries(body["parent"]) or {}) if "parent" in body else {}
                for name in body.get("lacks", ()):
                    found.pop(name, None)
                found.update(body["fields"])
                for name, entry in self._later.get(cls, {}).items():
                    if entry is None:
                        found.pop(name, None)
                    else:
                        found[name] = entry
            self._raw[cls] = found
        return self._raw[cls]

    @functools.cached_property
    def _held(self) -> Mapping[str, str]:
        """Field name -> a kind of value that shipped recipes give it although its annotation does not say so."""
        found: Mapping[str, str] = self._meta("held")
        return found

    @functools.cached_property
    def packages(self) -> Mapping[str, str]:
        """Versions of the packages the data were taken from; empty for a development tree."""
        head = self._data[: self._data.index(b"\n")].split(b"\t", 1)[1]
        found: Mapping[str, str] = decoded(head)["packages"]
        return found

    @functools.cached_property
    def sections(self) -> Mapping[str, Field]:
        """The sections of the container (`train`, `model`, ...)."""
        own = self._learned.sections if self._learned is not None else None
        return _Fields(own or self._meta("sections"), {})

    @functools.cached_property
    def _section_classes(self) -> Mapping[str, str]:
        found: Mapping[str, str] = self._meta("section_classes")
        return found

    def section_class(self, section: str) -> str | None:
        """The class of a section when there is one (`TrainingConfig` for `train`); None for model, dataset and peft."""
        return self._section_classes.get(section)

    def fields(self, cls: str) -> Mapping[str, Field] | None:
        """All fields of a class by its short name; None when the release has no such configuration class."""
        if cls not in self._fields:
            entries = self._entries(cls)
            self._fields[cls] = None if entries is None else _Fields(entries, self._held)
        return self._fields[cls]

    def attributes(self, cls: str) -> frozenset[str]:
        """Names that are no fields but exist on the object (properties, methods): an override may set them upstream."""
        line = self._line(cls)
        return frozenset(decoded(line[3]).get("attributes", ())) if line is not None else frozenset()

    def nested_transformer(self, cls: str) -> bool:
        """Whether the Megatron-Core settings of this model class live in a nested `transformer`."""
        return "transformer" in (self.fields(cls) or ())

    def transformer_class(self, cls: str) -> str | None:
        """The class of that nested `transformer`; None when the model class has none."""
        return "TransformerConfig" if self.nested_transformer(cls) else None

    def path(self, cls: str) -> str | None:
        """The import path that `_target_` must have in this release; None for an unknown class."""
        if self._learned is not None and cls in self._learned.classes:
            return self._learned.classes[cls][0]
        line = self._line(cls)
        return None if line is None else line[1].decode()

    def classes(self) -> Iterator[str]:
        """The short names of all classes."""
        for line in self._data.split(b"\n")[1:]:
            if line and not line.startswith(b"."):
                yield line[: line.index(b"\t")].decode()

    def kind(self, cls: str) -> str | None:
        """One of "section", "model", "dataset", "peft", "nested" (specs, sources, ...); None for an unknown class."""
        if self._learned is not None and cls in self._learned.classes:
            return self._learned.classes[cls][1]
        line = self._line(cls)
        return None if line is None else line[2].decode()

    def class_of(self, target: str) -> str | None:
        """The short class name behind a `_target_` path when exactly that path can be imported in this release."""
        if target not in self._targets:
            if len(self._targets) > 4096:
                self._targets.clear()
            self._targets[target] = self._find_class(target)
        return self._targets[target]

    def _find_class(self, target: str) -> str | None:
        for name, entry in self._learned.classes.items() if self._learned is not None else ():
            if entry[0] == target:
                return name
        end = self._data.find(b"\t" + target.encode() + b"\t")
        if end >= 0:
            return self._data[self._data.rindex(b"\n", 0, end) + 1 : end].decode()
        found = self._aliases.get(target)
        return found if isinstance(found, str) else None

    def importable(self, target: str) -> bool | None:
        """Whether a `_target_` path can be imported: None where this is not known (libraries, functions, 0.7)."""
        if self.class_of(target) is not None:
            return True
        if not target.startswith("megatron.bridge.") or not self._modules:
            return None
        module, _, holder = target.rpartition(".")[0].rpartition(".")
        if not holder[:1].isupper():  # else a method of a class
            module = f"{module}.{holder}"
        return None if module in self._modules else False

    @functools.cached_property
    def _modules(self) -> frozenset[str]:
        """The modules of `megatron.bridge`; empty where the package was not at hand."""
        found: list[str] = []
        before: list[str] = []
        for coded in self._meta("modules"):
            shared, _, rest = coded.partition(" ")
            before = [*before[: int(shared)], *rest.split(".")]
            found.append(".".join(before))
        return frozenset(found)

    @functools.cached_property
    def _aliases(self) -> Mapping[str, str]:
        return {f"{module}.{name}": cls for module, names in self._meta("aliases").items() for name, cls in names.items()}

    @functools.cached_property
    def _any_model(self) -> frozenset[str]:
        return frozenset(self._meta("model_fields")).union(self._added("model"))

    @functools.cached_property
    def _any_dataset(self) -> frozenset[str]:
        return frozenset(self._meta("dataset_fields")).union(self._added("dataset"))

    def _added(self, kind: str) -> Iterator[str]:
        for entry in self._learned.classes.values() if self._learned is not None else ():
            if entry[1] == kind:
                yield from entry[2]
        for cls, fields in self._later.items():
            if self.kind(cls) == kind:
                yield from fields

    def any_model_fields(self) -> Collection[str]:
        """The union of the fields of all model classes."""
        return self._any_model

    def any_dataset_fields(self) -> Collection[str]:
        """The union of the fields of all dataset classes."""
        return self._any_dataset

    @functools.cached_property
    def enums(self) -> Mapping[str, Mapping[str, int]]:
        """Enumerations a configuration may hold: name -> member -> value."""
        found: Mapping[str, Mapping[str, int]] = self._meta("enums")
        return found

    @functools.cached_property
    def _mixed_precisions(self) -> Mapping[str, Mapping[str, Any]]:
        common = {k: f.default for k, f in (self.fields("MixedPrecisionConfig") or {}).items()}
        return {name: {**common, **sets} for name, sets in self._meta("mixed_precision").items()}

    @property
    def mixed_precision_names(self) -> Collection[str]:
        """The names `mixed_precision` accepts."""
        return self._mixed_precisions.keys()

    def mixed_precision(self, name: str) -> Mapping[str, Any] | None:
        """Every field of the mixed-precision object that `name` stands for; None when the release lacks the name."""
        return self._mixed_precisions.get(name)


@functools.cache
def schema(release_name: str, patch: str = "") -> Schema:
    """The schema of "0.3" ... "nightly", as of a patch (none: the newest known). Raises KeyError for other releases."""
    if release_name not in RELEASES:
        raise KeyError(f"no schema for release {release_name!r}")
    if patch == releases.newest_patch(release_name):
        return schema(release_name)
    return Schema(release_name, patch)


def releases_with(section: str, key: str) -> list[str]:
    """The releases, oldest first, that know `section.key` on the section's class or on any model or dataset class."""
    return [r for r in RELEASES if _knows(schema(r), section, key)]


def classes_with(release_name: str, section: str, key: str) -> list[str]:
    """The classes of the section that have the field, in the order of the data file."""
    return [c for c in classes(release_name, section) if key in (schema(release_name).fields(c) or {})]


def classes(release_name: str, kind: str) -> list[str]:
    """All classes of a kind ("model", "dataset", "peft", "nested", "section") of a release."""
    return list(_classes(release_name, kind))


@functools.cache
def _classes(release_name: str, kind: str) -> tuple[str, ...]:
    wanted = kind.encode()
    lines = (line.split(b"\t", 3) for line in schema(release_name)._data.split(b"\n"))
    return tuple(line[0].decode() for line in lines if len(line) == 4 and line[2] == wanted)


def _knows(known: Schema, section: str, key: str) -> bool:
    if section == "model":
        return key in known.any_model_fields()
    if section == "dataset":
        return key in known.any_dataset_fields()
    cls = known.section_class(section)
    return cls is not None and key in (known.fields(cls) or {})
