"""Keys and values for hover and completion: where the cursor is, and what may stand there."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mbpack.config.document import Document, Item
from mbpack.facts.derivations import MEANINGS
from mbpack.facts.keys import canonical_name
from mbpack.facts.recipes import names
from mbpack.facts.releases import RELEASES, Release
from mbpack.facts.schema import NO_DEFAULT, Field, Opaque, Schema

_RECIPE = re.compile(r"#\s*mbpack:.*\brecipe=(\S*)$")
_BRIDGE = re.compile(r"#\s*mbpack:.*\bbridge=(\S*)$")
_KEY = re.compile(r"^( *)([\w.]*)$")
_OWNER = re.compile(r"^( *)([\w]+):\s*(?:#.*)?$")
_VALUE = re.compile(r"^ *(\w+): *(\S*)$")
_CHAIN = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
_OPEN_CHAIN = re.compile(r"([A-Za-z_]\w*)(\.[A-Za-z_]\w*)?\.\w*$")
_LITERAL = re.compile(r"literal\[([^\]]*)\]")


def path_at(document: Document, offset: int) -> tuple[str, ...] | None:
    """The dotted path of the key that stands at an offset, None where none does."""
    return _find(document.root, offset, ()) if document.root is not None else None


def _find(item: Item, offset: int, path: tuple[str, ...]) -> tuple[str, ...] | None:
    if item.value.__class__ is not dict:
        return None
    for name, child in item.value.items():
        here = (*path, str(name))
        if child.key is not None and child.key.start <= offset <= child.key.end:
            return here
        found = _find(child, offset, here)
        if found is not None:
            return found
    return None


def describe(known: Schema, release: Release, path: tuple[str, ...]) -> str | None:
    """What a key is, in Markdown; None for one that the release does not know."""
    key = ".".join(path)
    meaning = MEANINGS.get(canonical_name(release, key))
    fields = list(_fields(known, path))
    if meaning is None and not fields:
        return None
    lines = [f"**{key}** (Megatron-Bridge {release})"]
    if meaning is not None:
        lines += ["", meaning.text]
        lines += [f"- {setter.who} ({setter.span}): {setter.what}" for setter in meaning.setters]
    for field in fields[:1]:
        default = field.default
        shown = "" if default is NO_DEFAULT or isinstance(default, Opaque) else f", by default `{default}`"
        lines += ["", f"`{field.type}`{shown}"]
    return "\n".join(lines)


def _fields(known: Schema, path: tuple[str, ...]) -> Iterator[Field]:
    if len(path) != 2:
        return
    section, name = path
    cls = known.section_class(section)
    owners = [cls] if cls is not None else [one for one in known.classes() if known.kind(one) == section]
    for owner in owners:
        field = (known.fields(owner) or {}).get(name)
        if field is not None:
            yield field


def completions(known: Schema, release: Release, lines: list[str], line: int, column: int) -> list[str]:
    """What may stand where the cursor is: recipes and releases in the comment, else keys, or the values of a key."""
    before = lines[line][:column] if line < len(lines) else ""
    if _RECIPE.search(before):
        return names(release.name)
    if _BRIDGE.search(before):
        return [one.name for one in RELEASES]
    value = _VALUE.match(before)
    if value is not None:
        return list(_values(known, (*_owners(lines, line, len(before) - len(before.lstrip())), value[1])))
    key = _KEY.match(before)
    if key is None:
        return []
    owners = _owners(lines, line, len(key[1]))
    if not owners:
        return sorted(known.sections)
    return _keys(known, owners[0]) if len(owners) == 1 else []


def attribute_at(text: str, offset: int, variables: frozenset[str]) -> tuple[str, ...] | None:
    """The key that an attribute of a program's configuration is (`cfg.train.micro_batch_size`), None where none stands there."""
    for chain in _CHAIN.finditer(text):
        if chain.start() <= offset <= chain.end():
            before = text[chain.start() : offset]
            parts = chain[0].split(".")[: before.count(".") + 1]
            return tuple(parts[1:]) if parts[0] in variables and len(parts) > 1 else None
    return None


def attributes(known: Schema, before: str, variables: frozenset[str]) -> list[str]:
    """What may follow in a program's line: sections of its configuration, or keys of a section."""
    chain = _OPEN_CHAIN.search(before)
    if chain is None or chain[1] not in variables:
        return []
    section = (chain[2] or "").strip(".")
    return _keys(known, section) if section else sorted(known.sections)


def _keys(known: Schema, section: str) -> list[str]:
    cls = known.section_class(section)
    if cls is not None:
        return sorted(name for name in known.fields(cls) or () if name[0] != "_")
    shared = {"model": known.any_model_fields, "dataset": known.any_dataset_fields}
    return sorted(shared[section]()) if section in shared else []


def _owners(lines: list[str], line: int, indent: int) -> tuple[str, ...]:
    """The keys above a line that it stands below, outermost first."""
    found: list[str] = []
    for text in reversed(lines[:line]):
        owner = _OWNER.match(text)
        if owner is not None and len(owner[1]) < indent:
            found.insert(0, owner[2])
            indent = len(owner[1])
        if not indent:
            break
    return tuple(found)


def _values(known: Schema, path: tuple[str, ...]) -> Iterator[str]:
    seen: set[str] = set()
    for field in _fields(known, path):
        kinds = field.type.split("|")
        literal = _LITERAL.search(field.type)
        texts = [text.strip("'\"") for text in literal[1].split(",")] if literal is not None else []
        texts += ["true", "false"] * ("bool" in kinds) + ["null"] * ("null" in kinds)
        for text in texts:
            if text not in seen:
                seen.add(text)
                yield text
