"""Fixes on recorded configurations: what the properties of a fix mean on real files."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from mbpack.config.document import Document, parse
from mbpack.config.duplicates import merged, path_of
from mbpack.config.edit import CannotEdit, same
from mbpack.engine.doctor import Request
from mbpack.fix.mend import Done, Mended, fixable, mend
from tests.conformance.rows import DATA, Row, read, text_of

SAMPLE = {"verdicts": 24, "overrides": 24}
RELEASES = {"verdicts": ("0.3", "0.4", "0.5", "0.6", "0.7"), "overrides": ("0.3", "0.4", "0.5", "0.6")}
CASES = [(kind, release) for kind, releases in RELEASES.items() for release in releases]


def sample(kind: str, release: str) -> list[Row]:
    """Rejected rows, spread over the file."""
    rows = [row for row in read(DATA / kind / f"{release}-reference.jsonl.gz") if row["expect"] == "rejected"]
    return rows[:: max(1, len(rows) // SAMPLE[kind])][: SAMPLE[kind]]


def edited(tree: Any, done: Done) -> set[tuple[str, ...]]:
    paths = {tuple(edit.key.split(".")) for edit in done.edits}
    return paths | {tuple(edit.to.split(".")) for edit in done.edits if edit.to}


def outside(tree: Any, paths: set[tuple[str, ...]]) -> Any:
    """The tree without the edited keys, and without sections that then hold nothing."""
    if not isinstance(tree, dict):
        return tree
    kept = {
        key: outside(value, {path[1:] for path in paths if path[0] == key and len(path) > 1})
        for key, value in tree.items()
        if (key,) not in paths
    }
    return {key: value for key, value in kept.items() if value not in ({}, None)}


def joined(document: Document) -> Document:
    """The document with keys that are written twice joined where they agree: that moves values, and is tested by itself."""
    for problem in document.problems:
        path = path_of(document, problem)
        if path is not None:
            with suppress(CannotEdit):
                return joined(merged(document, path).document)
    return document


def check(text: str, name: str) -> Mended:
    document = parse(text.encode(), name)
    mended = mend(Request([document], environ={}), unsafe=True)
    start = joined(document)
    assert start.root is not None
    after = mended.state.documents[0]
    assert after.root is not None
    paths = set().union(*(edited(start.root.plain, done) for done in mended.done)) if mended.done else set()
    assert same(outside(start.root.plain, paths), outside(after.root.plain, paths)), name
    reasons = {id(entry.finding): entry.reason for entry in mended.manual}
    assert all(reasons[id(finding)] for finding in fixable(mended.after, True)), name
    before = {(f.rule.code, f.setting.key) for f in mended.before.findings if f.outcome.severity == "error"}
    uncovered = {(f.rule.code, f.setting.key) for f in mended.after.findings if f.outcome.severity == "error"} - before
    assert not uncovered or (mended.before.run is not None and mended.before.run.stopped), (name, uncovered)
    again = mend(Request([after], environ={}), unsafe=True)
    assert not again.changed, name
    return mended


@pytest.mark.parametrize(("kind", "release"), CASES)
def test_mended(kind: str, release: str) -> None:
    rows = sample(kind, release)
    accepted = sum(check(text_of(row), row["id"]).after.verdict == "accepted" for row in rows)
    assert accepted >= len(rows) / 3
