"""Which words are Megatron-Bridge's own: they stand in a release, so repeating one tells nothing about a user.

The fact files are the list: a word counts where one of them holds it whole, in quotes. Read only by `mbpack report`.
"""

from __future__ import annotations

import json
import os
from functools import cache

from mbpack.facts import schema
from mbpack.facts.field_names import IN_SPECS
from mbpack.facts.releases import RELEASES, data_of
from mbpack.facts.sections import SECTION_NAMES

#: Longest word looked for (characters); upstream has none that is longer.
_LONGEST = 200


@cache
def _facts() -> bytes:
    lines = dict.fromkeys(data_of(release.name) for release in RELEASES)
    names = [f"{kind}-{line}.tsv" for line in lines for kind in ("schema", "recipes")]
    names += [name for name in sorted(os.listdir(schema.DATA)) if name.startswith("checks-") and name.endswith(".txt")]
    return b"\n".join(schema.read_data(name) for name in names)


@cache
def is_public(word: str) -> bool:
    """Whether a text is a value, a class or a recipe that a release of Megatron-Bridge has."""
    if not word or len(word) > _LONGEST or not word.isprintable():
        return not word
    return json.dumps(word).encode() in _facts() or (word.isidentifier() and f"'{word}'".encode() in _facts())


@cache
def is_public_key(name: str) -> bool:
    """Whether a text is the name of a section or of a field of any class, in any release."""
    if name in SECTION_NAMES or name in IN_SPECS or name in ("_target_", "_args_", "_partial_", "_call_", "defaults", "_self_"):
        return True
    return name.isidentifier() and len(name) <= _LONGEST and f'"{name}":'.encode() in _facts()


def is_public_class(path: str) -> bool:
    """Whether a dotted path is that of a class or function that a release has, such as an ``_target_`` names."""
    if not path.startswith(("megatron.", "torch.")) or not all(part.isidentifier() for part in path.split(".")):
        return False
    return path in ("torch.bfloat16", "torch.float16", "torch.float32") or any(
        schema.schema(release.name).importable(path) is True for release in RELEASES
    )
