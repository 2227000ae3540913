"""All rules by name, for what describes them; a check asks :func:`mbpack.rules.registry.rules_for`."""

from __future__ import annotations

from mbpack.rules.base import Rule
from mbpack.rules.registry import ALWAYS, module_rules
from mbpack.rules.watched import WATCHED

ALL_RULES: tuple[Rule, ...] = (
    *(rule for module in ALWAYS for rule in module.RULES),
    *(rule for name in WATCHED for rule in module_rules(name)),
)
BY_NAME: dict[str, Rule] = {name: rule for rule in ALL_RULES for name in (rule.code, rule.slug)}
