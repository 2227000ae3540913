"""Releases of NVIDIA Megatron-Bridge: their order, their names, and how a version text resolves to one.

A *release* is a line such as 0.6; a *patch* is one published package such as 0.6.2. Rules speak of releases; the few
places where two patches of one release differ ask for the patch.
"""

from __future__ import annotations

import re

from msgspec import Struct

from mbpack.facts.patterns import lazy


class Release(Struct, frozen=True, eq=False):
    """One release line. Ordered by time: ``R03 < R06 < NIGHTLY``; each exists once, so identity is equality."""

    rank: int
    name: str
    newest_patch: str

    def __lt__(self, other: Release) -> bool:
        return self.rank < other.rank

    def __gt__(self, other: Release) -> bool:
        return self.rank > other.rank

    def __le__(self, other: Release) -> bool:
        return self.rank <= other.rank

    def __ge__(self, other: Release) -> bool:
        return self.rank >= other.rank

    def __str__(self) -> str:
        return self.name


R03 = Release(3, "0.3", "0.3.1")
R04 = Release(4, "0.4", "0.4.2")
R05 = Release(5, "0.5", "0.5.1")
R06 = Release(6, "0.6", "0.6.2")
R07 = Release(7, "0.7", "0.7.1")
NIGHTLY = Release(99, "nightly", "nightly")

RELEASES: tuple[Release, ...] = (R03, R04, R05, R06, R07, NIGHTLY)
#: The newest release whose packages were run; assumed when nothing names one (`facts/knowledge.py` says what is known of each).
DEFAULT = R06

_BY_NAME = {release.name: release for release in RELEASES}
_VERSION = lazy(r"v?(\d+)\.(\d+)(?:\.(\d+))?(?:[-+.]?(?:rc|a|b|dev|post).*)?$")


class UnknownReleaseError(ValueError):
    """The text names no release that mbpack knows; the message says which it does."""


class Version(Struct, frozen=True):
    """A release as somebody named it: the line, the patch that is meant, and the text that was written."""

    release: Release
    patch: str
    text: str

    @property
    def exact(self) -> bool:
        """Whether a patch was named (``0.6.2``) rather than a line (``0.6``), for which the newest patch is assumed."""
        return self.text != self.release.name


def version_of(release: Release) -> Version:
    """The newest patch of a release line."""
    return Version(release, release.newest_patch, release.name)


def newest_patch(name: str) -> str:
    """The newest patch of a release line that mbpack knows of; "" for an unknown line."""
    release = _BY_NAME.get(name)
    return "" if release is None else release.newest_patch


def data_of(name: str) -> str:
    """The release line whose data files describe a line: nightly is 0.7 and what came later."""
    return R07.name if name == NIGHTLY.name else name


def numbers(patch: str) -> tuple[int, ...]:
    """A patch as numbers that can be compared: ``0.6.2`` is (0, 6, 2); nightly comes after all of them."""
    return tuple(int(part) for part in re.findall(r"\d+", patch)[:3]) or (NIGHTLY.rank,)


def reaches(patch: str, other: str) -> bool:
    """Whether a patch is another one or came after it."""
    return numbers(patch) >= numbers(other)


def version_found(text: str) -> Version | None:
    """The version that a package or checkout states. One that is newer than every known line is judged as nightly.

    None for texts that are no version, and for versions older than mbpack knows.
    """
    try:
        return parse_version(text.partition("+")[0])
    except UnknownReleaseError:
        return None


def parse_version(text: str) -> Version:
    """Resolve ``0.6``, ``0.6.2``, ``v0.6.0``, ``0.7.0rc1`` or ``nightly``.

    Raises:
        UnknownReleaseError: with one line that says what was given and what is known.
    """
    text = text.strip()
    known = ", ".join(release.name for release in RELEASES)
    if text.lower() in ("nightly", "main"):
        return Version(NIGHTLY, "nightly", "nightly")
    match = _VERSION.match(text)
    if not match:
        raise UnknownReleaseError(f"{text!r} is not a Megatron-Bridge release (known: {known})")
    line = f"{match[1]}.{match[2]}"
    if line in ("0.1", "0.2"):
        raise UnknownReleaseError(
            f"Megatron-Bridge {text} is older than what mbpack knows (known: {known}). Before 0.3 packed data cannot be "
            "combined with context parallelism at all (cp/packed-unsupported-pre03): upgrade to 0.5.1 or later"
        )
    release = _BY_NAME.get(line)
    if release is None and match[3] and numbers(line) > numbers(R07.name):
        return Version(NIGHTLY, text.removeprefix("v"), text)  # a patch of a line newer than all that is known
    if release is None:
        raise UnknownReleaseError(f"Megatron-Bridge {text} is not known to this version of mbpack (known: {known})")
    patch = f"{line}.{match[3]}" if match[3] else release.newest_patch
    return Version(release, patch, f"{line}.{match[3]}" if match[3] else line)
