"""Keys that exist, but somewhere else: what is meant, and the fix that moves them."""

from __future__ import annotations

from msgspec import Struct

from mbpack.config.run import Run
from mbpack.config.settings import walk
from mbpack.config.unknown_keys import UnknownKey
from mbpack.facts.field_names import belongs_below
from mbpack.facts.homes import homes, in_both
from mbpack.rules.base import Edit, Fix, words


class Meant(Struct, frozen=True):
    """What an unknown key is taken for: the fix, why, the words below it, and whether it can only be a mistake."""

    fix: Fix
    why: str = ""
    caret: str = ""
    surely: bool = False


def misplaced(run: Run, key: UnknownKey) -> Meant | None:
    """A field that stands at the top or in another section than its own; None where its name says nothing.

    Moving it is no safe fix: what was ignored until now takes effect.
    """
    section, _, name = key.path.rpartition(".")
    if "." in section or not (belongs_below(name) or run.settings.python):  # a program's sections are surely Megatron-Bridge's
        return None
    places = homes(run.release, name)
    if not places or any(place.partition(".")[0] == section for place in places) or _gone_with_release(run, section, name):
        return None
    written = [place for place in places if _written(run, place)]
    where = words(places, "and" if in_both(name) else "or")
    caret = f"belongs to {where}"
    if written and (len(written) == len(places) or not in_both(name)):
        return Meant(Fix(f"remove it: {words(written)} is set too", (Edit("delete", key.path),)), caret=caret, surely=True)
    free = [place for place in places if place not in written]
    if len(free) > 1 and not in_both(name):
        return Meant(Fix(f"move it to {where}"), caret=caret, surely=True)
    value = key.setting.value
    copies = tuple(Edit("set", place, value) for place in free[1:])
    return Meant(Fix(f"move it to {words(free)}", (*copies, Edit("rename", key.path, to=free[0]))), caret=caret, surely=True)


def _written(run: Run, place: str) -> bool:
    return any(walk(layer.root, tuple(place.split("."))) is not None for layer in run.settings.layers)


def _gone_with_release(run: Run, section: str, name: str) -> bool:
    """Whether the section has the field in other releases: then the release is what is wrong, not the place."""
    from mbpack.facts.field_names import names_in

    return bool(section) and name in names_in(section)
