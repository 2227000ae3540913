"""Rows on disk and as the file a user would have."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

Row = dict[str, Any]
DATA = Path(__file__).resolve().parents[1] / "data"
KINDS = ("verdicts", "overrides")  # complete configurations, override files on recipes


def text_of(row: Row) -> str:
    """The row as a file, with the directive that gives release, GPU count, launcher and recipe."""
    directive = f"# mbpack: bridge={row['release']} gpus={row['gpus']} launcher=script"
    if "recipe" in row:
        return f"{directive} recipe={row['recipe']}\n{row.get('yaml') or ''}"
    tree = json.loads(json.dumps(row["config"]))  # no object twice: no YAML aliases
    return directive + "\n" + yaml.dump(tree, sort_keys=False, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper))


def read(path: Path) -> list[Row]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def write(path: Path, rows: Iterable[Row]) -> None:
    """One JSON object a line; the same rows give the same bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", filename="", mtime=0) as out:
        for row in rows:
            out.write((json.dumps(row, separators=(",", ":"), ensure_ascii=False) + "\n").encode())
    path.write_bytes(buffer.getvalue())


def corpora(kind: str) -> list[Path]:
    """Recorded files of one kind: `verdicts` or `overrides`."""
    return sorted((DATA / kind).glob("*.jsonl.gz"))
