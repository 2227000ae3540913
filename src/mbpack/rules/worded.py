"""Rules in words alone: what they refuse stands in the tables of upstream's checks, and an entry says it.

A :class:`Worded` is a rule like any other for everybody who reads rules. It has no code of its own: each check that it
speaks for, named as in every release, has a :class:`Said`. Entries lie in the modules ``words*.py`` of the topic folders, and are
imported where a check refuses or somebody reads about rules.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from mbpack.config.run import Run
from mbpack.config.settings import ABSENT, Object, Setting, Unknown, WrongKind
from mbpack.facts.keys import path_in
from mbpack.facts.releases import R03, R06, Release
from mbpack.rules.base import REJECTED, REJECTED_LOAD, Edit, Finding, Fix, RejectingRule, in_yaml, place, set_to

if TYPE_CHECKING:
    from mbpack.checks.evaluate import Refusal
    from mbpack.facts.checks import Checks
    from mbpack.rules.documentation import Page

#: Values to set by canonical key (a function works one out), words alone, or a function that makes the whole fix.
Mend = Mapping[str, Any] | str | Callable[[Run], Fix | None] | None
_PLACE = re.compile(r"\{(=?)([\w.]+)\}")
#: What may follow the beginning of a name that an entry gives.
_SECTIONS = frozenset({"mixed_precision", "comm_overlap", "dataset", "model", "peft", "profiling", "tensor_inspect", "_target_"})
_ENDS = ("", "=", " ", "#")


class Said(NamedTuple):
    """The words for a check.

    Keys are canonical; those without a section are of the entry's own. In a text ``{fp8}`` stands for the value of a key, ``{=fp8}`` for
    its name in the release; a function makes a text of its own.
    """

    says: str | Callable[[Run], str]
    #: The keys it is about, parted by blanks: the first that is written is blamed, else the first of all.
    at: str
    why: str = ""
    fix: Mend = None
    #: Whether the fix leaves the training as it is.
    safe: bool = False
    #: What else would do, behind the values that a fix sets.
    other: str = ""


class Told:
    """What entries have said so far, and what their fixes set."""

    def __init__(self) -> None:
        self._said: set[tuple[str, str]] = set()
        self._mended: set[Edit] = set()

    def is_new(self, finding: Finding) -> bool:
        """Whether nobody has said it, and no fix before makes all its edits; a list or a mapping is never taken for another."""
        edits = finding.fix.edits if finding.fix is not None else ()
        plain = {edit for edit in edits if not isinstance(edit.value, (list, dict))}
        known = (finding.rule.slug, finding.message) in self._said or (
            bool(edits) and len(plain) == len(edits) and plain <= self._mended
        )
        self._said.add((finding.rule.slug, finding.message))
        self._mended.update(plain)
        return not known


class Worded(RejectingRule):
    """A rule whose conditions stand in the tables."""

    def __init__(
        self,
        code: str,
        slug: str,
        place: str,
        title: str,
        checks: Mapping[str, Said],
        *bad: Mapping[str, Any],
        on: str = "recipe=llama3_8b_sft_config gpus=8",
        section: str = "model",
        good: Mapping[str, Any] | None = None,
        text: str = "",
        releases: tuple[Release, Release] | None = None,
        only_with: str = "",
    ) -> None:
        self.code, self.slug = code, slug  # type: ignore[misc]
        self.title, self.text, self.on, self.section = title, text, on, section
        self.bad = tuple({self.whole(key): value for key, value in one.items()} for one in bad)
        self.good = None if good is None else {self.whole(key): value for key, value in good.items()}
        #: By the beginning of the names of the checks: a whole word, or all before what it is compared with or its guard.
        self.checks = {name if ":" in name else f"{place}:{name}": said for name, said in checks.items()}
        if releases is not None:
            self.releases = releases  # type: ignore[misc]
        #: Keys of which one must hold something for any of the checks to refuse; asked first where many recipes are judged.
        self.only_with = tuple(self.whole(key) for key in only_with.split())

    def check(self, run: Run) -> Iterator[Finding]:
        """What the checks of this entry refuse, asked by themselves; a start-up is gone through once by CHK101 instead.

        Raises:
            Unknown: a value that somebody wrote, and that a check asks for, is not known.
        """
        from mbpack.checks.evaluate import Start
        from mbpack.checks.single import only, unknown

        if not run.settings.base_known and run.settings.recipe is None:
            written = (key for said in self.checks.values() for key in said.at.split() if run.wrote(self.whole(key)))
            key = next(written, None)
            if key is not None:
                raise Unknown(self.whole(key), ("recipe",))
            return
        if self.only_with and all(_is_off(run, key) for key in self.only_with):
            return
        table = table_of(run.release)
        start = Start(run, table)
        told = Told()
        for refusal in only(start, lambda name: worded(name) is self, self.slug):
            finding = self.told(run, table, refusal)
            if told.is_new(finding):
                yield finding
        for name, lack in unknown(start):
            if worded(name) is self:
                raise lack

    def said(self, name: str) -> Said | None:
        """The words for a check; None where this entry has none. Of several that fit, the longest."""
        begin = self.begin(name)
        return None if begin is None else self.checks[begin]

    def begin(self, name: str) -> str | None:
        """The longest beginning of a check's name that this entry has words for."""
        name = name.replace(f"{self.section}.", "")
        found = [one for one in self.checks if name.startswith(one) and name[len(one) : len(one) + 1] in _ENDS]
        return max(found, key=len, default=None)

    def told(self, run: Run, table: Checks, refusal: Refusal, station: str = "", offset: int = 1) -> Finding:
        """The finding of one refusal by a check of this entry."""
        from mbpack.checks.read import asked
        from mbpack.checks.values import canonical

        said = self.said(refusal.name)
        assert said is not None, refusal.name
        keys = [self.whole(key) for key in said.at.split()]
        read = [canonical(run.release, key) for key in asked(table, refusal).keys]
        blamed = _blamed(run, (*keys, *(key for key in read if key not in keys)))
        item = blamed.item
        return self.finding(
            run,
            REJECTED_LOAD if refusal.made else REJECTED,
            blamed.key,
            said.says(run) if callable(said.says) else self._filled(run, said.says),
            why=self._filled(run, said.why),
            related=tuple(dict.fromkeys(key for key in (*keys, *read) if key != blamed.key)),
            fix=self._mended(run, said),
            setting=blamed,
            station="load" if refusal.made else station,
            offset=item.span.end if refusal.made and item is not None else offset,
        )

    def whole(self, key: str) -> str:
        """A canonical key; one without a section is of the entry's own."""
        return key if "." in key or key in _SECTIONS else f"{self.section}.{key}"

    def _filled(self, run: Run, text: str) -> str:
        """A text with the values and names that it asks for."""

        def value(match: re.Match[str]) -> str:
            key = self.whole(match[2])
            if match[1]:
                return path_in(run.release, key).rpartition(".")[2]
            setting = run.settings.peek(key)
            held = None if setting is None or setting.value is ABSENT else setting.value
            return in_yaml((held.target or "a mapping") if isinstance(held, Object) else held)

        return _PLACE.sub(value, text)

    def _mended(self, run: Run, said: Said) -> Fix | None:
        """The fix of an entry for a run."""
        if said.fix is None or isinstance(said.fix, str):
            return Fix(self._filled(run, said.fix)) if said.fix is not None else None
        if callable(said.fix):
            return said.fix(run)
        pairs = [(self.whole(key), value(run) if callable(value) else value) for key, value in said.fix.items()]
        names = [f"{path_in(run.release, key).rpartition('.')[2]}: {in_yaml(value)}" for key, value in pairs]
        title = " and ".join(names)
        return Fix(f"{title}, {said.other}" if said.other else title, set_to(run, *pairs), said.safe)

    def page(self) -> Page:
        """What ``mbpack explain`` shows: the good examples are the bad ones with the fixes applied."""
        from mbpack.rules.documentation import Page

        mends = [
            {self.whole(key): value for key, value in said.fix.items()}
            for said in self.checks.values()
            if isinstance(said.fix, Mapping)
        ]
        goods = [{**bad, **(self.good if self.good is not None else mends[0] if mends else {})} for bad in self.bad[:1]]
        head = f"# mbpack: bridge=0.6 {self.on} launcher=script\n"
        return Page(
            title=self.title,
            text=self.text,
            bad=tuple(head + _written(bad) for bad in self.bad),
            good=tuple(head + _written(good) for good in goods),
            upstream=tuple(dict.fromkeys(f"`{name.partition(':')[0]}`" for name in self.checks)),
            notes="",
        )


