"""`mbpack explain releases`: per release, what mbpack knows of it and how."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.facts.attention import TRANSFORMER_ENGINE
from mbpack.facts.knowledge import KNOWLEDGE, Knowledge
from mbpack.facts.recipes import names
from mbpack.facts.releases import DEFAULT, RELEASES, Release
from mbpack.report.style import Style


def releases_page(topic: str, style: Style) -> list[str] | None:
    """The page of all releases, or of one by its name; None for another topic."""
    word = topic.strip().lower()
    if word in ("releases", "release"):
        lines = [style.paint("bold", "Releases of Megatron-Bridge that mbpack knows"), ""]
        for release in RELEASES:
            lines += [*_release(release, style), ""]
        lines += style.wrap(
            f"Without --bridge, a directive, or a Megatron-Bridge beside the files, {DEFAULT.newest_patch} is assumed: the newest "
            "whose package was run. `mbpack learn --from PATH` reads fields and recipes of any installed package, checkout or fork.",
            "",
            "",
        )
        return lines
    found = next((release for release in RELEASES if release.name == word), None)
    return list(_release(found, style)) if found is not None else None


def _release(release: Release, style: Style) -> Iterator[str]:
    known = KNOWLEDGE[release]
    yield style.paint("bold", release.name)
    for label, text in _rows(known, release):
        yield from style.wrap(text, f"  {label:<12}", " " * 14)


def _rows(known: Knowledge, release: Release) -> Iterator[tuple[str, str]]:
    yield "published", known.published
    if known.ran:
        yield "run", f"{', '.join(known.ran)}: every class, every recipe and every start-up check of the package, on a CPU"
    if known.read:
        yield "read", "; ".join(known.read)
    if known.documented:
        yield "documented", "; ".join(known.documented)
    yield "as of", known.as_of
    complete = "complete: what is on none of them does not exist" if known.lists_complete else "may lack what came later"
    yield "lists", f"{len(names(release.name))} recipes; lists of fields and recipes are {complete}".replace("are may", "may")
    yield "pins", f"Transformer Engine {TRANSFORMER_ENGINE[release]}"
