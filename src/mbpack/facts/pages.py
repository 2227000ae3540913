"""Where the documentation stands on the web; `tools/site` makes it, one page a rule, a key, a mode, a family.

A rule's address never changes once a release has named it: reports of that release point there.
"""

from __future__ import annotations

from typing import Final

#: The site's first page; every other address is below it.
SITE: Final = "https://mbpack.github.io/mbpack/"


def rule_path(code: str) -> str:
    """The page of a rule, from the site's root."""
    return f"rules/{code}.html"


def rule_url(code: str) -> str:
    """The address of a rule's page."""
    return SITE + rule_path(code)
