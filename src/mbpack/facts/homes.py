"""Where a field belongs, by its name alone: for keys that stand at the top of a file or in another section."""

from __future__ import annotations

from typing import Final

from mbpack.facts.field_names import IN_SPECS, names_in
from mbpack.facts.keys import SPECS, path_in
from mbpack.facts.releases import DEFAULT, Release
from mbpack.facts.schema import Schema, schema

#: The section that is meant where several have a field of one name: the first of these; the data's copies come last.
_ORDER: Final = tuple(
    "train validation model ddp scheduler optimizer checkpoint dist logger rng tokenizer profiling rerun_state_machine "
    "mixed_precision comm_overlap ft straggler nvrx_straggler tensor_inspect inprocess_restart peft dataset".split()
)
#: Sections whose field is the one that is meant, whatever others have one of that name.
_FIRST: Final = ("train", "model", "ddp")
#: Fields that two sections must say alike.
_IN_BOTH: Final = {"seq_length": ("model", "dataset")}


def homes(release: Release, name: str) -> tuple[str, ...]:
    """The keys of a release that a field's name may mean, most likely first: several where it stands in several sections.

    A length belongs to two sections at once; a field of the packing specs is named as the release names them.
    """
    if name in IN_SPECS:
        return (path_in(release, f"{SPECS}.{name}"),)
    if name in _IN_BOTH:
        return tuple(f"{section}.{name}" for section in _IN_BOTH[name])
    known = schema(release.name)
    found = [f"{section}.{name}" for section in _ORDER if name in names_in(section) and _has(known, section, name)]
    return tuple(found[:1] if found and found[0].partition(".")[0] in _FIRST else found)


def in_both(name: str) -> bool:
    """Whether a field must stand in every one of its homes."""
    return name in _IN_BOTH


def sections_with(name: str) -> tuple[str, ...]:
    """The same as sections, of the newest release or, where it has no such field, of any."""
    found = homes(DEFAULT, name)
    if found:
        return tuple(path.rpartition(".")[0] for path in found)
    return tuple(section for section in _ORDER if name in names_in(section))[:3]


def _has(known: Schema, section: str, name: str) -> bool:
    if section == "model":
        return name in known.any_model_fields()
    if section == "dataset":
        return name in known.any_dataset_fields()
    if section == "peft":
        return True
    return name in (known.fields(known.section_class(section) or "") or ())
