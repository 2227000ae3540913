"""Evidence in a few words of YAML, for cases and documentation examples of rules about packed data on disk.

    # found: {training: {rows: 300}, metadata: [{packing_factor: 2.0}], raw: {lines: 900}, environ: {HOME: /root}}

``training`` and ``validation`` give one file unless ``missing``; ``metadata`` is a list of entries, ``missing``, or a
``problem``. Keys of a scan (``lengths``, ``longest_row``, ``supervised``, ...) make the rows count as read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml

from mbpack.config.context import Given
from mbpack.config.document import parse
from mbpack.config.evidence import Evidence, Metadata, Packs, RawData, Row, RowStatistics, SavedRun, Shard
from mbpack.engine.doctor import Request, judge
from mbpack.engine.result import Result
from mbpack.facts.artifacts import COLUMNS

_SCAN = (
    "lengths",
    "longest_row",
    "most_samples",
    "supervised",
    "largest_token",
    "rows_without_loss",
    "broken",
    "samples_with_pad_loss",
)
_LINE = re.compile(r"^# found:(.*(?:\n#  .*)*)", re.MULTILINE)


def doctor_with(found: Mapping[str, Any], text: str, **context: Any) -> Result:
    """Examine one text together with evidence in short form."""
    flags = Given(**{name: str(value) if name == "bridge" else value for name, value in context.items()})
    evidence, environ = evidence_of(found), found.get("environ")
    return judge(Request([parse(text)], flags, environ=environ, look=lambda run: evidence))


def in_text(text: str) -> dict[str, Any]:
    """What the ``# found:`` comment of a YAML text says; a block form goes on in lines that start with ``#  ``."""
    match = _LINE.search(text)
    if match is None:
        return {}
    return yaml.safe_load("\n".join(line.removeprefix("#") for line in match[1].splitlines()))


def evidence_of(found: Mapping[str, Any]) -> Evidence:
    """Evidence from its short form; an unknown word is an error of the test."""
    known = {
        "training",
        "validation",
        "metadata",
        "raw",
        "lengths",
        "own_directory",
        "other_directories",
        "environ",
        "generation_block",
        "saved",
    }
    assert set(found) <= known, f"unknown words: {set(found) - known}"
    raw = found.get("raw")
    return Evidence(
        packs={split: _packs(split, found[split]) for split in ("training", "validation") if split in found},
        metadata_file=_metadata(found["metadata"]) if "metadata" in found else None,
        raw_data=_raw(raw) if raw is not None else None,
        raw_lengths=found.get("lengths"),
        own_directory=found.get("own_directory"),
        generation_block=found.get("generation_block"),
        other_directories=tuple(found.get("other_directories", ())),
        saved=SavedRun(**{"folder": "checkpoints/run", **found["saved"]}) if "saved" in found else None,
    )


def _raw(given: Mapping[str, Any]) -> RawData:
    first = tuple(
        Row(row["line"], *(tuple(row.get(name, ())) for name in ("columns", "roles")), row.get("problem", ""))
        for row in given.get("first", ())
    )
    return RawData(**{"root": "data/sft", **given, "first": first})


def _packs(split: str, given: Mapping[str, Any]) -> Packs:
    words = dict(given)
    path, explicit = words.pop("path", f"packs/{split}.parquet"), words.pop("explicit", True)
    links = {name: tuple(words.pop(name, ())) for name in ("dangling", "duplicates")}
    if words.pop("missing", False):
        assert not words, f"missing packs have nothing else: {words}"
        return Packs(split, path, explicit, **links)
    scan = {name: words.pop(name) for name in _SCAN if name in words}
    rows = words.get("rows")
    shard = Shard(path, columns=tuple(words.pop("columns", COLUMNS)), **words)
    statistics = None
    if scan:
        broken = tuple(scan.pop("broken", ()))
        statistics = RowStatistics(rows=rows or 0, broken=broken, broken_rows=len(broken), **scan)
    return Packs(split, path, explicit, (shard,), statistics=statistics, **links)


def _metadata(given: Any) -> Metadata:
    path = "packs/metadata.jsonl"
    if given == "missing":
        return Metadata(path, exists=False, entries=None)
    if isinstance(given, dict):
        return Metadata(path, entries=None, **given)
    return Metadata(path, entries=tuple(given))
