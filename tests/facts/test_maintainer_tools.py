"""The maintainer tools: reading classes by reflection, the data file format, the comparison of two releases."""

from __future__ import annotations

import dataclasses
import enum
import functools
import importlib
import sys
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, Optional, Union

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mbpack.facts import recipes, schema
from mbpack.facts.releases import R06
from mbpack.facts.schema import NO_DEFAULT, Field

TOOLS = Path(__file__).resolve().parents[2] / "tools"


def tool(name: str) -> ModuleType:
    """A module of the tools folder, which is no package."""
    sys.path.insert(0, str(TOOLS))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(TOOLS))


factsfile, reflect, diff_releases = tool("factsfile"), tool("reflect"), tool("diff_releases")


class Backend(enum.Enum):
    FLASH = 1


class CudaGraphScope(enum.Enum):
    attn = 1


@dataclasses.dataclass
class Inner:
    size: int = 4


@dataclasses.dataclass
class Outer:
    required: int
    name: str = "x"
    inner: Inner = dataclasses.field(default_factory=Inner)
    derived: bool = dataclasses.field(default=False, init=False)
    backend: Backend = Backend.FLASH

    def method(self) -> None: ...

    @property
    def alias(self) -> int:
        return self.required


# ---------------------------------------------------------------------- reflection


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (int, "int"),
        (None, "null"),
        (Optional[int], "int|null"),  # noqa: UP045 - the spelling is the point
        (Union[None, str, int], "str|int|null"),  # noqa: UP007
        (int | None, "int|null"),
        (list[str] | None, "list[str]|null"),
        (dict[str, Any], "dict[str,Any]"),
        (tuple[int, ...], "tuple[int,...]"),
        (Literal["a", "b"], "literal['a','b']"),
        (Literal[0, 1] | None, "literal[0,1]|null"),
        (Callable[[int], str], "callable"),
        (typing.Callable, "callable"),
        (typing.List[int], "list[int]"),  # noqa: UP006
        (Backend, "enum:Backend"),
        (type[int], "type"),
        (typing.Annotated[int, "tokens"], "int"),
        ("Optional['Config']", "Optional['Config']"),
        (Outer, "Outer"),
    ],
)
def test_types_as_text(annotation: Any, text: str) -> None:
    assert reflect.render(annotation) == text


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (None, None),
        (True, True),
        (3, 3),
        (1.5, 1.5),
        (float("inf"), float("inf")),
        (float("nan"), {"~": "nan"}),
        ("text", "text"),
        ("/home/somebody/x", {"~": "<absolute path>"}),
        (Path("data/sft"), {"~": "<path data/sft>"}),
        (Path("/data/sft"), {"~": "<absolute path>"}),
        ((1, 2), [1, 2]),
        ({"b", "a"}, ["a", "b"]),
        ({1: (2,)}, {"1": [2]}),
        (Backend.FLASH, {"~": "<enum Backend.FLASH>"}),
        (CudaGraphScope.attn, "attn"),
        (len, {"~": "<callable len>"}),
        (functools.partial(len, ()), {"~": "<callable len>"}),
        (object(), {"~": "<object object>"}),
    ],
)
def test_values_as_plain_data(value: Any, encoded: Any) -> None:
    assert reflect.encode(value) == encoded


def test_fields_of_a_class() -> None:
    assert reflect.fields_of(Outer) == {
        "required": ["int"],
        "name": ["str", "x"],
        "inner": ["Inner", {"~": "<object Inner>"}],
        "derived": ["bool", False, 0],
        "backend": ["enum:Backend", {"~": "<enum Backend.FLASH>"}],
    }


def test_attributes_beside_the_fields() -> None:
    assert {"method", "alias"} <= reflect.attributes_of(Outer)
    assert "name" not in reflect.attributes_of(Outer)
    loose = Outer(1)
    loose.extra = 1  # type: ignore[attr-defined]
    assert "extra" in reflect.attributes_of(Outer, loose)


def test_what_differs_from_the_defaults() -> None:
    assert reflect.differences(Outer(1), objects=False) == {"required": 1}
    assert reflect.differences(Outer(1, name="y"), objects=False) == {"required": 1, "name": "y"}


