"""What `mbpack explain` says, for machines (schema_version 1): the page as text, and a rule's parts one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mbpack import __version__
from mbpack.facts.pages import rule_url
from mbpack.rules.base import Rule
from mbpack.rules.catalogue import BY_NAME
from mbpack.rules.documentation import page_of

SCHEMA_VERSION = 1


def explain_data(topic: str | None, kind: str, calculated: Sequence[str], text: str) -> dict[str, Any]:
    """One topic; ``calculated`` are the lines of arithmetic that numbers on the command line asked for."""
    rule = BY_NAME.get(topic.upper()) or BY_NAME.get(topic.lower()) if topic is not None and kind == "rule" else None
    return {
        "schema_version": SCHEMA_VERSION,
        "mbpack": __version__,
        "command": "explain",
        "topic": topic,
        "kind": kind,
        "calculated": list(calculated),
        "rule": None if rule is None else rule_data(rule),
        "text": text,
    }


def rule_data(rule: Rule) -> dict[str, Any]:
    """A rule with all of its documentation."""
    page, (first, last) = page_of(rule), rule.releases
    return {
        "code": rule.code,
        "slug": rule.slug,
        "topic": rule.topic,
        "releases": {"first": first.name, "last": last.name},
        "refused_by_upstream": rule.rejects,
        "title": page.title,
        "text": page.text,
        "bad": list(page.bad),
        "good": list(page.good),
        "notes": page.notes,
        "upstream": list(page.upstream),
        "url": rule_url(rule.code),
    }
