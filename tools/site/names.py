"""What has a page: the keys that mbpack knows more about than their type, and where every name leads."""

from __future__ import annotations

import re

from mbpack.config.effective import SHOWN
from mbpack.facts.derivations import MEANINGS
from mbpack.facts.families import FAMILIES
from mbpack.facts.keys import RENAMES
from mbpack.facts.modes import MODES
from mbpack.facts.pages import rule_path
from mbpack.facts.sections import SECTION_NAMES
from mbpack.report.explain_more import keys_read
from mbpack.rules.catalogue import ALL_RULES

_KEY = re.compile(r"[a-z]\w*(\.[a-z_]\w*)+")


def _keys() -> frozenset[str]:
    named = set(SHOWN) | set(MEANINGS) | {name for rename in RENAMES for name in (rename.old, rename.new)}
    for rule in ALL_RULES:
        named |= keys_read(rule)
    return frozenset(
        key
        for key in named
        if _KEY.fullmatch(key) and key.partition(".")[0] in SECTION_NAMES and not key.endswith(("_", "._target_"))
    )


#: Dotted keys that have a page: rules read them, somebody derives them, or their name changed.
KEYS = _keys()


def key_path(key: str) -> str:
    """The page of a key."""
    return f"keys/{key}.html"


def mode_path(mode: str) -> str:
    """The page of a packing mode."""
    return f"modes/{mode}.html"


def family_path(family: str) -> str:
    """The page of a model family."""
    return f"families/{family}.html"


def targets(commands: dict[str, str]) -> dict[str, str]:
    """Every name that is a link wherever it stands in backticks: rules, keys, and the last part of a key where it is only one's."""
    found = {key: key_path(key) for key in KEYS}
    last: dict[str, list[str]] = {}
    for key in KEYS:
        last.setdefault(key.rpartition(".")[2], []).append(key)
    found |= {name: key_path(keys[0]) for name, keys in last.items() if len(keys) == 1 and "_" in name}
    for rule in ALL_RULES:
        found[rule.code] = found[rule.slug] = rule_path(rule.code)
    found |= {mode.title: mode_path(name) for name, mode in MODES.items()}
    found |= {family.name: family_path(family.name) for family in FAMILIES if "_" in family.name}
    return found | {f"mbpack {name}": path for name, path in commands.items()}