@pytest.mark.parametrize(
    ("a", "b", "equal"), [(0, False, False), (1, 1.0, True), ([1], [True], False), ({"a": 1}, {"a": 1}, True)]
)
def test_equality_tells_a_number_from_a_boolean(a: Any, b: Any, equal: bool) -> None:
    assert reflect.same(a, b) is equal


# ---------------------------------------------------------------------- the data files

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab\t\n\"'é", max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["k", "m"]), inner, max_size=2),
    max_leaves=4,
)
PATHS = st.sampled_from(["train.micro_batch_size", "model.seq_length", "model.num_layers?", "model.heads??", "dataset.path"])


@pytest.fixture
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    caches = (recipes.find, recipes._read, recipes._aliases, recipes._paths, recipes._names)
    monkeypatch.setattr(schema, "DATA", str(tmp_path))
    for cache in caches:
        cache.cache_clear()
    yield tmp_path
    for cache in caches:
        cache.cache_clear()


@given(st.dictionaries(st.sampled_from([f"r{i}_config" for i in range(6)]), st.dictionaries(PATHS, VALUES), max_size=6))
@settings(max_examples=60, deadline=None)
def test_every_entry_can_be_rebuilt_from_its_parents(entries: dict[str, dict[str, Any]]) -> None:
    rebuilt: dict[str, dict[str, Any]] = {}
    for name, parent, changed, gone in factsfile.with_parents(entries):
        values = dict(rebuilt[parent]) if parent else {}
        for path in gone:
            del values[path]
        values.update(changed)
        rebuilt[name] = values
    assert rebuilt.keys() == entries.keys()
    assert all(factsfile.same(rebuilt[name], entries[name]) for name in entries)


def test_recipes_written_are_recipes_read(data_folder: Path) -> None:
    written = {
        "a_sft_config": {
            "@module": "m.a",
            "@dataset_class": "D",
            "train.micro_batch_size": 1,
            "model.num_layers?": 2,
            "model.num_attention_heads??": 32,
            "dataset.path": "a\tb\nc",
            "dataset.specs._target_": "x.Specs",
            "dataset.specs.size": 4096,
            "model.activation_func": {"~": "<callable silu>"},
        },
        "b_sft_config": {"@module": "m.b", "@dataset_class": "D", "train.micro_batch_size": 2, "model.num_layers?": 2},
        "c_sft_config": {"@module": "m.b", "@unavailable": "OSError: no"},
    }
    dump = {"release": "0.6", "packages": {}, "recipes": written, "aliases": {"old_config": "b_sft_config"}}
    factsfile.write_recipes(data_folder / "recipes-0.6.tsv", dump)
    assert recipes.names("0.6") == sorted(written)
    first, second, third = (recipes.find("0.6", name) for name in written)
    assert first is not None
    assert second is not None
    assert third is not None
    assert first.values["dataset.path"] == "a\tb\nc"
    assert first.values["dataset.specs"] == {"_target_": "x.Specs", "size": 4096}
    assert first.values["model.activation_func"] == schema.Opaque("<callable silu>")
    assert (first.likely, first.guessed) == (
        {"model.num_layers", "model.num_attention_heads"},
        {"model.num_attention_heads"},
    )
    assert second.values == {"train.micro_batch_size": 2, "model.num_layers": 2}
    assert recipes.find("0.6", "old_config") == second
    assert third.unavailable == "OSError: no"
    assert recipes.modules("0.6") == {"m.a": ["a_sft_config"], "m.b": ["b_sft_config", "c_sft_config"]}


