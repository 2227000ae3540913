"""Real runs of mbpack in a folder of their own: as text for pages, as pictures (SVG) of a terminal."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from mbpack.cli.main import run

ROOT = Path(__file__).resolve().parents[2]
#: Files that commands find in their folder: name, and where it comes from.
FILES = {
    "sft.yaml": "tests/data/examples/sft.yaml",
    "old.yaml": "recipes/same-job-0.5.yaml",
    "lengths.txt": "tests/data/lengths/bimodal_2000_11.txt",
}
_THEME = TerminalTheme(
    (22, 27, 24), (226, 232, 228),
    [(22, 27, 24), (255, 123, 114), (126, 211, 160), (240, 190, 110), (121, 184, 255), (214, 161, 230), (118, 205, 205), (226, 232, 228)],
    [(140, 152, 145), (255, 150, 140), (150, 230, 180), (250, 210, 140), (150, 200, 255), (230, 180, 245), (150, 225, 225), (255, 255, 255)],
)  # fmt: skip
#: A picture that loads nothing: the fonts are those of the machine.
_SVG = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<title>%TITLE%</title>
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width; }}
.{unique_id}-title {{ font: bold 15px system-ui, sans-serif; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/></clipPath>{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


@contextlib.contextmanager
def folder() -> Iterator[None]:
    """A working directory with the files that commands need, and no project above it."""
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as name:
        for file, source in FILES.items():
            shutil.copy(ROOT / source, Path(name) / file)
        (Path(name) / ".git").mkdir()
        os.chdir(name)
        try:
            yield
        finally:
            os.chdir(before)


def output(line: str, colour: bool = False, width: int = 88) -> tuple[int, str]:
    """Exit code and everything that a command line prints; one that is another program's is not run (code 0, nothing).

    Raises:
        ValueError: the line is no command of mbpack and no installer.
    """
    words = shlex.split(line)
    if words[:1] != ["mbpack"]:
        if words[:2] not in (["pip", "install"], ["uv", "tool"], ["pipx", "install"]):
            raise ValueError(f"not run when the site is built: {line}")
        return 0, ""
    wanted = {"COLUMNS": str(width), "FORCE_COLOR": "1" if colour else "0", "NO_COLOR": "" if colour else "1"}
    kept = {name: os.environ.get(name) for name in (*wanted, "MBPACK_TRACEBACK")}
    os.environ.update(wanted)
    os.environ.pop("MBPACK_TRACEBACK", None)
    written = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="\n", write_through=True)
    try:
        with contextlib.redirect_stdout(written), contextlib.redirect_stderr(written):
            code = run(words[1:])
    finally:
        for name, value in kept.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
    return code, written.buffer.getvalue().decode()


class Recorder:
    """Runs commands once however often they are shown."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, ...], list[tuple[int, str]]] = {}
        #: Every command line that was run, with its exit code.
        self.ran: dict[str, int] = {}

    def outputs(self, lines: Sequence[str], colour: bool = False) -> list[tuple[int, str]]:
        """What command lines print, one after the other in one fresh folder."""
        key = (*lines, str(colour))
        if key not in self._seen:
            with folder():
                self._seen[key] = [output(line, colour) for line in lines]
            for line, (code, _) in zip(lines, self._seen[key], strict=True):
                self.ran[line] = code
        return self._seen[key]


def svg(title: str, command: str, printed: str, width: int = 88) -> str:
    """A terminal after a command, as a picture."""
    console = Console(
        record=True, width=width, file=io.StringIO(), force_terminal=True, color_system="truecolor", legacy_windows=False
    )
    prompt = Text("$ ", style="bold green")
    console.print(prompt + Text(command, style="bold"), soft_wrap=False)
    console.print(Text.from_ansi(printed.rstrip("\n")), highlight=False)
    unique = "t" + re.sub(r"\W", "", title.lower())[:20]
    drawn = console.export_svg(title=title, theme=_THEME, code_format=_SVG, unique_id=unique)
    return drawn.replace("%TITLE%", escape(title))
