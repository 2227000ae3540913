"""The names of all fields, kept beside the schemas, are those of the schemas."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

from mbpack.facts import field_names, schema
from mbpack.facts.homes import homes
from mbpack.facts.releases import R05, R06

TOOL = Path(__file__).parent.parent.parent / "tools" / "field_names.py"


def test_they_are_those_of_the_schemas() -> None:
    spec = importlib.util.spec_from_file_location("field_names_tool", TOOL)
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    written = Path(os.path.join(schema.DATA, "field-names.txt")).read_text(encoding="ascii")
    assert written == tool.text()


def test_every_common_and_every_telling_name_is_a_field() -> None:
    known = {name for section in schema.schema("0.6").sections for name in field_names.names_in(section)}
    known |= {
        name
        for release in schema.RELEASES
        for section in schema.schema(release).sections
        for name in field_names.names_in(section)
    }
    assert known >= field_names._TELLING
    assert known >= field_names._COMMON


@pytest.mark.parametrize(
    ("name", "places"),
    [
        ("seq_length", ("model.seq_length", "dataset.seq_length")),
        ("micro_batch_size", ("train.micro_batch_size",)),
        ("context_parallel_size", ("model.context_parallel_size",)),
        ("tensor_model_parallel_size", ("model.tensor_model_parallel_size",)),
        ("pad_seq_to_mult", ("dataset.offline_packing_specs.pad_seq_to_mult",)),
        ("lr_warmup_iters", ("scheduler.lr_warmup_iters",)),
        ("average_in_collective", ("ddp.average_in_collective",)),
        ("nothing_of_this", ()),
    ],
)
def test_where_a_name_belongs(name: str, places: tuple[str, ...]) -> None:
    found = homes(R06, name)
    assert found[: len(places)] == places
    assert bool(found) == bool(places)


def test_a_home_has_the_name_of_its_release() -> None:
    assert homes(R05, "pad_seq_to_mult") == ("dataset.packed_sequence_specs.pad_seq_to_mult",)
