"""Every rule, listed explicitly: a new rule module is added here, nowhere else."""

from __future__ import annotations

from functools import lru_cache

from mbpack.facts.releases import Release
from mbpack.rules import (
    batch,
    context_parallel,
    data_sources,
    documents,
    graphs,
    internal,
    keys,
    lengths,
    precision,
    schedule,
    structure,
    topology,
    values,
)
from mbpack.rules.base import Rule

_MODULES = (
    batch,
    context_parallel,
    data_sources,
    documents,
    graphs,
    internal,
    keys,
    lengths,
    precision,
    schedule,
    structure,
    topology,
    values,
)

ALL_RULES: tuple[Rule, ...] = tuple(rule for module in _MODULES for rule in module.RULES)
BY_NAME: dict[str, Rule] = {name: rule for rule in ALL_RULES for name in (rule.code, rule.slug)}


@lru_cache(maxsize=None)
def rules_for(release: Release) -> tuple[Rule, ...]:
    """The rules that concern a release, those that read what stopped the others last."""
    chosen = [rule for rule in ALL_RULES if rule.applies(release)]
    return tuple(sorted(chosen, key=lambda rule: rule.late))
