#!/usr/bin/env python3
"""Harvest the facts of an installed Megatron-Bridge release into mbpack's data files.

usage: python tools/harvest.py [--data DIR] [--dump FILE] [--hub MODULE] [--gpu H100]

Run it with a Python in which `megatron.bridge` can be imported (see tools/README.md). It reads the classes by
reflection, calls every recipe function, and writes `schema-<release>.tsv` and `recipes-<release>.tsv`, with the package
versions stamped in. `--hub` names a module whose `install()` makes Hugging Face configurations available offline.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.metadata
import io
import json
import logging
import os
import sys
import time
import types
import warnings
from pathlib import Path
from typing import Any

import classes
import factsfile
import recipe_calls

CARDS = Path(__file__).with_name("model_cards.json")
#: compute capability and name per GPU; a few recipes and checks ask for them
GPUS = {
    "A100": (8, 0, "NVIDIA A100-SXM4-80GB"),
    "H100": (9, 0, "NVIDIA H100 80GB HBM3"),
    "B200": (10, 0, "NVIDIA B200"),
    "GB200": (10, 0, "NVIDIA GB200"),
}


def pretend_gpu(name: str) -> None:
    """Let torch report a GPU's properties, without one."""
    import torch

    major, minor, full = GPUS[name]
    properties = types.SimpleNamespace(name=full, major=major, minor=minor, total_memory=80 * 2**30, multi_processor_count=132)
    torch.cuda.get_device_properties = lambda device=None: properties
    torch.cuda.get_device_capability = lambda device=None: (major, minor)
    torch.cuda.get_device_name = lambda device=None: full


def harvest(hub: str | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """The schema dump and the recipe dump of the installed release."""
    versions = {p: importlib.metadata.version(p) for p in ("megatron-bridge", "megatron-core")}
    release = ".".join(versions["megatron-bridge"].split(".")[:2])
    failed = classes.import_everything("megatron.bridge")
    for module, error in failed.items():
        print(f"not importable: {module}: {error}", file=sys.stderr)
    calls = recipe_calls.Calls(importlib.import_module(hub) if hub else None, json.loads(CARDS.read_text(encoding="utf-8")))
    found = recipe_calls.find()
    results = {}
    for name, (function, perf) in found.items():
        start = time.perf_counter()
        record = calls.call(name, function, perf)
        if record is not None:
            results[name] = record
        if time.perf_counter() - start > 5:
            print(f"slow: {name} {time.perf_counter() - start:.1f} s", file=sys.stderr)
    schema = {"release": release, "packages": versions, **classes.collect(calls.seen)}
    names = {c["path"]: n for n, c in schema["classes"].items()}
    recipes = {n: recipe_calls.named(r, names) for n, r in results.items()}
    return schema, {
        "release": release,
        "packages": versions,
        "recipes": recipes,
        "aliases": recipe_calls.aliases(recipes),
    }


def main() -> None:
    """Command line."""
    here = Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=here.parent / "src/mbpack/facts/data")
    parser.add_argument("--dump", type=Path, help="also write everything as one JSON file, for diff_releases.py")
    parser.add_argument("--hub", help="module whose install() provides Hugging Face configurations offline")
    parser.add_argument("--gpu", default="H100", choices=GPUS)
    arguments = parser.parse_args()
    os.environ.setdefault("WORLD_SIZE", "1")
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    pretend_gpu(arguments.gpu)
    with contextlib.redirect_stdout(io.StringIO()):
        schema, recipes = harvest(arguments.hub)
    if arguments.dump:
        arguments.dump.write_text(json.dumps({"schema": schema, "recipes": recipes}, indent=1), encoding="utf-8")
    release = schema["release"]
    factsfile.write_schema(arguments.data / f"schema-{release}.tsv", schema)
    factsfile.write_recipes(arguments.data / f"recipes-{release}.tsv", recipes)
    print(f"{release} ({schema['packages']}): {len(schema['classes'])} classes, {len(recipes['recipes'])} recipes")


if __name__ == "__main__":
    main()
