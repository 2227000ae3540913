"""Fields read from the sources of the four published packages are those that mbpack ships, which were taken from the running packages."""

from __future__ import annotations

import time

import pytest

from mbpack.facts.schema import Schema, classes
from mbpack.learn.lists.fields import Reader
from mbpack.learn.lists.tree import open_tree

from .real import environments

KINDS = ("model", "section", "dataset", "nested", "peft")
#: Defaults that the start of the package works out on the machine.
ON_THE_MACHINE = ("gradient_accumulation_fusion", "moe_permute_fusion", "vision_config")
#: Classes that get fields from libraries outside the package.
FOREIGN = ("HFEncoderTaskBatch", "HFEnergonBatch", "NemotronOmniTaskBatch", "Qwen3ASRThinkerConfig", "SourceInfo")


@pytest.mark.conformance
@pytest.mark.parametrize("release", ["0.3", "0.4", "0.5", "0.6"])
def test_fields_read_are_the_fields_that_run(release: str) -> None:
    _, packages, _ = environments.find(release)
    start = time.perf_counter()
    reader, known = Reader(open_tree(str(packages[0]))), Schema(release, shipped=True)
    wrong = []
    for kind in KINDS:
        for name in classes(release, kind):
            found, shipped = reader.at(known.path(name) or ""), dict(known.raw_fields(name) or {})
            if name in FOREIGN:
                continue
            assert found is not None, name
            wrong += [
                f"{name}.{key}: {found.fields.get(key)} instead of {shipped.get(key)}"
                for key in {*found.fields, *shipped}
                if key not in ON_THE_MACHINE and repr(found.fields.get(key)) != repr(shipped.get(key))
            ]
    assert wrong == []
    assert time.perf_counter() - start < 60
