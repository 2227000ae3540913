"""The site, built once for all its tests."""

from __future__ import annotations

from typing import NamedTuple
from xml.etree import ElementTree

import pytest
from tools.site.build import Site, build


class Built(NamedTuple):
    """The site before and after it is rendered, and its pages as trees."""

    site: Site
    files: dict[str, bytes]
    trees: dict[str, ElementTree.Element]


@pytest.fixture(scope="session")
def built() -> Built:
    """The whole site."""
    site = Site()
    files = build(site)
    trees = {path: ElementTree.fromstring(content) for path, content in files.items() if path.endswith(".html")}
    return Built(site, files, trees)
