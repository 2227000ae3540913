"""The tables of the releases: what they say, and that they agree with what the real packages did."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from mbpack.checks.evaluate import Start
from mbpack.checks.names import slugs
from mbpack.checks.render import table_text
from mbpack.config.assemble import build_run
from mbpack.config.context import Given, resolve_context
from mbpack.config.document import parse
from mbpack.facts.checks import checks
from mbpack.facts.schema import DATA
from mbpack.rules.catalogue import BY_NAME
from tests.conformance.one_field import recorded
from tests.conformance.rows import DATA as ROWS
from tests.conformance.rows import Row, read, text_of

RELEASES = ("0.3", "0.4", "0.5", "0.6")
KINDS = ("verdicts", "overrides", "fields")
SLICE = 120
#: The least share of the refusals that the tables show by themselves; the others come up while a file is loaded.
CAUGHT = {"verdicts": 0.6, "overrides": 0.5, "fields": 0.4}


@pytest.mark.parametrize("release", RELEASES)
def test_the_text_says_what_the_compact_form_says(release: str) -> None:
    table = checks(release)
    assert table is not None
    with open(f"{DATA}/checks-{release}.txt", encoding="utf-8") as text:
        assert text.read() == table_text(table)


@pytest.mark.parametrize("release", RELEASES)
def test_every_refusal_has_a_name_of_its_own_in_its_block(release: str) -> None:
    table = checks(release)
    assert table is not None
    for name in table.names():
        refusals = [row[5] for row in table.block(name).rows if row[0] == 2]
        assert len(refusals) == len(set(refusals)), name


def test_a_check_is_spoken_for_by_a_rule_that_exists() -> None:
    known = {row[5] for release in RELEASES for row in _refusals(release)}
    for name, said in slugs().items():
        assert name in known, f"no release has a check called {name}"
        assert all(slug in BY_NAME for slug in said), name


def _refusals(release: str) -> list[list[Any]]:
    table = checks(release)
    assert table is not None
    rows = [row for name in table.names() for row in table.block(name).rows]
    return [row for one in rows for row in (one, *(one[5] if one[0] == 4 else ())) if row[0] == 2]


def test_a_release_without_a_table() -> None:
    assert checks("0.1") is None


@cache
def _rows(kind: str, release: str, step: int) -> list[Row]:
    path = ROWS / kind / f"{release}.jsonl.gz"
    return (recorded(path) if kind == "fields" else read(path))[::step]


def judged(row: Row, whole: bool = False) -> list[str]:
    """What certainly refuses a recorded row by the tables."""
    document = parse(text_of(row))
    run = build_run(resolve_context(Given(), Given(), [document]), [document])
    table = checks(row["release"])
    assert table is not None
    return [refusal.name for refusal in Start(run, table).start(whole)]


def disagreements(kind: str, release: str, step: int) -> tuple[list[str], float]:
    """Accepted rows that the tables refuse, and the share of the refused rows that they refuse."""
    wrong, refused, caught = [], 0, 0
    for row in _rows(kind, release, step):
        found = judged(row, whole=True)
        if row["expect"] == "accepted":
            wrong += [f"{row['id']}: {found}"] if found else []
        else:
            refused, caught = refused + 1, caught + bool(found)
    return wrong, caught / max(1, refused)


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("kind", KINDS[:2])
def test_nothing_that_the_packages_accepted_is_refused(kind: str, release: str) -> None:
    wrong, share = disagreements(kind, release, SLICE)
    assert wrong == []
    assert share >= CAUGHT[kind] - 0.2  # few rows


@pytest.mark.parametrize("release", RELEASES)
def test_the_rows_looked_at_are_enough(release: str) -> None:
    """What somebody wrote refuses the same whether every row is looked at or those that it reaches."""
    for row in _rows("overrides", release, 40):
        few, all_ = judged(row), judged(row, whole=True)
        assert set(few) <= set(all_), row["id"]
