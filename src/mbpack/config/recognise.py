"""Is a file a Megatron-Bridge configuration, and if not, what is it?

Rules make no sense on a file of another program, and a file of another program is the commonest wrong argument. Other
programs share section names with Megatron-Bridge (``model``, ``optimizer``, ``logger``) and some of the keys below them,
so neither proves anything: a file counts as Megatron-Bridge's if it holds keys that only a Megatron program has, or
nothing that speaks against it. Such a file is not marked: it is judged, and nothing in it is changed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final

from msgspec import Struct

from mbpack.facts.field_names import belongs_below, is_telling, names_in
from mbpack.facts.other_programs import FORMATS, ONLY_BRIDGE
from mbpack.facts.patterns import lazy

from .document import Document
from .items import Item, Span
from .telling_keys import Shown, shown_by, targets

CONTAINER: Final = "ConfigContainer"
_SHARED: Final = frozenset({"checkpoint", "dataset", "logger", "model", "optimizer", "peft", "scheduler", "tokenizer", "train"})
"""Sections whose names other programs use as well."""
_OTHER_LIBRARIES: Final = ("nemo_automodel.", "nemo_rl.", "torchtune.", "lightning.", "pytorch_lightning.", "mmengine.")


class Recognition(Struct, frozen=True):
    """What a file is.

    kind     "complete": a whole configuration (``_target_`` of the container at the top); "override": a part of one;
             "empty": nothing is set, at most
             sections without a key below them (`span` is the first); "other": a file of another program, `name` says which; "unknown": no section of
             Megatron-Bridge occurs; "unreadable": it could not be read as a mapping, the document's problems say why.
    message  one line for kinds "other" and "unknown": what it looks like and what to do instead.
    span     the key that decided, where there is one.
    marked   whether its own keys show that it is Megatron-Bridge's; else only its sections' names do.
    strange  whether it has several keys, strangers at the top among them, and none that any release knows.
    """

    kind: str
    name: str = ""
    message: str = ""
    span: Span | None = None
    marked: bool = False
    strange: bool = False

    @property
    def is_bridge(self) -> bool:
        """Whether the rules apply to it."""
        return self.kind in {"complete", "override", "empty"}


#: From this many keys on of which no release knows any, a release on the command line makes no configuration of a file.
_SEVERAL: Final = 4

_SCRIPT: Final = Recognition(
    "other", "a script", "this is a script: name it with the ending .sh and mbpack reads its launch command"
)
_PACKED_DATA: Final = ("\udc93NUMPY", "PAR1", "PK\x03\x04")
_JSON_ROW: Final = lazy(r"^\{.*\}[ \t]*$", re.MULTILINE)


def looks_like(document: Document, sections: Collection[str]) -> Recognition:
    """What a document is. `sections` are the top-level names of a Megatron-Bridge configuration, of any release."""
    root = document.root
    if document.language == "python" or () in document.opaque:
        return Recognition("override", marked=True)
    if root is None or any(problem.kind == "not-a-mapping" for problem in document.problems):
        return _no_mapping(document)
    keys: Mapping[Any, Item] = root.value
    if not keys:
        return _SCRIPT if document.text.startswith("#!") else Recognition("empty")
    target = keys.get("_target_")
    if target is not None and isinstance(target.value, str) and target.value.rpartition(".")[2] == CONTAINER:
        return Recognition("complete", span=target.key, marked=True)
    known = [name for name in keys if name in sections]
    span = keys[known[0]].key if known else None
    named = list(targets(root))
    if known and any(path.startswith("megatron.") for path in named):
        return Recognition("override", span=span, marked=True)
    shown = shown_by(keys, sections)
    if not any(key.partition(".")[0] not in _SHARED for key in shown.telling):
        other = _other(keys, named)
        if other is not None:
            return other
    if known and (shown.enough or shown.undisputed):
        kind = "override" if shown.telling or shown.common else "empty"
        return Recognition(kind, span=span, marked=shown.enough)
    return _unknown(keys, sections, shown)


def _other(keys: Mapping[Any, Item], named: Collection[str]) -> Recognition | None:
    for path in named:
        if path.startswith(_OTHER_LIBRARIES):
            name = f"a configuration of {path.partition('.')[0]}"
            return Recognition("other", name, f"this looks like {name} (`_target_: {path}`): {ONLY_BRIDGE}")
    for name, item in keys.items():
        if isinstance(item.value, dict) and "_component_" in item.value:
            message = f"this looks like a torchtune configuration (`{name}._component_`): {ONLY_BRIDGE}"
            return Recognition("other", "a torchtune configuration", message, item.key)
    for form in FORMATS:
        found = [next((mark for mark in group if _stands(keys, mark)), None) for group in form.marks]
        if all(mark is not None for mark in found):
            marks = ", ".join(dict.fromkeys(f"`{mark}`" for mark in found))
            message = f"this looks like {form.name} ({marks}): {form.advice}"
            first = _find(keys, str(found[0]))
            return Recognition("other", form.name, message, first.key if first is not None else None)
    return None


def _stands(keys: Mapping[Any, Item], mark: str) -> bool:
    return _find(keys, mark) is not None


def _find(keys: Mapping[Any, Item], mark: str) -> Item | None:
    """The item at a dotted path; ``True`` is the key that YAML makes of an unquoted ``on``."""
    name, _, rest = mark.partition(".")
    item = keys.get(True) if name == "True" else keys.get(name)
    if item is None or not rest:
        return item
    return _find(item.value, rest) if isinstance(item.value, dict) else None


def _unknown(keys: Mapping[Any, Item], sections: Collection[str], shown: Shown) -> Recognition:
    for name, item in keys.items():
        if isinstance(name, str) and name.partition(".")[0] in sections and "." in name:
            message = f"the key `{name}` is one name with dots in it: write it as nested sections, or give it as KEY=VALUE"
            return Recognition("unknown", "dotted keys", message, item.key)
    if shown.misplaced and len(shown.misplaced) >= len(shown.strangers):
        places = "; ".join(f"`{name}` below {_homes(name)}" for name in shown.misplaced)
        message = f"keys of Megatron-Bridge stand at the top of the file, where they do nothing: put {places}"
        return Recognition("unknown", "keys without a section", message, keys[shown.misplaced[0]].key)
    first = next(iter(keys.values()))
    known = [name for name in keys if name in sections]
    if known:
        held = [*shown.telling, *shown.common]
        others = [*shown.unknown, *shown.strangers]
        what = (
            f"only {_some(held)} of its keys exist in Megatron-Bridge" if held else "none of its keys exists in Megatron-Bridge"
        )
        strange = not held and bool(shown.strangers) and len(others) >= _SEVERAL
        advice = "recipe (--recipe NAME)" if strange else "release (--bridge 0.6)"
        message = f"{what}, {_some(others)} do not: {ONLY_BRIDGE}; if it is one, name its {advice}"
        return Recognition("unknown", "", message, first.key, strange=strange)
    message = f"no section of a Megatron-Bridge configuration occurs, only {_some(list(keys))}: {ONLY_BRIDGE}"
    return Recognition("unknown", "", message, first.key, strange=not shown.misplaced and len(keys) >= _SEVERAL)


def _some(names: Collection[Any]) -> str:
    shown = ", ".join(f"`{str(name)[:30]}`" for name in list(names)[:3])
    return shown + (", ..." if len(names) > 3 else "")


def _homes(name: str) -> str:
    """The sections a field of this name belongs below."""
    from mbpack.facts.homes import sections_with

    return " and ".join(f"`{section}`" for section in sections_with(name))


_TOP: Final = lazy(r"^([A-Za-z_]\w*)[ \t]*:", re.MULTILINE)
_BELOW: Final = lazy(r"(?:^[ \t]+|[{,][ \t]*)([A-Za-z_]\w*)[ \t]*:", re.MULTILINE)


def shows_nothing(document: Document, sections: Collection[str]) -> bool:
    """Whether a file that cannot be read as YAML has, by its text, no section with a key that only a Megatron program has."""
    places = [(match[1], match.start()) for match in _TOP.finditer(document.text)]
    ends = [start for _, start in places[1:]] + [len(document.text)]
    for (section, start), end in zip(places, ends, strict=True):
        if section in sections:
            fields = names_in(section)
            names = _BELOW.findall(document.text, start, end)
            if any((name in fields and is_telling(name)) or belongs_below(name) for name in names):
                return False
    return True


def _no_mapping(document: Document) -> Recognition:
    text = document.text
    if text.startswith("#!"):
        return _SCRIPT
    if text.startswith(_PACKED_DATA):
        message = "this is packed data, not a configuration: look inside with `mbpack inspect`"
        return Recognition("other", "packed data", message)
    if len(_JSON_ROW.findall(text[:100_000])) > 1:
        message = "this is JSON Lines data, not a configuration: give the file that names it (`dataset.dataset_root`)"
        return Recognition("other", "data in JSON Lines", message)
    for problem in document.problems:
        if problem.kind == "not-a-mapping":
            return Recognition("other", "no mapping", problem.message, problem.span)
    return Recognition("unreadable")
