"""Pages of what `mbpack explain` explains besides rules: keys, packing modes, families, pitfalls, releases. The text is explain's own."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tools.site.names import KEYS, family_path, key_path, mode_path
from tools.site.page import Crumb, Page, code, fenced, plain, raw, table

from mbpack.facts import families
from mbpack.facts.families import FAMILIES, OK, support
from mbpack.facts.keys import path_in
from mbpack.facts.modes import MODES, NONE
from mbpack.facts.pitfalls import PITFALLS
from mbpack.facts.releases import RELEASES
from mbpack.report.explain import page as explained
from mbpack.report.explain_more import default_words, usual_field
from mbpack.report.style import Style
from mbpack.rules.catalogue import ALL_RULES
from mbpack.rules.documentation import page_of

_STYLE = Style(colour=True, width=100_000)
_BOLD = re.compile(r"^\x1b\[1m(.*?)\x1b\[0m(.*)$")
_NAME = re.compile(r"[\w.]+")
_LABEL = re.compile(r"^( {0,2}\S[\w. ]{0,14}?) {2,}(\S.*)$")
_TITLES = {mode.title: name for name, mode in MODES.items()}

KEY_INDEX = Crumb("Keys", "keys/index.html")
MODE_INDEX = Crumb("Packing modes", "modes/index.html")
FAMILY_INDEX = Crumb("Families", "families/index.html")
PITFALL_INDEX = Crumb("Pitfalls", "pitfalls/index.html")
RELEASE_INDEX = Crumb("Releases", "releases/index.html")


def body(topic: str) -> str:
    """The page of a topic that `mbpack explain` prints, without its first line, as Markdown."""
    return "\n".join(_markdown(explained(topic, _STYLE).split("\n")[1:])).strip()


def _markdown(lines: list[str]) -> Iterator[str]:
    commands: list[str] = []
    for line in [*lines, ""]:
        if line.startswith("  uv run "):
            commands.append(line.strip())
            continue
        if commands:
            yield from ("", fenced("\n".join(commands), "sh"), "")
            commands = []
        bold = _BOLD.match(line)
        if bold:
            yield from ("", f"## {plain(bold[1])}{plain(bold[2])}", "")
        elif rule := re.match(r"^  ([A-Z]{3}\d{3})  (.*)$", line):
            yield f"- `{rule[1]}` {plain(rule[2])}"
        elif pitfall := re.match(r"^ +(\d+)  (\S.*)$", line):
            yield f"- [Pitfall {pitfall[1]}](pitfalls/{pitfall[1]}.html): {plain(pitfall[2])}"
        elif label := _LABEL.match(line):
            yield f"- **{plain(label[1].strip())}**: {plain(label[2])}"
        elif line in _TITLES:
            yield f"\n**[{line}]({mode_path(_TITLES[line])})**\n"
        elif line.startswith("  "):
            text = line.strip()
            yield "- " + (code(text) if _NAME.fullmatch(text) else plain(text))
        else:
            yield f"\n{plain(line)}\n"


# ---------------------------------------------------------------------- keys


def keys() -> Iterator[Page]:
    """The index of keys by section, and a page for each."""
    sections: dict[str, list[str]] = {}
    for key in sorted(KEYS):
        sections.setdefault(key.partition(".")[0], []).append(key)
    parts = [
        f"{len(KEYS)} keys about which there is more to say than a type: rules read them, the start-up or the launcher derives them, or "
        "their name changed. `mbpack list keys` has all of a release; `mbpack schema overrides` is for editors."
    ]
    for section, names in sections.items():
        rows = [(code(name), _since(name)) for name in names]
        parts += [f"## {section}", table(("key", "known in"), rows)]
    yield Page(KEY_INDEX.path, "Keys", "Configuration keys of Megatron-Bridge that mbpack explains.", "\n\n".join(parts))
    for section, names in sections.items():
        for name in names:
            text = body(name) + _by_release(name)
            crumbs = (KEY_INDEX, Crumb(section, f"{KEY_INDEX.path}#{section}"))
            summary = f"{name}: who derives it, which rules read it, and its type and default in each release."
            yield Page(key_path(name), name, summary, text, crumbs, name.replace(".", " "))


def _fields(key: str) -> Iterator[tuple[str, str, str, str, str]]:
    """Release, spelling, class, type and default of a key wherever a release has it."""
    for release in RELEASES[:-1]:
        spelled = path_in(release, key)
        found = usual_field(release, spelled)
        if found is not None:
            owner, field = found
            yield release.name, spelled, owner, field.type, default_words(field.default)


def _since(key: str) -> str:
    return ", ".join(row[0] for row in _fields(key)) or "-"


def _by_release(key: str) -> str:
    rows = [
        (name, code(spelled), code(owner), code(kind), code(default.removeprefix("default ")))
        for name, spelled, owner, kind, default in _fields(key)
    ]
    return "\n\n## In each release\n\n" + table(("release", "spelled", "class", "type", "default"), rows) if rows else ""


# ---------------------------------------------------------------------- modes


def modes(picture: str) -> Iterator[Page]:
    """The map of modes and what each asks for, and a page for each."""
    rows = [
        (
            f"[{mode.title}]({mode_path(name)})",
            plain(mode.where),
            plain(mode.micro_batch),
            plain(mode.width),
            plain(mode.counts),
            str(mode.since),
        )
        for name, mode in MODES.items()
    ]
    text = (
        "Packing joins samples of varying length into rows, so that no compute goes into padding. Which mode fits depends on the data, the "
        "model and the release. The map shows what `mbpack init` recommends; it is drawn by asking its wizard.\n\n"
        + raw(
            f'<figure class="wide"><div class="scroll" tabindex="0">{picture}</div><figcaption>Which packing mode when, by release. '
            "<em>also</em>: modes that fit as well and have to be asked for.</figcaption></figure>"
        )
        + "\n\n## The modes side by side\n\n"
        + table(("mode", "packs", "micro batch", "width of a row", "the global batch counts", "since"), rows)
        + "\n\n## Try it\n\n"
        + fenced(
            "$ mbpack init --bridge 0.6 --recipe llama3_8b_sft_config --gpus 8 --yes --dry-run\n$ mbpack explain offline",
            "console",
        )
    )
    yield Page(
        MODE_INDEX.path, "Which packing mode when", "A map of the packing modes of Megatron-Bridge by data and release.", text
    )
    for name, mode in MODES.items():
        title = mode.title[0].upper() + mode.title[1:]
        yield Page(mode_path(name), title, f"{title}: {mode.where}.", body(name), (MODE_INDEX,), f"{name} packing")


# ---------------------------------------------------------------------- families


_SAID = {OK: "works", families.OPTED_OUT: "not offered", families.REFUSED: "refused"}


def families_() -> Iterator[Page]:
    """Family by mode in the newest release that has each, and a page for each family."""
    columns = [
        (mode, release)
        for mode in MODES.values()
        if mode is not NONE
        for release in (RELEASES[-2], RELEASES[-3])
        if release >= mode.since
    ]
    head = "".join(f"<th>{mode.title}, {release}</th>" for mode, release in columns)
    rows = []
    for family in FAMILIES:
        cells = "".join(
            f'<td class="{verdict}">{_SAID[verdict]}</td>'
            for verdict in (support(release, family.name, mode.name).verdict for mode, release in columns)
        )
        rows.append(
            f'<tr><td><a href="{{up}}{family_path(family.name)}">{family.title}</a></td><td>{family.modality}</td>{cells}</tr>'
        )
    matrix = f'<div class="scroll" tabindex="0"><table><thead><tr><th>family</th><th>reads</th>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'
    text = f"What the code of a family refuses, and what its recipes leave out, release by release on each page.\n\n{raw(matrix)}"
    yield Page(FAMILY_INDEX.path, "Model families", "Which packing mode works for which model family.", text)
    for family in FAMILIES:
        summary = f"{family.title} in Megatron-Bridge: which packing modes work in which release, and its recipes."
        yield Page(
            family_path(family.name),
            family.title,
            summary,
            body(family.name),
            (FAMILY_INDEX,),
            f"{family.name} {' '.join(family.models)}",
        )


# ---------------------------------------------------------------------- pitfalls and releases


def pitfalls() -> Iterator[Page]:
    """The pitfalls in their order, and a page for each."""
    listed = "\n".join(
        f"{one.number}. [{plain(one.title)}](pitfalls/{one.number}.html)  \n   {plain(one.text)}" for one in PITFALLS
    )
    text = f"What goes wrong most often, numbered as in the public packing guide of Megatron-Bridge, with the rules that look at each.\n\n{listed}"
    yield Page(PITFALL_INDEX.path, "Pitfalls", "The pitfalls of sequence packing, with the rules that look at each.", text)
    for one in PITFALLS:
        yield Page(
            f"pitfalls/{one.number}.html",
            f"{one.number}. {one.title[0].upper()}{one.title[1:]}",
            one.text.replace("`", ""),
            body(str(one.number)),
            (PITFALL_INDEX,),
        )


def releases() -> Iterator[Page]:
    """What is known of each release, and a page for each with the rules that begin or end there."""
    listed = "\n".join(f"- [{release.name}](releases/{release.name}.html)" for release in RELEASES)
    text = f"{listed}\n\n{body('releases')}"
    yield Page(RELEASE_INDEX.path, "Releases", "What mbpack knows of each release of Megatron-Bridge, and how.", text)
    for number, release in enumerate(RELEASES):
        parts = [body(release.name)]
        before = RELEASES[number - 1] if number else None
        gone = [rule for rule in ALL_RULES if before is not None and rule.releases[1] is before]
        new = [rule for rule in ALL_RULES if before is not None and rule.releases[0] is release]
        for heading, rules in ((f"Rules that begin with {release}", new), (f"Rules that ended with {before}", gone)):
            if rules:
                parts.append(f"## {heading}\n\n" + "\n".join(f"- `{rule.code}` {plain(page_of(rule).title)}" for rule in rules))
        parts.append(_spelled(release.name))
        yield Page(
            f"releases/{release.name}.html",
            f"Megatron-Bridge {release.name}",
            f"What mbpack knows of Megatron-Bridge {release.name}.",
            "\n\n".join(parts),
            (RELEASE_INDEX,),
        )


def _spelled(name: str) -> str:
    """Keys that a release calls differently than the one before it."""
    at = next(number for number, release in enumerate(RELEASES) if release.name == name)
    if not at:
        return ""
    pairs = [(path_in(RELEASES[at - 1], key), path_in(RELEASES[at], key)) for key in sorted(KEYS)]
    rows = [(code(old), code(new)) for old, new in dict.fromkeys(pairs) if old != new]
    return f"## Keys under a new name\n\n{table((str(RELEASES[at - 1]), name), rows)}" if rows else ""