def _is_off(run: Run, key: str) -> bool:
    """Whether a key surely holds null or false; one that the release does not have holds nothing."""
    try:
        return run.value(key) in (None, False, ABSENT)
    except (Unknown, WrongKind):
        return False


def _blamed(run: Run, keys: tuple[str, ...]) -> Setting:
    found = [setting for key in keys if (setting := run.settings.peek(key)) is not None and setting.value is not ABSENT]
    return next((setting for setting in found if setting.item is not None), found[0] if found else place(run, keys[0]))


def _written(values: Mapping[str, Any]) -> str:
    """Values by dotted key as a file a person would write, one line a section."""
    sections: dict[str, list[str]] = {}
    for key, value in values.items():
        section, _, name = key.partition(".")
        sections.setdefault(section, []).append(f"{name}: {_flow(value)}" if name else _flow(value))
    lines = [
        f"{section}: {{{', '.join(parts)}}}" if ": " in parts[0] and not parts[0].startswith("{") else f"{section}: {parts[0]}"
        for section, parts in sections.items()
    ]
    return "\n".join(lines) + "\n"


def _flow(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_flow, value))}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key}: {_flow(held)}' for key, held in value.items())}}}"
    return in_yaml(value)


@cache
def _entries() -> Mapping[str, list[Worded]]:
    from mbpack.rules.registry import module_names, module_rules, of_words

    found: dict[str, list[Worded]] = {}
    for rule in (rule for name in module_names() if of_words(name) for rule in module_rules(name)):
        assert isinstance(rule, Worded)
        for function in dict.fromkeys(check.partition(":")[0] for check in rule.checks):
            found.setdefault(function, []).append(rule)
    return found


@cache
def worded(name: str) -> Worded | None:
    """The entry that speaks for a check, by its name: the one that tells most of it."""
    found = [(len(begin), rule) for rule in _entries().get(name.partition(":")[0], ()) if (begin := rule.begin(name)) is not None]
    return max(found, key=lambda pair: pair[0])[1] if found else None


def table_of(release: Release) -> Checks:
    """The table to ask for a release; a later one is asked by the newest, of which only what has words is taken."""
    from mbpack.facts.checks import checks

    table = checks(release.name) or checks((R06 if release > R03 else R03).name)
    assert table is not None, "the package has its tables"
    return table
