"""The maintainers' table of rules counts what it is given."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

from mbpack.rules.catalogue import BY_NAME
from mbpack.rules.documentation import page_of

TOOLS = Path(__file__).resolve().parents[2] / "tools"


@pytest.fixture
def rule_table(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setattr(sys, "path", [str(TOOLS), *sys.path])
    return importlib.import_module("rule_table")


def test_a_rule_counts_by_its_gravest_consequence(rule_table: ModuleType) -> None:
    refused, unknown = (rule_table.Shown(BY_NAME[slug], page_of(BY_NAME[slug])) for slug in ("nrg/mbs", "gbp/validation-size"))
    refused.seen, refused.cases = {"note", "rejected"}, 2
    rows = dict(line.strip("| ").split(" | ", 1) for line in rule_table.table([refused, unknown]) if line.startswith("| "))
    assert rows["rejected"] == "1 | 0 | 0 | 0 | 0 | 1 | 1 | 1 | 1 | 1"
    assert rows["not judged by a file"] == "1 | 0 | 0 | 0 | 0 | 1 | 1 | 0 | 1 | 1"
    assert rows["note"].startswith("0 | 0")
    assert rows["all"] == "2 | 0 | 0 | 0 | 0 | 2 | 2 | 1 | 2 | 2"


def test_a_line_per_rule(rule_table: ModuleType) -> None:
    shown = rule_table.Shown(BY_NAME["batch/offline-mbs-one"], page_of(BY_NAME["batch/offline-mbs-one"]))
    shown.seen = {"rejected"}
    (line,) = rule_table.lines([shown])
    assert line.split() == "BAT101 batch/offline-mbs-one 0.3-nightly rejected 0 cases, 1 Bad, 1 Good".split()
