"""Rules by topic, the first part of their slugs."""

from __future__ import annotations

from mbpack.engine.check import Selection
from mbpack.rules.catalogue import ALL_RULES


def test_a_topic_selects_the_rules_whose_slugs_begin_with_it() -> None:
    wanted = [rule.slug for rule in ALL_RULES if Selection(select=("graph",)).wants(rule)]
    assert "graph/te-rng-tracker" in wanted
    assert wanted == [rule.slug for rule in ALL_RULES if rule.slug.startswith("graph/")]
