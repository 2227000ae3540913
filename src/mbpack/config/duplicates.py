"""A key that is written twice, which OmegaConf refuses: where both agree, they become one.

Both agree when no value differs. The later entry then goes, and what only it holds moves into the earlier one, line by
line with its comments. The result is parsed again and taken only if it holds exactly the values of both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import yaml

from mbpack.config.document import Document, Problem, parse, walk
from mbpack.config.edit import CannotEdit, Edited, same, set_key
from mbpack.config.splices import Splice, applied

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_KIND = "duplicate-key"

Path = tuple[str, ...]

#: The joined document, or why there is none, by text and key: mending judges the same texts many times.
_made: dict[tuple[Any, ...], Edited | str] = {}
_MOST_MADE = 256


def path_of(document: Document, problem: Problem) -> Path | None:
    """The key a duplicate is about; None where a third entry comes after it, or it cannot be told."""
    if problem.kind != _KIND or document.root is None:
        return None
    for place, item in walk(document.root):
        if item.key is not None and item.key.start == problem.span.start and all(isinstance(part, str) for part in place):
            return tuple(str(part) for part in place)
    return None


def values_to_keep(document: Document, path: Path) -> dict[Path, Any]:
    """What only the later entry of a key holds: paths and plain values.

    Raises:
        CannotEdit: both hold a key with different values, or anchors make them more than two texts.
    """
    earlier, later = _entries(document.text, path)
    held = document.root.plain if document.root is not None else {}
    return {found: _at(held, found) for found in _missing(earlier[1], later[1], path)}


def merged(document: Document, path: Path) -> Edited:
    """The document with the later entry of a key joined to the earlier one.

    Raises:
        CannotEdit: they do not agree, or the text cannot be joined by machine.
    """
    asked = (document.text, document.bom, document.path, document.encoding, path)
    made = _made.get(asked)
    if made is None:
        if len(_made) >= _MOST_MADE:
            _made.clear()
        try:
            made = _merged(document, path)
        except CannotEdit as reason:
            made = str(reason)
        _made[asked] = made
    if isinstance(made, str):
        raise CannotEdit(made)
    return made


def _merged(document: Document, path: Path) -> Edited:
    kept = values_to_keep(document, path)
    text = document.text
    earlier, later = _entries(text, path)
    removal = _lines_of(text, later)
    base = _parsed(document, applied(text, [Splice(*removal, "")]))
    wanted = base.root.plain if base.root is not None else {}
    for found, value in kept.items():
        wanted = _with(wanted, found, value)
    region = text[slice(*removal)]
    if len(kept) == len(later[1].value) and _block(earlier[1]) and _block(later[1]):
        steps = [Splice(*removal, ""), _moved_lines(document, earlier, later, region)]
        made = Edited(_parsed(document, applied(text, steps)), (tuple(steps),))
    elif "#" in region:
        raise CannotEdit(f"{'.'.join(path)}: the comments of the second entry would be lost; join them by hand")
    else:
        made = Edited(base, ((Splice(*removal, ""),),))
        for found, value in kept.items():
            added = set_key(made.document, found, value)
            made = Edited(added.document, made.steps + added.steps)
    after = made.document
    if after.root is None or not same(after.root.plain, wanted) or _count(after) >= _count(document):
        raise CannotEdit(f"{'.'.join(path)}: the text here cannot be joined by machine")
    return made


def _parsed(document: Document, text: str) -> Document:
    found = parse(("\ufeff" if document.bom else "") + text, document.path)
    found.encoding = document.encoding
    return found


def _count(document: Document) -> int:
    return sum(problem.fatal for problem in document.problems)


def _entries(text: str, path: Path) -> tuple[Any, Any]:
    """The last two entries of a key, as (key node, value node)."""
    try:
        node = yaml.compose(text, _LOADER)
    except yaml.YAMLError:  # what OmegaConf's own loader reads and this one does not
        raise CannotEdit(f"{'.'.join(path)}: the text here cannot be joined by machine") from None
    pairs: list[Any] = []
    for name in path:
        pairs = [pair for pair in node.value if pair[0].value == name] if isinstance(node, yaml.MappingNode) else []
        if not pairs:
            break
        node = pairs[-1][1]
    if len(pairs) < 2:
        raise CannotEdit(f"{'.'.join(path)} is not written twice in one mapping")
    for key, value in pairs[-2:]:
        part = text[key.start_mark.index : value.end_mark.index]
        if any(sign in part for sign in "&*") or "<<" in part:
            raise CannotEdit(f"{'.'.join(path)}: an anchor, an alias or a merge key stands here; join them by hand")
    return pairs[-2], pairs[-1]


def _missing(earlier: Any, later: Any, path: Path) -> Iterator[Path]:
    """Paths that only the later node holds."""
    if isinstance(earlier, yaml.MappingNode) and isinstance(later, yaml.MappingNode):
        if not all(isinstance(key, yaml.ScalarNode) for key, _ in (*earlier.value, *later.value)):
            raise CannotEdit(f"{'.'.join(path)}: a list or a mapping is a key below it; join the two by hand")
        known = {key.value: value for key, value in earlier.value}
        names = [key.value for key, _ in later.value]
        if len(set(names)) < len(names) or len(known) < len(earlier.value):
            raise CannotEdit(f"{'.'.join(path)}: a key is written twice inside as well; join that first")
        for key, value in later.value:
            below = (*path, str(key.value))
            if key.value in known:
                yield from _missing(known[key.value], value, below)
            else:
                yield below
    elif not _equal(earlier, later):
        lines = f"line {earlier.start_mark.line + 1} and line {later.start_mark.line + 1}"
        raise CannotEdit(f"{'.'.join(path)} has different values in {lines}; only you know which is meant")


def _equal(one: Any, other: Any) -> bool:
    if type(one) is not type(other) or one.tag != other.tag:
        return False
    if isinstance(one, yaml.ScalarNode):
        return bool(one.value == other.value)
    pairs = zip(one.value, other.value, strict=False)
    if isinstance(one, yaml.SequenceNode):
        return len(one.value) == len(other.value) and all(_equal(*pair) for pair in pairs)
    return len(one.value) == len(other.value) and all(_equal(a[0], b[0]) and _equal(a[1], b[1]) for a, b in pairs)


# ---------------------------------------------------------------------- text


def _block(node: Any) -> bool:
    return isinstance(node, yaml.MappingNode) and not node.flow_style


def _end(node: Any) -> int:
    """Where the last word of a node ends; a block collection itself only ends where the next thing begins."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end(last[1] if isinstance(last, tuple) else last)
    return int(node.end_mark.index)