def test_a_schema_written_is_the_schema_read(data_folder: Path) -> None:
    fields = {f"field_{i}": ["int", i] for i in range(20)}
    child = {**fields, "field_3": ["int", True], "extra": ["str"], "later": ["str", {"~": "<object X>"}, 0]}
    del child["field_4"]
    dump = {
        "release": "0.6",
        "packages": {"megatron-bridge": "0.6.2"},
        "sections": {"train": ["TrainingConfig"]},
        "section_classes": {"train": "Base"},
        "classes": {
            "Base": {"path": "m.n.Base", "kind": "section", "fields": fields},
            "Child": {"path": "m.n.Child", "kind": "model", "fields": child, "attributes": ["provide"]},
        },
        "model_fields": ["extra"],
        "aliases": {"m": {"Base": "Base"}},
        "modules": ["0 megatron.bridge", "2 a.b", "3 c"],
        "enums": {"E": {"a": 1}},
        "mixed_precision": {},
        "later": {"0.6.3": {"Base": {"new": ["bool", False]}}},
    }
    path = data_folder / "schema-0.6.tsv"
    factsfile.write_schema(path, dump)
    read = schema.Schema("0.6")
    assert read.packages == {"megatron-bridge": "0.6.2"}
    assert dict(read.fields("Base") or {}) == {n: Field("int", e[1], True) for n, e in fields.items()}
    known = read.fields("Child")
    assert known is not None
    assert known.keys() == child.keys()
    assert known["field_3"] == Field("int", True, True)
    assert known["extra"].default is NO_DEFAULT
    assert known["later"] == Field("str", schema.Opaque("<object X>"), False)
    assert read.class_of("m.Base") == read.class_of("m.n.Base") == "Base"
    assert read.attributes("Child") == {"provide"}
    assert read.importable("megatron.bridge.a.b.f") is None
    assert read.importable("megatron.bridge.a.d.f") is False
    assert factsfile.kept(path)["later"] == {"0.6.3": {"Base": {"new": ["bool", False]}}}
    assert factsfile.kept(data_folder / "nothing.tsv") == {"later": {}, "held": {}}


@given(st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map(lambda p: ".".join(["m", *p])), unique=True))
@settings(max_examples=50, deadline=None)
def test_module_names_survive_their_short_form(names: list[str]) -> None:
    known = schema.Schema.__new__(schema.Schema)
    coded = tool("classes").front_coded(sorted(names))
    known._meta = lambda key: coded  # type: ignore[method-assign]
    assert known._modules == set(names)


# ---------------------------------------------------------------------- comparing releases


def test_changes_of_fields() -> None:
    old = {
        "packed_sequence_specs": Field("Specs|null", None, True),
        "size": Field("int", 1, True),
        "kind": Field("str", "a", True),
        "away": Field("int", 7, True),
        "derived": Field("int", 0, True),
    }
    new = {
        "offline_packing_specs": Field("Specs|null", None, True),
        "size": Field("int", 2, True),
        "kind": Field("str|null", "a", True),
        "fresh": Field("bool", NO_DEFAULT, True),
        "derived": Field("int", 0, False),
    }
    assert list(diff_releases.field_changes(old, new)) == [
        "renamed     packed_sequence_specs -> offline_packing_specs",
        "new         fresh: bool = required",
        "gone        away",
        "default     size: 1 -> 2",
        "type        kind: str -> str|null",
        "constructor derived: no longer takes it",
    ]


def test_a_rename_needs_the_same_type_default_and_a_like_name() -> None:
    gone = {"pad_to_multiple": Field("int", 128, True), "other": Field("int", 1, True)}
    new = {"pad_to_multiple_of": Field("int", 128, True), "unlike": Field("int", 1, True)}
    assert diff_releases.renamed(gone, new) == {"pad_to_multiple": "pad_to_multiple_of"}


def test_the_report_of_two_releases() -> None:
    lines = list(diff_releases.class_changes(schema.schema("0.5"), schema.schema("0.6"), everything=False))
    text = "\n".join(lines)
    assert "renamed     packed_sequence_specs -> offline_packing_specs" in text
    assert "new   GPTSFTDatasetConfig" in text
    assert "gone  EnergonProvider" in text
    assert "new         num_epochs: float|null = None" in text
    others = "\n".join(diff_releases.other_changes(schema.schema("0.5"), schema.schema("0.6")))
    assert "new   env_vars" in others
    same = schema.schema(R06.name)
    assert all(line.startswith(("\n##", "##")) for line in diff_releases.class_changes(same, same, everything=True))


def test_the_report_on_recipes() -> None:
    lines = list(diff_releases.recipe_changes("0.4", "0.5"))
    assert any(line.startswith("new") and "nemotron_3_ultra" in line for line in lines)
    assert not list(diff_releases.recipe_changes("0.6", "0.6"))[1:]
