"""The configuration as it will be: every value that matters, with who gave it."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.effective import effective_values
from mbpack.engine.result import Result
from mbpack.report.style import Style


def render(result: Result, style: Style) -> str:
    """One ``key: value`` line per setting, its origin behind it."""
    return "\n".join(_lines(result, style))


def _lines(result: Result, style: Style) -> Iterator[str]:
    name = result.path or (result.context.recipe if result.context else None) or "configuration"
    yield style.paint("bold", f"# {name}")
    if result.run is None:
        yield "# could not be read"
        return
    section = ""
    for entry in effective_values(result.run):
        head, _, rest = entry.key.partition(".")
        if head != section and rest:
            section = head
            yield f"{head}:"
        name = f"  {rest}" if rest else head
        text = f"{name}: {entry.text}"
        yield f"{text:<58} {style.paint('dim', '# ' + entry.origin)}"
