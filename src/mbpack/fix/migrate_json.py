"""What `mbpack migrate` did, for machines (schema_version 1)."""

from __future__ import annotations

from typing import Any

from mbpack import __version__
from mbpack.fix.diff import unified
from mbpack.fix.migrate import Migration

SCHEMA_VERSION = 1


def migrate_data(files: list[dict[str, Any]]) -> dict[str, Any]:
    """Everything that was moved; each of ``files`` comes from :func:`one_data`."""
    return {"schema_version": SCHEMA_VERSION, "mbpack": __version__, "command": "migrate", "files": files}


def one_data(made: Migration, written: str | None) -> dict[str, Any]:
    """One file, or one list of arguments (no path, no text). ``written`` is where its new text stands, None for nowhere."""
    before = made.start.documents[0] if made.start.documents else None
    after = made.state.documents[0] if made.state.documents else None
    diff = ""
    if before is not None and after is not None:
        changes = unified(before.path or "-", before.encode(before.text), after.encode(after.text))
        diff = changes.decode("utf-8", "replace")
    return {
        "path": before.path if before is not None else None,
        "source": str(made.source),
        "target": made.target.text,
        "changed": list(dict.fromkeys(made.changed)),
        "to_decide": list(dict.fromkeys(made.decide)),
        "behaves_differently": list(dict.fromkeys(made.different)),
        "written": written,
        "text": after.text if after is not None else None,
        "arguments": [] if after is not None else list(made.state.overrides),
        "diff": diff,
    }
