"""The first page: what mbpack is, one run, and the ways on."""

from __future__ import annotations

from html import escape

from tools.site import guides
from tools.site.names import KEYS
from tools.site.page import Page, fenced, raw
from tools.site.sessions import ROOT

from mbpack.facts.families import FAMILIES
from mbpack.facts.pitfalls import PITFALLS
from mbpack.facts.releases import RELEASES
from mbpack.rules.catalogue import ALL_RULES

SUMMARY = "Wizard and configuration doctor for sequence packing and long-context fine-tuning in NVIDIA Megatron-Bridge."


def front() -> Page:
    """The first page."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    lead = readme.partition("\n\n")[2].partition("\n\n```")[0]
    cards = (
        ("quickstart.html", "Quick start", "Write a configuration, check it, know why. Also in Chinese, Japanese and Russian."),
        ("modes/index.html", "Which packing mode when", "A map by data and release, and what each mode asks for."),
        ("pack-length.html", "Choosing a pack length", "On the real row lengths of your data, with pictures."),
        ("memory.html", "Does it fit the GPU", "Estimated without a GPU, with a range."),
        ("rules/index.html", "Rules", f"{len(ALL_RULES)} checks, each with a bad and a good example."),
        ("keys/index.html", "Keys", f"{len(KEYS)} keys: who derives them, which rules read them."),
        ("families/index.html", "Model families", f"What works for {len(FAMILIES)} families."),
        ("pitfalls/index.html", "Pitfalls", f"The {len(PITFALLS)} that bite most."),
        ("releases/index.html", "Releases", f"{RELEASES[0]} to {RELEASES[-2]}, and how they are known."),
        ("commands/index.html", "Commands", "Their help, as they print it."),
        ("editors.html", "Editors, CI, agents", "Language server, schemas, pre-commit, GitHub, the skill."),
        ("json.html", "JSON", "The contract for programs, field by field."),
        ("python.html", "Python", "mbpack.check in a script or notebook."),
        ("sessions.html", "Recorded sessions", "Real runs as pictures."),
        ("trust.html", "How far to trust it", "Compared with the released packages."),
    )
    ways = "".join(
        f'<li><a href="{{up}}{path}">{escape(title)}</a><span>{escape(words)}</span></li>' for path, title, words in cards
    )
    parts = [
        lead,
        fenced("$ pip install mbpack\n$ mbpack doctor packing.yaml", "console"),
        guides.terminal("doctor", "mbpack doctor sft.yaml", "A real run: three errors, one note, and the numbers behind them."),
        raw(f'<ul class="cards">{ways}</ul>'),
    ]
    return Page("index.html", "mbpack", SUMMARY, "\n\n".join(parts))