def _line_start(text: str, at: int) -> int:
    return text.rfind("\n", 0, at) + 1


def _line_end(text: str, at: int) -> int:
    """Behind the line that a place is on; a block scalar ends where the next line begins."""
    if at and text[at - 1 : at] == "\n":
        return at
    found = text.find("\n", at)
    return len(text) if found < 0 else found + 1


def _lines_of(text: str, entry: Any) -> tuple[int, int]:
    """The lines of an entry, with the comments right above it."""
    key, value = entry
    start = _line_start(text, key.start_mark.index)
    if text[start : key.start_mark.index].strip():
        raise CannotEdit(f"{key.value}: it shares its line with something else; join them by hand")
    indent = key.start_mark.index - start
    while start:
        above = _line_start(text, start - 1)
        line = text[above:start]
        if not line.lstrip().startswith("#") or len(line) - len(line.lstrip()) != indent or "mbpack:" in line:
            break
        start = above
    end = _line_end(text, max(_end(value), key.end_mark.index))
    rest = text[_end(value) : end].strip()
    if rest.strip(":").strip() and not rest.lstrip(": ").startswith("#"):
        raise CannotEdit(f"{key.value}: it shares its line with something else; join them by hand")
    return start, end


def _moved_lines(document: Document, earlier: Any, later: Any, region: str) -> Splice:
    """The lines below the later key, and its comments, at the end of the earlier section."""
    text, newline = document.text, document.newline
    to, was = (node.value[0][0].start_mark.column for node in (earlier[1], later[1]))
    head, _, body = region.partition(newline)
    above: list[str] = []
    while head.lstrip().startswith("#"):
        above.append(head.strip())
        head, _, body = body.partition(newline)
    _, sign, behind = head.partition("#")
    lines = [" " * to + comment for comment in (*above, *([sign + behind.rstrip()] if sign else []))]
    for line in body.splitlines():
        shift = line[min(was - to, len(line) - len(line.lstrip(" "))) :] if to < was else " " * (to - was) + line
        lines.append(shift if line.strip() else line)
    at = _line_end(text, _end(earlier[1]))
    start = "" if at == 0 or text[at - 1] == "\n" else newline
    return Splice(at, at, start + newline.join(lines) + newline)


def _at(tree: Any, path: Sequence[str]) -> Any:
    for name in path:
        if not isinstance(tree, dict) or name not in tree:  # a key such as 2e-5, which OmegaConf takes for a number
            raise CannotEdit(f"{'.'.join(path)}: {name} is no plain text key; join the two by hand")
        tree = tree[name]
    return tree


def _with(tree: Any, path: Sequence[str], value: Any) -> Any:
    held = dict(tree) if isinstance(tree, dict) else {}
    held[path[0]] = value if len(path) == 1 else _with(held.get(path[0]), path[1:], value)
    return held
