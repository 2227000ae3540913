"""What kinds of value shipped recipes give to fields whose annotation says otherwise, from the recorded dumps of all recipes.

    python tools/held_kinds.py              write them into the schema files (line `.held`)
    python tools/held_kinds.py --check      say what would change; exit code 1 when anything would

`rotary_base: int` holds 10000.0 after every conversion of a public model, and upstream calculates with it: a type is what the
annotation, the default, or any real file says. The dumps are `tests/data/dumps` (`python -m tests.conformance.dumps record`).
Releases without dumps take the kinds of the one before.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).resolve().parent
for folder in (HERE, HERE.parent, HERE.parent / "src"):
    sys.path.insert(0, str(folder))

import factsfile  # noqa: E402
from tests.conformance import dumps  # noqa: E402

from mbpack.facts import schema  # noqa: E402

NAMES = {bool: "bool", int: "int", float: "float", str: "str", list: "list"}
#: Types that a value of a kind is right for, beside the type of its own name.
FITS = {"int": ("float",), "str": ("literal", "torch.dtype", "Path", "enum:"), "list": ("tuple", "Sequence", "set", "list")}


class Loader(yaml.CSafeLoader):
    """Sets are read as lists."""


Loader.add_constructor("tag:yaml.org,2002:set", lambda loader, node: list(loader.construct_mapping(node)))


def objects(tree: Any) -> Iterator[Mapping[str, Any]]:
    """Every mapping with a `_target_`, at any depth."""
    if isinstance(tree, list):
        for child in tree:
            yield from objects(child)
    if isinstance(tree, dict):
        if isinstance(tree.get("_target_"), str):
            yield tree
        for child in tree.values():
            yield from objects(child)


def fits(kind: str, declared: str) -> bool:
    """Whether a type says that a value may be of a kind."""
    parts = declared.split("|")
    if "Any" in declared or kind in parts:
        return True
    if kind == "int" and "literal" in declared:
        return True
    return any(part.startswith((kind, *FITS.get(kind, ()))) for part in parts)


def held(release: str) -> dict[str, str]:
    """Field name -> the kind that a recipe of the release gives it against its annotation."""
    known = schema.Schema(release)
    known.__dict__["_held"] = {}  # the annotations alone
    found: dict[str, str] = {}
    for row in dumps.saved(release):
        for item in objects(yaml.load(row["yaml"], Loader)):
            fields = known.fields(known.class_of(item["_target_"]) or "") or {}
            for name in item.keys() & fields.keys():
                kind = NAMES.get(type(item[name]))
                if kind is not None and not fits(kind, fields[name].type):
                    found[name] = kind
    return dict(sorted(found.items()))


def main() -> int:
    """Command line."""
    changed = False
    newest: dict[str, str] = {}
    for release in schema.RELEASES:
        path = Path(schema.DATA) / f"schema-{release}.tsv"
        if not path.exists():  # nightly lies in the file of 0.7
            continue
        if dumps.path_of(release).exists():
            newest = held(release)
        recorded = factsfile.kept(path)["held"]
        if newest != recorded:
            changed = True
            print(f"{release}: {recorded} -> {newest}")
            if "--check" not in sys.argv[1:]:
                factsfile.write_held(path, newest)
    return int(changed and "--check" in sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
