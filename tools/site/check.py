"""What can be wrong with the files of a site: HTML that is not well-formed, links and anchors that lead nowhere, pages nobody reaches."""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Iterator, Mapping
from urllib.parse import unquote
from xml.etree import ElementTree

from mbpack.facts.pages import SITE

_XHTML = "{http://www.w3.org/1999/xhtml}"


def problems(files: Mapping[str, bytes]) -> list[str]:
    """Everything wrong, a line each."""
    trees: dict[str, ElementTree.Element] = {}
    found = []
    for path, content in files.items():
        if path.endswith((".html", ".svg", ".xml")):
            try:
                trees[path] = ElementTree.fromstring(content)
            except ElementTree.ParseError as error:
                found.append(f"{path}: not well-formed: {error}")
    pages = {path: tree for path, tree in trees.items() if path.endswith(".html")}
    anchors = {path: [name for element in tree.iter() if (name := element.get("id"))] for path, tree in pages.items()}
    reached: set[str] = set()
    for path, tree in pages.items():
        found += _outline(path, tree, anchors[path])
        for target in links(tree):
            problem, page = _followed(path, target, files, anchors)
            found += [f"{path}: {problem}: {target}"] if problem else []
            reached.add(page)
    return found + [f"{path}: no page leads to it" for path in pages if path not in reached | {"index.html"}]


def links(tree: ElementTree.Element) -> Iterator[str]:
    """What a page refers to."""
    for element in tree.iter():
        for name in ("href", "src"):
            target = element.get(name)
            if target is not None:
                yield target


def _followed(path: str, target: str, files: Mapping[str, bytes], anchors: Mapping[str, list[str]]) -> tuple[str, str]:
    """What is wrong with a link ("" for nothing), and the file it leads to."""
    if target.startswith(SITE):
        target = posixpath.relpath(target.removeprefix(SITE) or "index.html", posixpath.dirname(path) or ".")
    if target.startswith(("https://", "mailto:")):
        return "", ""
    if ":" in target.split("/")[0]:
        return "not a link of this site, nor to a secure one", ""
    place, _, anchor = target.partition("#")
    page = posixpath.normpath(posixpath.join(posixpath.dirname(path), place)) if place else path
    if page not in files:
        return "no such file", page
    if anchor and unquote(anchor) not in anchors.get(page, ()):
        return "no such anchor", page
    return "", page


def _outline(path: str, tree: ElementTree.Element, names: list[str]) -> Iterator[str]:
    """Language, one title, one first heading, unique anchors, texts for pictures, no heading skipped."""
    if not tree.get("lang"):
        yield f"{path}: no language"
    for name in ("title", "h1"):
        number = len(list(tree.iter(_XHTML + name)))
        if number != 1 and not (name == "title" and number > 1):  # pictures have titles too
            yield f"{path}: {number} <{name}>"
    yield from (f"{path}: the anchor {name} twice" for name, number in Counter(names).items() if number > 1)
    yield from (f"{path}: a picture without a text" for image in tree.iter(_XHTML + "img") if image.get("alt") is None)
    level = 1
    for element in tree.iter():
        if element.tag in (_XHTML + "h2", _XHTML + "h3", _XHTML + "h4"):
            now = int(element.tag[-1])
            if now > level + 1:
                yield f"{path}: a heading of level {now} below one of level {level}"
            level = now
