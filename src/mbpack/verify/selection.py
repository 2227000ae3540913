"""Upstream's selections held against the test files of a checkout: does each select what it should?"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator

from msgspec import Struct

from mbpack.facts.releases import Release
from mbpack.facts.upstream_tests import Correction, Selection, commands, corrections
from mbpack.verify.checkout import Checkout
from mbpack.verify.collect import TestFile, collect
from mbpack.verify.keywords import KeywordError
from mbpack.verify.published import published

#: The Python that upstream's tests are written for (`requires-python`).
UPSTREAM_PYTHON = (3, 12)
#: States of a selection, and whether each is as expected.
STATES = {
    "ok": True,  # selects the expected number
    "more": True,  # selects more: a later commit of the release
    "absent": True,  # not in this development tree, which is known to exist without it
    "unchecked": True,  # nobody looked: no checkout
    "uncounted": True,  # not readable by a Python older than the one upstream is written for; pytest will tell
    "fewer": False,
    "empty": False,  # pytest would exit with 5
    "missing": False,  # pytest would exit with 4
    "unreadable": False,
}


class Checked(Struct, frozen=True):
    """One selection in one checkout: how many tests it selects (a lower bound unless exact), and what that means."""

    selection: Selection
    state: str = "unchecked"
    found: int | None = None
    exact: bool = True
    note: str = ""

    @property
    def good(self) -> bool:
        """Whether this is as expected."""
        return STATES[self.state]

    @property
    def runnable(self) -> bool:
        """Whether there is anything to run."""
        return self.state in ("ok", "more", "fewer", "uncounted")


class Corrected(Struct, frozen=True):
    """A published command that is wrong, what to run instead, and how many tests each selects (None: not looked)."""

    correction: Correction
    published: Checked | None = None
    instead: Checked | None = None


class Checker:
    """Checks selections against one checkout; every file is read once."""

    def __init__(self, checkout: Checkout) -> None:
        self._root = checkout.root
        self._files: dict[str, TestFile] = {}

    def check(self, selection: Selection) -> Checked:
        """How many tests a selection selects here."""
        path = self._root / selection.path
        if not path.is_file():
            return Checked(selection, "missing", note=self._elsewhere(path.name))
        file = self._files.get(selection.path)
        if file is None:
            file = self._files[selection.path] = collect(path, self._root)
        if file.problem is not None:
            old = sys.version_info < UPSTREAM_PYTHON
            why = f" for Python {sys.version_info[0]}.{sys.version_info[1]}" if old else ""
            return Checked(selection, "uncounted" if old else "unreadable", note=file.problem + why)
        chosen = file.select(selection.keyword)
        return _judged(selection, len(chosen), file.exact or (bool(chosen) and all(test.exact for test in chosen)))

    def corrected(self, correction: Correction) -> Corrected:
        """A published command and its replacement, both held against the checkout."""
        instead = self.check(correction.instead) if correction.instead is not None else None
        return Corrected(correction, self.check(_bare(correction.path, correction.keyword)), instead)

    def further(self, known: Collection[Correction]) -> Iterator[Corrected]:
        """Commands of the checkout's own packing skill that select nothing here and that nobody has recorded."""
        seen = {(correction.path, correction.keyword) for correction in known}
        for entry in published(self._root):
            call = (entry.path, entry.keyword)
            if call in seen:
                continue
            seen.add(call)
            try:
                checked = self.check(_bare(*call))
            except KeywordError:
                checked = Checked(_bare(*call), "unreadable", note="its -k expression cannot be read")
            if not checked.good:
                yield Corrected(Correction(*call, f"{entry.source}, line {entry.line}", None), checked)

    def _elsewhere(self, name: str) -> str:
        found = sorted(path for path in (self._root / "tests").rglob(name) if path.is_file())
        return f"a file of that name is at {found[0].relative_to(self._root).as_posix()}" if len(found) == 1 else ""


def _bare(path: str, keyword: str) -> Selection:
    return Selection(path, keyword, None, frozenset(), "")


def _judged(selection: Selection, found: int, exact: bool) -> Checked:
    expected = selection.expected
    if found in selection.also and exact:
        note = "the feature is not in this development tree" if found == 0 else "the count of a tree without a later feature"
        return Checked(selection, "absent" if found == 0 else "ok", found, exact, note)
    if found == 0:
        return Checked(selection, "empty", 0, exact, "" if exact else "no test is written out; some may be made at run time")
    if expected is None or found == expected:
        return Checked(selection, "ok", found, exact)
    if found > expected:
        return Checked(selection, "more", found, exact, "a later commit has more tests")
    if not exact:
        return Checked(selection, "ok", found, exact, "some parameters are made at run time")
    return Checked(selection, "fewer", found, exact, "tests were removed, renamed or disabled")


def plan(release: Release, features: Collection[str] | None, checkout: Checkout | None) -> tuple[list[Checked], list[Corrected]]:
    """The selections for the features of a release (all for None) and the corrected commands, checked where possible."""
    wanted, wrong = commands(release.name, features), corrections(release.name, features)
    if checkout is None:
        return [Checked(selection) for selection in wanted], [Corrected(correction) for correction in wrong]
    checker = Checker(checkout)
    corrected = [checker.corrected(correction) for correction in wrong]
    if features is None:
        corrected += checker.further([entry.correction for entry in corrected])
    return [checker.check(selection) for selection in wanted], corrected
