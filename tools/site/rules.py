"""A page for every rule, from its docstring, its proof and the keys it reads; and the index of all."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from tools.site.names import KEYS
from tools.site.page import Crumb, Page, code, fenced, plain, raw, table

from mbpack.facts.pages import rule_path
from mbpack.facts.pitfalls import PITFALLS
from mbpack.report import explain_more
from mbpack.report.explain import proof_lines, span
from mbpack.report.style import Style
from mbpack.rules.base import Rule
from mbpack.rules.catalogue import ALL_RULES
from mbpack.rules.documentation import page_of

INDEX = Crumb("Rules", "rules/index.html")
WIDE = Style(width=100_000)

RULES = sorted(ALL_RULES, key=lambda rule: (rule.topic, rule.code))


def pages() -> Iterator[Page]:
    """The index, then every rule in the order of the index."""
    yield Page(INDEX.path, "Rules", f"All {len(RULES)} rules of the doctor, by topic.", _index())
    for rule in RULES:
        doc = page_of(rule)
        crumbs = (INDEX, Crumb(rule.topic, f"{INDEX.path}#{rule.topic}"))
        yield Page(
            rule_path(rule.code), f"{rule.code} {rule.slug}", _flat(doc.title), "\n\n".join(_text(rule)), crumbs, rule.slug
        )


def _index() -> str:
    parts = [
        f"{len(RULES)} rules. `mbpack explain CODE` prints each of these pages in a terminal, and every report names the codes. "
        "Codes and addresses do not change once they were released.",
    ]
    for topic, rules in groupby(RULES, key=lambda rule: rule.topic):
        rows = [(f"`{rule.code}`", plain(page_of(rule).title), span(rule)) for rule in rules]
        parts += [f"## {topic}", table(("rule", "says", "releases"), rows)]
    return "\n\n".join(parts)


def _text(rule: Rule) -> Iterator[str]:
    doc = page_of(rule)
    yield f"**{plain(doc.title)}**"
    checked = '<span class="label">checked by upstream at load or start-up</span>' if rule.rejects else ""
    yield raw(f'<p><span class="label">releases: {span(rule)}</span><span class="label">group: {rule.topic}</span>{checked}</p>')
    if doc.text:
        yield plain(doc.text)
    for heading, kind, examples in (("Bad", "bad", doc.bad), ("Good", "good", doc.good)):
        if examples:
            yield f"## {heading}"
            yield raw(f'<div class="{kind}">')
            yield from (
                fenced(example, "python" if example.startswith(("import ", "from ", "cfg")) else "yaml") for example in examples
            )
            yield raw("</div>")
    if doc.notes:
        yield f"## Release notes\n\n{plain(doc.notes)}"
    proof = [line.removeprefix("Proof").strip() for line in proof_lines(rule, WIDE)]
    if proof:
        where = "".join(f"\n- {code(path)}" for path in " ".join(proof[1:]).split(", ") if path)
        yield f"## How the consequence is known\n\n{plain(proof[0][0].upper() + proof[0][1:])}{':' if where else '.'}\n{where}"
    keys = sorted(explain_more.keys_read(rule) & KEYS)
    if keys:
        yield "## Keys it reads\n\n" + ", ".join(code(key) for key in keys)
    about = [pitfall for pitfall in PITFALLS if rule.slug in pitfall.rules]
    if about:
        yield "## Pitfalls\n\n" + "\n".join(
            f"- [Pitfall {one.number}: {plain(one.title)}](pitfalls/{one.number}.html)" for one in about
        )
    if doc.upstream:
        yield "## Upstream\n\n" + "\n".join(f"- {plain(item)}" for item in doc.upstream)
    tests = explain_more.tests_of(rule)
    if tests:
        yield f"Upstream's own tests {plain(tests[0])}:"
        yield fenced("\n".join(tests[1:]), "sh")
    yield f"## Leaving it out\n\nIn one file, in a comment; behind a value it holds for that line:\n\n{fenced(f'# mbpack: ignore[{rule.code}] reason', 'yaml')}"


def _flat(text: str) -> str:
    return text.replace("`", "")
