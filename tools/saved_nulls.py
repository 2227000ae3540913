"""Which keys saved configurations leave null though no class says that they may: ``python tools/saved_nulls.py [--check]``.

A recipe puts null over an `int`, `to_yaml` writes it, and an editor must not mark what a run has saved. From the recorded dumps of all
recipes (`tests/data/dumps`) into `src/mbpack/facts/data/saved-nulls.txt`, a key a line.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
for folder in (HERE, HERE.parent, HERE.parent / "src"):
    sys.path.insert(0, str(folder))

from tests.conformance import dumps  # noqa: E402

from mbpack.report.override_schema import allows_null, override_schema  # noqa: E402

TARGET = HERE.parent / "src" / "mbpack" / "facts" / "data" / "saved-nulls.txt"


def found() -> set[str]:
    """The keys, of all releases together."""
    keys: set[str] = set()
    for release in sorted(path.name.partition(".jsonl")[0] for path in dumps.FOLDER.glob("*.jsonl.xz")):
        null = {key for row in dumps.saved(release) for key in left_null(row["yaml"])}
        schema = override_schema(release, saved_nulls=frozenset())
        keys |= {key for key in null if _is_surprising(schema, key)}
    return keys


def left_null(text: str) -> Iterator[str]:
    """`section.key` of every null, read from the layout that `to_yaml` has: two spaces a level, sorted, one key a line."""
    section = ""
    for line in text.splitlines():
        if line[:1] not in (" ", "-") and line.endswith(":"):
            section = line[:-1]
        elif line.startswith("  ") and line[2] not in " -" and line.endswith(": null"):
            yield f"{section}.{line[2:-6]}"


def _is_surprising(schema: dict[str, Any], path: str) -> bool:
    section, _, key = path.partition(".")
    known = schema["properties"].get(section, {})
    properties = next((part["properties"] for part in known.get("anyOf", ()) if "properties" in part), {})
    return key in properties and not allows_null(properties[key])


def main() -> int:
    """Write the keys, or with ``--check`` say whether they are as written."""
    text = "\n".join(sorted(found())) + "\n"
    if "--check" in sys.argv[1:]:
        return int(TARGET.read_text(encoding="utf-8") != text)
    TARGET.write_text(text, encoding="utf-8")
    print(f"wrote {TARGET.name}, {text.count(chr(10))} keys")
    return 0


if __name__ == "__main__":
    sys.exit(main())
