"""The whole site: every page rendered, every asset, the search index, what machines read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from tools.site import guides, mode_map, pictures, reference, rules, topics
from tools.site.front import front
from tools.site.markup import Markup
from tools.site.names import targets
from tools.site.page import Crumb, Page
from tools.site.sessions import Recorder

from mbpack import __version__
from mbpack.cli.main import COMMANDS
from mbpack.facts.pages import SITE

THEME = Path(__file__).parent / "theme"
#: What stands at the top of every page.
MENU = (
    Crumb("Quick start", "quickstart.html"),
    topics.MODE_INDEX,
    rules.INDEX,
    topics.KEY_INDEX,
    topics.FAMILY_INDEX,
    topics.PITFALL_INDEX,
    topics.RELEASE_INDEX,
    guides.COMMAND_INDEX,
)

#: What stands at the bottom of every page.
MORE = (
    Crumb("Pack length", "pack-length.html"),
    Crumb("GPU memory", "memory.html"),
    Crumb("Editors, CI, agents", "editors.html"),
    Crumb("JSON", "json.html"),
    Crumb("Python", "python.html"),
    Crumb("Recorded sessions", "sessions.html"),
    Crumb("How far to trust it", "trust.html"),
    Crumb("Changes", "changes.html"),
)


class Site:
    """Pages in their order and files, before they are rendered."""

    def __init__(self) -> None:
        self.recorder = Recorder()
        self.files: dict[str, bytes] = {name.name: name.read_bytes() for name in THEME.iterdir() if name.suffix != ".html"}
        shown, sessions = guides.sessions(self.recorder)
        plots, plan = pictures.plan(self.recorder)
        self.files |= shown | plots
        self.chapters: list[list[Page]] = [
            [front()],
            list(guides.quick_start()),
            [plan, pictures.fit(self.recorder), sessions],
            list(topics.modes(mode_map.picture())),
            list(rules.pages()),
            list(topics.keys()),
            list(topics.families_()),
            list(topics.pitfalls()),
            list(topics.releases()),
            list(guides.commands(self.recorder)),
            [reference.contract(self.recorder), reference.python(), *guides.about()],
        ]

    @property
    def pages(self) -> list[Page]:
        """Every page, in order."""
        return [page for chapter in self.chapters for page in chapter]


def build(site: Site | None = None) -> dict[str, bytes]:
    """Every file of the site by its path."""
    site = site or Site()
    markup = Markup(targets({name: f"commands/{name}.html" for name in COMMANDS}), site.recorder.outputs)
    template = Environment(loader=FileSystemLoader(THEME), autoescape=True, undefined=StrictUndefined).get_template("page.html")
    files = dict(site.files)
    for chapter in site.chapters:
        for number, page in enumerate(chapter):
            body, headings = markup.html(page.text, page.up, page.path)
            files[page.path] = template.render(
                page=page,
                body=_Safe(body),
                headings=headings,
                menu=MENU,
                more=MORE,
                here=page.crumbs[0].path if page.crumbs else page.path,
                before=chapter[number - 1] if number and page.language == "en" else None,
                after=chapter[number + 1]
                if number + 1 < len(chapter) and page.language == "en" and chapter[number + 1].language == "en"
                else None,
                names=guides.LANGUAGES,
                site=SITE,
                version=__version__,
            ).encode()
    entries = [[page.title, page.path, page.summary[:160], page.words] for page in site.pages]
    files["search-index.js"] = (
        f"window.MBPACK_PAGES = {json.dumps(entries, ensure_ascii=False, separators=(',', ':'))};\n".encode()
    )
    files["llms.txt"] = _for_machines(site.pages).encode()
    files["sitemap.xml"] = _sitemap(site.pages).encode()
    files[".nojekyll"] = b""
    return files


class _Safe(str):
    """HTML that the template takes as it is."""

    def __html__(self) -> str:
        return self


def _for_machines(pages: Sequence[Page]) -> str:
    """The pages as a list for language models (llms.txt)."""
    lines = [
        "# mbpack",
        "",
        "> Wizard and configuration doctor for sequence packing and long-context fine-tuning in NVIDIA Megatron-Bridge.",
        "",
    ]
    return "\n".join(
        [*lines, *(f"- [{page.title}]({SITE}{page.path}): {page.summary}" for page in pages if page.language == "en"), ""]
    )


def _sitemap(pages: Sequence[Page]) -> str:
    places = "".join(f"<url><loc>{escape(SITE + page.path)}</loc></url>" for page in pages)
    return f'<?xml version="1.0" encoding="UTF-8"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{places}</urlset>'
