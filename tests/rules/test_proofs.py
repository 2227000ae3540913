"""Every consequence beyond a refusal is proven, and the tables say what the demonstrations declare."""

from __future__ import annotations

import pytest

from mbpack.facts.proofs import READ, SHOWN, proof_of
from mbpack.facts.releases import RELEASES
from mbpack.rules.base import Rule
from mbpack.rules.catalogue import ALL_RULES, BY_NAME
from tests.conformance.demonstrations import table
from tests.conformance.demonstrations.run import Declared, declared

BEYOND = [rule for rule in ALL_RULES if table.concerns(rule)]


@pytest.mark.parametrize("rule", BEYOND, ids=lambda rule: rule.code)
def test_a_consequence_names_its_proof(rule: Rule) -> None:
    proof = proof_of(rule.code)
    assert proof is not None
    if table.is_error(rule) and proof.kind == READ:
        assert proof.detail, "an error that no demonstration shows says why it cannot be run here (read.tsv)"


@pytest.mark.parametrize("one", declared(), ids=lambda one: one.name)
def test_a_demonstration_claims_releases_of_its_rules(one: Declared) -> None:
    names = {release.name: release for release in RELEASES}
    assert one.title
    assert one.title.endswith(".")
    for code in one.rules:
        assert all(BY_NAME[code].applies(names[release.removesuffix(".0")]) for release in one.releases), code


def test_reasons_are_about_rules_without_a_demonstration() -> None:
    shown = {code for one in declared() for code in one.rules}
    assert set(table.read()) & shown == set()
    assert set(table.read()) <= set(BY_NAME)


def test_the_tables_are_written_from_the_demonstrations() -> None:
    assert table.DATA.read_text() == table.data()
    assert table.readme() == table.README.read_text()


def test_most_errors_are_shown() -> None:
    assert sum(proof_of(rule.code).kind == SHOWN for rule in BEYOND if proof_of(rule.code) is not None) >= 70  # type: ignore[union-attr]
    assert len(declared()) >= 60
