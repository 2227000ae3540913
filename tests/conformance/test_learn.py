"""Fields and recipe values read from the sources of the four published packages are those that mbpack ships.

What mbpack ships was taken from the running packages.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from mbpack.facts import recipes
from mbpack.facts.recipes import UNREAD
from mbpack.facts.schema import Schema, classes
from mbpack.learn.lists.fields import Reader
from mbpack.learn.lists.tree import open_tree
from mbpack.learn.recipes.encode import same
from mbpack.learn.recipes.job import Recipes, read_all

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
    start = time.process_time()
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
    assert time.process_time() - start < 60


#: Share of the recipes' own values that reading must find: what is left depends on a public model's configuration or the machine.
LEARNED = {"0.3": 0.99, "0.4": 0.99, "0.5": 0.985, "0.6": 0.985}


@pytest.mark.conformance
@pytest.mark.parametrize("release", list(LEARNED))
def test_values_read_are_the_values_that_the_recipes_return(release: str) -> None:
    """Where reading says a value it is the shipped one; what differs is named as not read."""
    _, packages, _ = environments.find(release)
    start = time.process_time()
    known = Schema(release, shipped=True)
    paths = {name: known.path(name) or "" for kind in KINDS for name in classes(release, kind)}
    found = read_all(Reader(open_tree(str(packages[0]))), release, paths)
    took = time.process_time() - start
    held = [*recipes.names(release), "_sft_common", "_peft_common", "_pretrain_common"]
    assert [name for name in held if name not in found.modules and recipes.stored(release, name) is not None] == []
    assert found.aliases == {**recipes._aliases(release)}
    wrong, counted, read = [], 0, 0
    for name in held:
        shipped = recipes.stored(release, name)
        if shipped is None:
            continue
        if "@unavailable" in shipped:
            assert found.by_name[name] == "it stops with an error"
            continue
        own = found.held[name]
        assert own.get("@hf_id") == shipped.get("@hf_id"), name
        for path in shipped.keys() | own.keys():
            if path[0] == "@" or path[-1] == "?" or own.get(path) == UNREAD or _above(own, path) == UNREAD:
                counted += path in shipped and path[0] != "@" and path[-1] != "?"
                continue
            mine, theirs = own.get(path, _default(known, shipped, path)), shipped.get(path, _default(known, shipped, path))
            counted, read = counted + (path in shipped), read + (path in shipped and path in own)
            exact = path not in shipped or type(mine) is type(theirs)
            if not (same(mine, theirs) and exact) and not _inferred(own, shipped, path):
                wrong.append(f"{name} {path}: {mine!r} instead of {theirs!r}")
    assert wrong == []
    assert read / counted >= LEARNED[release]
    assert took < 60
    _say(release, found, read, counted, took)


def _above(own: dict[str, Any], path: str) -> Any:
    """The value of the nearest path above one that is held."""
    while path := path.rpartition(".")[0]:
        if path in own:
            return own[path]
    return None


def _default(known: Schema, shipped: dict[str, Any], path: str) -> Any:
    """What the class of a converted model gives to a field: reading cannot tell whether a value that is set differs from it."""
    section, _, field = path.partition(".")
    if section != "model":
        return "the class's default"
    cls = shipped.get("@model_class") or ""
    for name in filter(None, (cls, known.transformer_class(cls))):
        entry = (known.raw_fields(name) or {}).get(field)
        if entry is not None and len(entry) > 1:
            return entry[1]
    return "the class's default"


def _inferred(own: dict[str, Any], shipped: dict[str, Any], path: str) -> bool:
    """Of a converted model, a value that a recipe did not set is marked as likely, or not stored."""
    model = own.get("@complete") is False and path.startswith("model.")
    return model and (
        f"{path}?" in own or f"{path}??" in own or f"{path}?" in shipped or f"{path}??" in shipped or path not in own
    )


def _say(release: str, found: Recipes, read: int, counted: int, took: float) -> None:
    print(f"{release}: {read:,} of {counted:,} values of {len(found.held)} recipes, {100 * read / counted:.1f}%, in {took:.1f} s")


@pytest.mark.conformance
def test_the_doctor_says_the_same_with_a_learned_release(tmp_path: Path) -> None:
    """Every eighth recipe of 0.6, as shipped and as learned: what is not known may stay open, nothing is judged otherwise."""
    _, packages, _ = environments.find("0.6")
    names = [name for name in recipes.names("0.6") if not name.startswith("perf:")][::8]
    files = [tmp_path / f"{index}.yaml" for index in range(len(names))]
    for file, name in zip(files, names, strict=True):
        file.write_text(
            f"# mbpack: bridge=0.6.2 recipe={name} gpus=64 launcher=script\n"
            "model: {seq_length: 4096, context_parallel_size: 2, calculate_per_token_loss: true}\n"
        )
    judged = []
    for cache in (tmp_path / "empty", tmp_path / "learned"):
        environment = {**os.environ, "MBPACK_CACHE_DIR": str(cache)}
        if cache.name == "learned":
            command = [sys.executable, "-m", "mbpack", "learn", "--from", str(packages[0])]
            subprocess.run(command, check=True, env=environment, capture_output=True)
        command = [sys.executable, "-m", "mbpack", "doctor", "--format", "json", *map(str, files)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        judged.append({one["path"]: one["verdict"] for one in json.loads(done.stdout)["files"]})
    shipped, own = judged
    assert {(shipped[path], own[path]) for path in own if own[path] not in ("unknown", shipped[path])} == set()
    assert sum(own[path] == "unknown" for path in own) < len(own) / 5
