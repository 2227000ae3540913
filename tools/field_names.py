"""Write `facts/data/field-names.txt`: the fields of every section in any release, from the schemas.

python tools/field_names.py
"""

from __future__ import annotations

import os
from pathlib import Path

from mbpack.facts import schema


def names() -> dict[str, set[str]]:
    """Section -> the fields it has in any release, on any of its classes."""
    found: dict[str, set[str]] = {}
    for release in schema.RELEASES:
        known = schema.schema(release)
        for section in known.sections:
            found.setdefault(section, set()).update(_fields(known, section))
    return found


def _fields(known: schema.Schema, section: str) -> set[str]:
    if section == "model":
        return set(known.any_model_fields())
    if section == "dataset":
        return set(known.any_dataset_fields())
    if section == "peft":
        return {name for cls in schema.classes(known.release, "peft") for name in known.fields(cls) or ()}
    return set(known.fields(known.section_class(section) or "") or ())


def text() -> str:
    """The content of the data file: one section a line, its public fields behind a tab."""
    return "".join(
        f"{section}\t{' '.join(sorted(name for name in fields if not name.startswith('_')))}\n"
        for section, fields in sorted(names().items())
    )


if __name__ == "__main__":
    Path(os.path.join(schema.DATA, "field-names.txt")).write_text(text(), encoding="ascii")
