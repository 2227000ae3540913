"""Write the data files of `mbpack.facts.data`.

The files are line based so that a reader finds one class or one recipe by a byte search and parses only that line
(the formats are described in `mbpack.facts.schema` and `mbpack.facts.recipes`, which read them). To stay small, a
class or a recipe is stored as its difference to the entry it resembles most.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

MISSING = object()
META = (
    *("sections", "section_classes", "model_fields", "dataset_fields"),
    *("enums", "mixed_precision", "later", "held", "aliases", "modules"),
)
MAX_DEPTH = 3  # entries a reader has to parse for one class or recipe


def compact(value: Any) -> str:
    """JSON on one line, without spaces."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=False)


def difference(parent: Mapping[str, Any], child: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """What to set and what to take away to get from `parent` to `child`; nested mappings are compared whole."""
    changed = {k: v for k, v in child.items() if k not in parent or not same(parent[k], v)}
    return changed, [k for k in parent if k not in child]


def same(a: Any, b: Any) -> bool:
    """Equality that tells 0 from False and 1.0 from 1."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and bool(a == b)


def with_parents(
    entries: Mapping[str, Mapping[str, Any]],
) -> Iterable[tuple[str, str | None, dict[str, Any], list[str]]]:
    """Yield (name, parent, changed keys, keys taken away); the parent is the earlier entry that resembles it most."""
    depth: dict[str, int] = {}
    for name, entry in entries.items():
        best: tuple[int, str | None, dict[str, Any], list[str]] = (len(compact(entry)), None, dict(entry), [])
        for other, levels in depth.items():
            if levels < MAX_DEPTH:
                changed, gone = difference(entries[other], entry)
                size = len(compact(changed)) + len(compact(gone)) + len(other) + 8
                if size < best[0]:
                    best = (size, other, changed, gone)
        depth[name] = 1 if best[1] is None else depth[best[1]] + 1
        yield name, best[1], best[2], best[3]


def write_schema(path: Path, dump: Mapping[str, Any]) -> None:
    """Write `schema-<release>.tsv`. `dump` has release, packages, sections, classes, and what `META` lists."""
    lines = [f"mbpack-schema 1\t{compact({'release': dump['release'], 'packages': dump['packages']})}"]
    for key in META:
        lines.append(f".{key}\t{compact(dump.get(key, {}))}")
    classes = dump["classes"]
    for name, parent, changed, gone in with_parents({n: c["fields"] for n, c in classes.items()}):
        entry = classes[name]
        body: dict[str, Any] = {"parent": parent} if parent else {}
        if gone:
            body["lacks"] = gone
        if entry.get("attributes"):
            body["attributes"] = entry["attributes"]
        body["fields"] = changed
        lines.append(f"{name}\t{entry['path']}\t{entry['kind']}\t{compact(body)}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def kept(path: Path) -> dict[str, Any]:
    """What an existing schema file carries that no harvest finds: what patches after the harvested one add, the kinds that recipes hold."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    found = {name: next((line for line in lines if line.startswith(f".{name}\t")), "\t{}") for name in ("later", "held")}
    return {name: json.loads(line.partition("\t")[2]) for name, line in found.items()}


def write_held(path: Path, held: Mapping[str, str]) -> None:
    """Put the kinds that recipes hold into an existing schema file (see `tools/held_kinds.py`)."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith(".held\t")]
    at = next(index for index, line in enumerate(lines) if line.startswith(".later\t")) + 1
    lines.insert(at, f".held\t{compact(held)}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_recipes(path: Path, dump: Mapping[str, Any]) -> None:
    """Write `recipes-<release>.tsv`. `dump` has release, packages, aliases, recipes (name -> path -> value).

    Paths are written as their index in the line `.paths`.
    """
    recipes = dump["recipes"]
    used = Counter(p for record in recipes.values() for p in record)
    paths = [p for p, _ in sorted(used.items(), key=lambda item: (-item[1], item[0]))]
    index = {p: i for i, p in enumerate(paths)}
    lines = [f"mbpack-recipes 1\t{compact({'release': dump['release'], 'packages': dump['packages']})}"]
    lines.append(f".aliases\t{compact(dump['aliases'])}")
    modules: dict[str, list[str]] = {}
    for name, record in ((name, record) for name, record in recipes.items() if not name.startswith("_")):
        modules.setdefault(record["@module"], []).append(name)
    lines.append(f".modules\t{compact(modules)}")
    lines.append(f".paths\t{compact(paths)}")
    for name, parent, changed, gone in with_parents(recipes):
        flat = [part for p, value in changed.items() for part in (index[p], value)]
        lines.append(f"{name}\t{compact([parent, [index[p] for p in gone], flat])}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_names(path: Path, dump: Mapping[str, Any]) -> None:
    """Write `names-<release>.tsv`. `dump` has release, packages and what `names.collect` gives.

    A dataclass that a module imports is written with its import path only where the name alone does not tell which it is.
    """
    rows = [("mbpack-names 1", compact({"release": dump["release"], "packages": dump["packages"]}))]
    for group in ("allow", "torch"):
        rows += [(f".{group}.{kind}", " ".join(found)) for kind, found in dump[group].items()]
    rows += [(f".{key}", " ".join(dump[key])) for key in ("other", "missing")]
    defined = Counter(n for held in dump["modules"].values() for kind in ("classes", "enums") for n in held[kind])
    for name, held in dump["modules"].items():
        columns = [
            " ".join(f"{n}:{word}" if word else n for n, word in held[kind].items()) for kind in ("classes", "functions", "enums")
        ]
        aliases = (n if defined[n] == 1 and home.endswith(f".{n}") else f"{n}:{home}" for n, home in held["aliases"].items())
        rows.append((name, *columns, " ".join(aliases)))  # type: ignore[arg-type]
    path.write_text("".join("\t".join(row).rstrip("\t") + "\n" for row in rows), encoding="utf-8")
