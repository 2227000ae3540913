"""How far mbpack's knowledge of a release reaches: what was run, read or only documented, and as of when.

"Does not exist" may be said only where a list is complete for the patch in front of us; everywhere else the answer is that
mbpack does not know.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from mbpack.facts import learned
from mbpack.facts.releases import NIGHTLY, R03, R04, R05, R06, R07, Release, Version, numbers


class Knowledge(Struct, frozen=True):
    """What is known of one release line.

    ``ran``: patches whose packages were started, with every recipe called. ``read``: sources that were read. ``documented``:
    what is known from documentation alone. ``as_of``: the month of the newest source.
    """

    release: Release
    published: str
    ran: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    documented: tuple[str, ...] = ()
    as_of: str = ""
    lists_complete: bool = True

    @property
    def newest(self) -> str:
        """The newest patch that anything is known of."""
        return self.release.newest_patch


_LATE = (
    "start-up checks and dataset classes as of October 2026 (before the tag v0.7.0)",
    "builders, loaders, providers and recipes as of August 2026, later recipes as of September and October",
    "Megatron-Core main as of August 2026",
)
KNOWLEDGE: Final[dict[Release, Knowledge]] = {
    known.release: known
    for known in (
        Knowledge(R03, "0.3.1", ran=("0.3.1",), as_of="the package 0.3.1"),
        Knowledge(R04, "0.4.2", ran=("0.4.2",), as_of="the package 0.4.2"),
        Knowledge(R05, "0.5.1", ran=("0.5.1",), as_of="the package 0.5.1"),
        Knowledge(R06, "0.6.2", ran=("0.6.2",), as_of="the package 0.6.2"),
        Knowledge(
            R07,
            "0.7.0 (2026-10-30), 0.7.1 (2026-11-20)",
            read=_LATE,
            documented=("what 0.7.0 and 0.7.1 add after that", "two of the recipes added after August 2026, by name"),
            as_of="October 2026",
            lists_complete=False,
        ),
        Knowledge(
            NIGHTLY,
            "not a release",
            read=(*_LATE, "dynamic context parallelism as of September 2026, with Megatron-Core's dev branch"),
            documented=("the multiple of dynamic context parallelism with sequence parallelism",),
            as_of="October 2026",
            lists_complete=False,
        ),
    )
}


def newer(version: Version) -> bool:
    """Whether a patch is newer than anything mbpack knows of its line, shipped or learned."""
    if learned.find(version.patch) is not None:
        return False
    if version.release is NIGHTLY:
        return version.patch != NIGHTLY.newest_patch
    return numbers(version.patch) > numbers(version.release.newest_patch)


def lists_complete(version: Version) -> bool:
    """Whether a name on none of the lists is a name that the release does not have."""
    if learned.find(version.patch) is not None:
        return True
    return KNOWLEDGE[version.release].lists_complete and not newer(version)


def recipes_complete(version: Version) -> bool:
    """Whether a recipe on no list is one that the release does not ship; what is learned lists fields, not recipes."""
    known, ended = KNOWLEDGE[version.release], numbers(version.patch) > numbers(version.release.newest_patch)
    return known.lists_complete and not ended


def reach(version: Version) -> str:
    """How far the knowledge reaches, for messages: ``knows 0.7 as of October 2026``."""
    own = learned.find(version.patch)
    if own is not None:
        return f"learned {version.patch} from {own.origin} on {own.when}"
    known = KNOWLEDGE[version.release]
    return f"knows {version.release} as of {known.as_of}"
