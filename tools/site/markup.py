"""Markdown to HTML that is well-formed XML: anchors on headings, coloured code, names of rules and keys as links."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

from markdown_it import MarkdownIt
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name

_CODE = re.compile(r"\b[A-Z]{3}\d{3}\b")
_LANGUAGES = {"yaml": "yaml", "python": "python", "json": "json", "toml": "toml", "sh": "bash"}
_FORMATTER = HtmlFormatter(nowrap=True)


class Heading(NamedTuple):
    """A heading of a page: its anchor, its words, its level."""

    anchor: str
    text: str
    level: int


class Markup:
    """Renders pages.

    ``targets`` maps a name in backticks, or a rule's code anywhere, to a page's path from the root. ``run`` gives exit code and
    output of the command lines of a page's ``run`` fences, one after the other in one folder; a fence with ``lines=N`` shows the
    first N lines of each output.
    """

    def __init__(self, targets: Mapping[str, str], run: Callable[[Sequence[str]], list[tuple[int, str]]]) -> None:
        self.targets = targets
        self._run = run
        self._lexers: dict[str, Any] = {}
        self._markdown = MarkdownIt("commonmark", {"xhtmlOut": True, "html": False}).enable("table")
        for name in ("code_inline", "text", "fence", "heading_open", "heading_close", "table_open", "table_close", "link_open"):
            self._markdown.add_render_rule(name, self._bound(name))

    def _bound(self, name: str) -> Callable[..., str]:
        method = getattr(self, f"_{name}")
        return lambda renderer, tokens, index, options, env: method(tokens, index, env)

    def html(self, text: str, up: str, path: str = "") -> tuple[str, list[Heading]]:
        """HTML of a Markdown text for a page that lies ``up`` from the root at ``path``, and its headings."""
        env: dict[str, Any] = {"up": up, "path": path, "headings": [], "used": set()}
        tokens = self._markdown.parse(text, env)
        lines = [line for token in tokens if token.info.startswith("run") for line in token.content.strip().splitlines()]
        env["ran"] = iter(zip(lines, self._run(lines), strict=True)) if lines else iter(())
        return str(self._markdown.renderer.render(tokens, self._markdown.options, env)), env["headings"]

    # ------------------------------------------------------------------ names

    def _link(self, name: str, shown: str, env: dict[str, Any]) -> str:
        target = self.targets.get(name)
        return f'<a href="{env["up"]}{target}">{shown}</a>' if target is not None and target != env["path"] else shown

    def _code_inline(self, tokens: Sequence[Any], index: int, env: dict[str, Any]) -> str:
        content = tokens[index].content
        shown = f"<code>{escape(content)}</code>"
        return shown if _in_link(tokens, index) else self._link(content, shown, env)

    def _text(self, tokens: Sequence[Any], index: int, env: dict[str, Any]) -> str:
        shown = escape(tokens[index].content)
        if _in_link(tokens, index):
            return shown
        return _CODE.sub(lambda match: self._link(match[0], match[0], env), shown)

    def _link_open(self, tokens: Sequence[Any], index: int, env: dict[str, Any]) -> str:
        target = str(tokens[index].attrs["href"])
        outside = target.startswith(("http:", "https:", "mailto:", "#"))
        return f'<a href="{escape(target if outside else env["up"] + target)}">'

    # ------------------------------------------------------------------ blocks

    def _heading_open(self, tokens: Sequence[Any], index: int, env: dict[str, Any]) -> str:
        token, text = tokens[index], tokens[index + 1].content.replace("`", "")
        anchor = slug(text)
        while anchor in env["used"]:
            anchor += "-"
        env["used"].add(anchor)
        env["headings"].append(Heading(anchor, text, int(token.tag[1])))
        return f'<{token.tag} id="{escape(anchor)}">'

    def _heading_close(self, tokens: Sequence[Any], index: int, env: dict[str, Any]) -> str:
        heading = env["headings"][-1]
        label = f"Link to: {heading.text}"
        return f' <a class="anchor" href="#{escape(heading.anchor)}" aria-label="{escape(label)}">#</a></{tokens[index].tag}>\n'

    def _table_open(self, tokens: Sequence[Any], index: int, env: dict[str, Any]) -> str:
        return '<div class="scroll" tabindex="0"><table>'

    def _table_close(self, tokens: Sequence[Any], index: int, env: dict[str, Any]) -> str:
        return "</table></div>\n"

    def _fence(self, tokens: Sequence[Any], index: int, env: dict[str, Any]) -> str:
        kind, _, options = tokens[index].info.strip().partition(" ")
        content = tokens[index].content
        if kind == "raw":
            return str(content).replace("{up}", env["up"])
        if kind == "run":
            most = int(options.removeprefix("lines=")) if options else 1000
            ran = [next(env["ran"]) for _ in content.strip().splitlines()]
            return f'<pre tabindex="0" class="run"><code>{_ran(ran, most)}</code></pre>\n'
        if kind == "console":
            shown = "\n".join(
                _command(line[2:]) if line.startswith("$ ") else escape(line) for line in content.rstrip("\n").split("\n")
            )
            return f'<pre tabindex="0" class="run"><code>{shown}</code></pre>\n'
        return f'<pre tabindex="0"><code>{self.coloured(content, kind)}</code></pre>\n'

    def coloured(self, content: str, language: str) -> str:
        """A text of a language as HTML."""
        name = _LANGUAGES.get(language)
        if name is None:
            return escape(content)
        if name not in self._lexers:
            self._lexers[name] = get_lexer_by_name(name, stripnl=False)
        return str(highlight(content, self._lexers[name], _FORMATTER))


def _command(line: str) -> str:
    """A command line that breaks between words, and at no hyphen."""
    words = " ".join(f'<span class="w">{escape(word)}</span>' for word in line.split(" "))
    return f'<span class="command"><span class="prompt">$</span> {words}</span>'


def _ran(lines: Sequence[tuple[str, tuple[int, str]]], most: int) -> str:
    """Command lines and the first lines of what each prints."""
    parts = []
    for line, (_, printed) in lines:
        parts.append(_command(line))
        shown = printed.rstrip("\n").split("\n") if printed.strip() else []
        parts += [escape(one) for one in shown[:most]]
        if len(shown) > most:
            parts.append('<span class="cut">…</span>')
    return "\n".join(parts)


def slug(text: str) -> str:
    """The anchor of a heading: letters of any script, digits and hyphens."""
    return re.sub(r"[^\w]+", "-", text.lower()).strip("-_") or "section"


def _in_link(tokens: Sequence[Any], index: int) -> bool:
    depth = 0
    for token in tokens[:index]:
        depth += (token.type == "link_open") - (token.type == "link_close")
    return depth > 0
