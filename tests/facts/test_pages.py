"""Addresses on the web that reports name."""

from __future__ import annotations

from pathlib import Path

from mbpack.facts.pages import SITE, rule_url


def test_the_address_of_a_rule_never_changes() -> None:
    assert rule_url("ALN101") == "https://mbpack.github.io/mbpack/rules/ALN101.html"


def test_the_package_names_the_same_site() -> None:
    project = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    assert f'Documentation = "{SITE}"' in project
