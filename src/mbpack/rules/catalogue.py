"""All rules by name, for what describes them; a check asks :func:`mbpack.rules.registry.rules_for`."""

from __future__ import annotations

from mbpack.rules import internal
from mbpack.rules.base import Rule
from mbpack.rules.registry import module_names, module_rules

ALL_RULES: tuple[Rule, ...] = (*internal.RULES, *(rule for name in module_names() for rule in module_rules(name)))
BY_NAME: dict[str, Rule] = {name: rule for rule in ALL_RULES for name in (rule.code, rule.slug)}
