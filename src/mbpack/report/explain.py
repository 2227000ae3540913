"""The pages of `mbpack explain`: a rule, a key, a mode, a family, a pitfall, or the map of everything."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from mbpack.facts import upstream_tests
from mbpack.facts.homes import homes, in_both
from mbpack.facts.keys import CP, EP, ETP, PP, RENAMES, TP, VPP, path_in
from mbpack.facts.modes import MODES, Mode
from mbpack.facts.pages import rule_url
from mbpack.facts.pitfalls import PITFALLS, Pitfall
from mbpack.facts.proofs import DEMONSTRATIONS, READ, REPORTED, SHOWN, proof_of
from mbpack.facts.releases import DEFAULT, NIGHTLY, RELEASES
from mbpack.facts.schema import releases_with
from mbpack.report import explain_more as more
from mbpack.report.explain_recipes import adapter_page, recipe_page
from mbpack.report.explain_releases import releases_page
from mbpack.report.style import Style
from mbpack.rules.base import Rule, words
from mbpack.rules.catalogue import ALL_RULES, BY_NAME
from mbpack.rules.documentation import page_of


class UnknownTopicError(ValueError):
    """Nothing goes by that name; the message offers close ones."""


def page(topic: str, style: Style) -> str:
    """The page of a topic.

    Raises:
        UnknownTopicError: nothing goes by that name.
    """
    return found(topic, style)[1]


def found(topic: str, style: Style) -> tuple[str, str]:
    """What kind of thing a topic is, and its page.

    Raises:
        UnknownTopicError: nothing goes by that name.
    """
    for kind, find in _FINDERS.items():
        lines = find(topic, style)
        if lines is not None:
            return kind, "\n".join(lines)
    raise UnknownTopicError(_unknown(topic))


def overview(style: Style) -> str:
    """Modes, pitfalls, all rules."""
    return "\n".join([*_modes(style), "", *_pitfalls(style), "", *_rules(style)])


def _title(text: str, style: Style) -> str:
    return style.paint("bold", text)


def _paragraph(text: str, style: Style, indent: str = "") -> Iterator[str]:
    for block in text.split("\n\n"):
        yield from style.wrap(" ".join(block.split()), indent, indent)
        yield ""


# ---------------------------------------------------------------------- rules


def _rule(topic: str, style: Style) -> list[str] | None:
    rule = BY_NAME.get(topic.upper()) or BY_NAME.get(topic.lower())
    return list(rule_page(rule, style)) if rule is not None else None


def rule_page(rule: Rule, style: Style) -> Iterator[str]:
    """Everything known about one rule."""
    doc = page_of(rule)
    yield _title(f"{rule.code}  {rule.slug}", style)
    yield from style.wrap(doc.title, "", "")
    yield ""
    yield f"Releases   {span(rule)}"
    if rule.rejects:
        yield "Checked    by upstream itself, at load or start-up"
    yield ""
    if doc.text:
        yield from _paragraph(doc.text, style)
    for heading, examples in (("Bad", doc.bad), ("Good", doc.good)):
        for example in examples:
            yield _title(heading, style)
            yield from (f"  {line}" for line in example.rstrip().split("\n"))
            yield ""
    if doc.notes:
        yield _title("Release notes", style)
        yield from _paragraph(doc.notes, style, "  ")
    yield from proof_lines(rule, style)
    if doc.upstream:
        yield _title("Upstream", style)
        for item in doc.upstream:
            yield from style.wrap(item, "  ", "    ")
        yield ""
    tests = more.tests_of(rule)
    if tests:
        yield f"{_title('Upstream tests', style)} {tests[0]}"
        yield from (f"  {command}" for command in tests[1:])
        yield ""
    about = [pitfall for pitfall in PITFALLS if rule.slug in pitfall.rules]
    if about:
        words = ", ".join(f"pitfall {pitfall.number} ({pitfall.title})" for pitfall in about)
        yield from style.wrap(words, "See also   ", "           ")
    yield f"Page       {rule_url(rule.code)}"
    yield f"Ignore it in one file with a comment   # mbpack: ignore[{rule.code}] reason"


def proof_lines(rule: Rule, style: Style) -> Iterator[str]:
    """How the consequence is known, for rules that speak of more than a refusal."""
    proof = proof_of(rule.code)
    if proof is None:
        return
    if proof.kind == SHOWN:
        names = ", ".join(f"{DEMONSTRATIONS}/{name}.py" for name in proof.detail.split())
        yield from style.wrap(f"shown by running upstream's own code of {words(proof.releases)}", "Proof      ", "           ")
        yield from style.wrap(names, "           ", "           ")
        return
    said = {READ: "read in upstream's source", REPORTED: "reported in public"}[proof.kind]
    detail = f"; not run here: {proof.detail}" if proof.kind == READ else f": {proof.detail}"
    yield from style.wrap(said + (detail if proof.detail else ""), "Proof      ", "           ")


def span(rule: Rule) -> str:
    """The releases a rule concerns, in words."""
    first, last = rule.releases
    if (first, last) == (RELEASES[0], RELEASES[-1]):
        return "all"
    if first is last:
        return first.name
    return f"{first} and later" if last is NIGHTLY else f"{first} to {last}"


def _rules(style: Style) -> Iterator[str]:
    yield _title(f"Rules ({len(ALL_RULES)}): mbpack explain CODE", style)
    topic = ""
    for rule in sorted(ALL_RULES, key=lambda rule: (rule.topic, rule.code)):
        if rule.topic != topic:
            topic = rule.topic
            yield f"  {topic}"
        yield from style.wrap(page_of(rule).title, f"    {rule.code}  ", "            ")


# ---------------------------------------------------------------------- pitfalls


def _pitfall(topic: str, style: Style) -> list[str] | None:
    number = topic.lower().removeprefix("pitfall").strip(" -#")
    found = next((pitfall for pitfall in PITFALLS if str(pitfall.number) == number), None)
    return list(_pitfall_page(found, style)) if found is not None else None


def _pitfall_page(pitfall: Pitfall, style: Style) -> Iterator[str]:
    yield _title(f"Pitfall {pitfall.number}: {pitfall.title}", style)
    yield ""
    yield from _paragraph(pitfall.text, style)
    yield from _related(pitfall.rules, style)


def _pitfalls(style: Style) -> Iterator[str]:
    yield _title("Pitfalls: mbpack explain NUMBER", style)
    for pitfall in PITFALLS:
        yield from style.wrap(pitfall.title, f"  {pitfall.number:>2}  ", "      ")


def _related(slugs: Iterable[str], style: Style) -> Iterator[str]:
    yield _title("Rules", style)
    for slug in slugs:
        rule = BY_NAME.get(slug)
        if rule is not None:
            yield from style.wrap(page_of(rule).title, f"  {rule.code}  ", "          ")


# ---------------------------------------------------------------------- modes


def _mode(topic: str, style: Style) -> list[str] | None:
    name = topic.lower().replace("-", "_").removesuffix("_packing")
    mode = MODES.get(name)
    if mode is None:
        return None
    lines = list(_mode_lines(mode, style))
    marks = more.FEATURES.get(mode.name, ())
    slugs = [rule.slug for rule in ALL_RULES if more.concerned(rule, marks)]
    tests = [t.command for t in upstream_tests.commands("0.6" if mode.since.name != "0.7" else "0.7", {mode.name})]
    if slugs:
        lines += ["", *_related(slugs, style)]
    if tests:
        lines += ["", _title("Upstream tests", style), *(f"  {command}" for command in tests)]
    return lines


def _modes(style: Style) -> Iterator[str]:
    yield _title("Packing modes: mbpack explain MODE", style)
    for mode in MODES.values():
        yield from _mode_lines(mode, style, "  ")


def _mode_lines(mode: Mode, style: Style, indent: str = "") -> Iterator[str]:
    yield indent + _title(f"{mode.name}: {mode.title}", style) + (f"   since {mode.since}" if mode.since.name != "0.3" else "")
    for label, text in (("where", mode.where), ("rows", mode.micro_batch), ("width", mode.width), ("batch", mode.counts)):
        yield from style.wrap(text, f"{indent}  {label:<6} ", f"{indent}         ")


# ---------------------------------------------------------------------- keys and families


#: Sizes as everybody calls them.
_SHORT = {
    "tp": TP,
    "pp": PP,
    "cp": CP,
    "vpp": VPP,
    "ep": EP,
    "etp": ETP,
    "sp": "model.sequence_parallel",
    "mbs": "train.micro_batch_size",
    "gbs": "train.global_batch_size",
}


def _key(topic: str, style: Style) -> list[str] | None:
    """The page of a key; for a name alone, of the section that is meant: of both where two must say the same."""
    name = topic.lower()
    if name == "packing":
        return list(_modes(style))
    if "." in topic or topic in _mentioned_keys():
        return _key_page(topic, style)
    places = (_SHORT[name],) if name in _SHORT else homes(DEFAULT, name)
    pages = [_key_page(place, style) for place in places[: 2 if in_both(name) else 1]]
    found = [lines for lines in pages if lines is not None]
    return [line for number, lines in enumerate(found) for line in ([""] * bool(number) + lines)] or _key_page(topic, style)


def _key_page(topic: str, style: Style) -> list[str] | None:
    keys = _mentioned_keys()
    names = {key.rpartition(".")[2]: key for key in sorted(keys, reverse=True)}  # of two, the first by name
    key = topic if topic in keys else names.get(topic) or names.get(topic.lower())
    section, _, rest = (key or topic).partition(".")
    known = releases_with(section, rest) if rest and "." not in rest else []
    if key is None and not known and not _is_read(topic):
        return None
    key = key or topic
    lines = [_title(key, style), *more.meaning_lines(key, style), ""]
    renamed = False
    spellings = {path_in(release, key) for release in RELEASES}
    for rename in RENAMES:
        if key in (rename.old, rename.new):
            renamed = True
            lines += style.wrap(f"Called {rename.new} from {rename.since} on, {rename.old} before.", "", "")
    if len(spellings) > 1 and not renamed:
        words = ", ".join(f"{path_in(r, key)} ({r})" for r in RELEASES if r.name in ("0.5", "0.6"))
        lines += style.wrap(words, "Spelled    ", "           ")
    if known:
        lines += style.wrap(", ".join(known), "Known in   ", "           ")
    lines += more.field_lines(key, style)
    slugs = [rule.slug for rule in ALL_RULES if key in more.keys_read(rule)]
    return [
        *lines,
        "",
        *more.setter_lines(key, style),
        *more.pitfall_lines(key, style),
        *(_related(slugs, style) if slugs else []),
    ]


def _is_read(topic: str) -> bool:
    """Whether a dotted name is a key that a rule reads."""
    parts = topic.split(".")
    return (
        len(parts) > 1 and all(part.isidentifier() for part in parts) and any(topic in more.keys_read(rule) for rule in ALL_RULES)
    )


def _mentioned_keys() -> set[str]:
    from mbpack.config.effective import SHOWN

    return set(SHOWN) | {rename.old for rename in RENAMES} | {rename.new for rename in RENAMES}


def _unknown(topic: str) -> str:
    from difflib import get_close_matches

    keys = sorted(_mentioned_keys())
    names = [*BY_NAME, *MODES, *more.names(), *keys, *(key.rpartition(".")[2] for key in keys)]
    near = list(dict.fromkeys(get_close_matches(topic, names, n=3, cutoff=0.5)))
    hint = f"; did you mean {', '.join(near)}?" if near else ""
    if topic.isascii() and topic.isdigit():
        hint = f"; pitfalls are numbered from 1 to {len(PITFALLS)}"
    topic = topic if len(topic) <= 60 else topic[:59] + "…"
    return f"nothing is called {topic}{hint} (mbpack explain lists modes, pitfalls and rules)"


#: Kinds of topics in the order in which a name is looked for.
_FINDERS: dict[str, Callable[[str, Style], list[str] | None]] = {
    "rule": _rule,
    "pitfall": _pitfall,
    "mode": _mode,
    "releases": releases_page,
    "key": _key,
    "number": more.number_page,
    "family": more.family_page,
    "topic": more.topic_page,
    "adapter": adapter_page,
    "recipe": recipe_page,
}
