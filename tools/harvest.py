#!/usr/bin/env python3
"""Harvest the facts of a Megatron-Bridge release into mbpack's data files.

usage: python tools/harvest.py RELEASE [--data DIR] [--dump FILE] [--gpu H100]

RELEASE ("0.6", or a patch release) must be set up by `python -m tests.conformance.real setup DIR RELEASE`; this script
starts itself again inside that environment. There it reads the classes by reflection, calls every recipe function, and
writes `schema-<release>.tsv`, `recipes-<release>.tsv` and `names-<release>.tsv`, with the package versions stamped in.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import io
import json
import logging
import os
import subprocess
import sys
import time
import typing
import warnings
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
CARDS = HERE / "model_cards.json"
#: the real packages, and stand-ins for the libraries that need CUDA
REAL = HERE.parent / "tests" / "conformance" / "real"


def enter(release: str) -> None:
    """Run this script again with the packages of a release."""
    sys.path.insert(0, str(HERE.parent))
    from tests.conformance.real import environments

    try:
        python, packages, transformer_engine = environments.find(release)
    except environments.EnvironmentMissing as error:
        sys.exit(str(error))
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    environment["PYTHONPATH"] = os.pathsep.join(map(str, [*packages, HERE, REAL]))
    environment.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", OMP_NUM_THREADS="1", WORLD_SIZE="1")
    inside = [str(python), __file__, *sys.argv[1:], "--inside", transformer_engine]
    sys.exit(subprocess.run(inside, env=environment).returncode)


def harvest() -> tuple[dict[str, Any], dict[str, Any]]:
    """The schema dump and the recipe dump of the installed release."""
    import classes
    import offline_models
    import recipe_calls

    versions = {p: importlib.metadata.version(p) for p in ("megatron-bridge", "megatron-core")}
    release = ".".join(versions["megatron-bridge"].split(".")[:2])
    failed = classes.import_everything("megatron.bridge")
    for module, error in failed.items():
        print(f"not importable: {module}: {error}", file=sys.stderr)
    calls = recipe_calls.Calls(offline_models, json.loads(CARDS.read_text(encoding="utf-8")))
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("release")
    parser.add_argument("--data", type=Path, default=HERE.parent / "src/mbpack/facts/data")
    parser.add_argument("--dump", type=Path, help="also write everything as one JSON file")
    parser.add_argument("--gpu", default="H100", help="the GPU that recipes find: A100, H100, B200, GB200 ...")
    parser.add_argument("--inside", metavar="TE", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inside is None:
        enter(arguments.release)
    import factsfile
    import names
    import standins

    if not hasattr(typing, "override"):  # the packages ask for Python 3.12; this is all they need of it
        typing.override = lambda method: method  # type: ignore[attr-defined]
    standins.install(arguments.inside)
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    standins.pretend_gpu(arguments.gpu)
    with contextlib.redirect_stdout(io.StringIO()):
        schema, recipes = harvest()
    if arguments.dump:
        arguments.dump.write_text(json.dumps({"schema": schema, "recipes": recipes}, indent=1), encoding="utf-8")
    release = schema["release"]
    target = arguments.data / f"schema-{release}.tsv"
    factsfile.write_schema(target, {**schema, **factsfile.kept(target)})
    factsfile.write_recipes(arguments.data / f"recipes-{release}.tsv", recipes)
    with contextlib.redirect_stdout(io.StringIO()):
        held = names.collect()
    factsfile.write_names(arguments.data / f"names-{release}.tsv", {**held, "release": release, "packages": schema["packages"]})
    print(f"{release} ({schema['packages']}): {len(schema['classes'])} classes, {len(recipes['recipes'])} recipes")


if __name__ == "__main__":
    main()
