"""A configuration in the course of mending: its files and KEY=VALUE arguments, and how one edit changes them."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from mbpack.config.document import Document, Item
from mbpack.config.duplicates import merged, path_of
from mbpack.config.edit import CannotEdit, delete_key, rename_key, set_key
from mbpack.config.overrides import Override, parse_overrides
from mbpack.config.projected import projected
from mbpack.config.references import refers_to
from mbpack.config.spelling import override_word
from mbpack.rules.base import Edit


class State(Struct, frozen=True):
    """Files (lowest layer first) and arguments on top. ``fixed_files``: the files are only read, arguments change."""

    documents: tuple[Document, ...]
    overrides: tuple[str, ...] = ()
    fixed_files: bool = False

    @property
    def texts(self) -> tuple[str, ...]:
        """What distinguishes one state from another."""
        return (*(document.text for document in self.documents), *self.overrides)


def apply(state: State, edit: Edit) -> State:
    """The state after one edit, made where the key is written: in the arguments, else in the topmost file that has it.

    Raises:
        CannotEdit: it is not made by machine; the message says why.
    """
    path = tuple(edit.key.split("."))
    for document in state.documents:
        referring = refers_to(document, path)
        if referring and edit.op != "set":
            raise CannotEdit(f"{edit.key}: {referring} takes its value from here; change both by hand")
    at = _argument(state, path)
    if at is not None or state.fixed_files or not state.documents:
        return _in_arguments(state, edit, path, at)
    layer = _layer(state.documents, path)
    if state.documents[layer].inherited:
        if edit.op != "set":
            where = state.documents[layer].path
            raise CannotEdit(f"{edit.key} stands in {where}, which other files may build on; change it there by hand")
        layer = _layer(state.documents, path, own=True)
    document = state.documents[layer]
    if document.language == "python":
        return _in_program(state, edit, path, layer)
    if edit.op == "set":
        edited = set_key(_without_duplicates(document, path), path, edit.value)
    elif edit.op == "delete":
        edited = delete_key(document, path)
    else:
        edited = rename_key(document, path, tuple((edit.to or "").split(".")))
    return replace(state, documents=(*state.documents[:layer], edited.document, *state.documents[layer + 1 :]))


def looked_at(state: State, edits: Sequence[Edit]) -> State:
    """The state after edits, to be judged and not to be edited further: :func:`apply`, where it can without reading a text anew.

    Raises:
        CannotEdit: see :func:`apply`.
    """
    if len(state.documents) == 1 and not state.overrides and not state.fixed_files and not state.documents[0].inherited:
        if all(edit.op == "set" for edit in edits):
            document = projected(state.documents[0], [(tuple(edit.key.split(".")), edit.value) for edit in edits])
            if document is not None:
                return replace(state, documents=(document,))
    for edit in edits:
        state = apply(state, edit)
    return state


def _in_program(state: State, edit: Edit, path: tuple[str, ...], layer: int) -> State:
    from mbpack.config.python.edits import set_literal

    document = state.documents[layer]
    if edit.op != "set":
        raise CannotEdit(f"{edit.key} is set in a program: change the line by hand")
    if sum(other.path == document.path and other.language == "python" for other in state.documents) > 1:
        raise CannotEdit("a file is merged in between; change the program by hand")
    edited = set_literal(document, path, edit.value)
    return replace(state, documents=(*state.documents[:layer], edited, *state.documents[layer + 1 :]))


def _without_duplicates(document: Document, path: tuple[str, ...]) -> Document:
    """The document in which no key on the way to a path is written twice."""
    if document.readable:
        return document
    for problem in document.problems:
        twice = path_of(document, problem)
        if twice is not None and twice == path[: len(twice)]:
            return _without_duplicates(merged(document, twice).document, path)
    return document


def _layer(documents: Sequence[Document], path: tuple[str, ...], own: bool = False) -> int:
    """The file an edit is about: the topmost one that writes the key, else the one that writes most of its sections.

    ``own`` leaves out files that were read because another one builds on them.
    """
    depths = [-1 if own and document.inherited else _depth(document.root, path) for document in documents]
    best = max(depths)
    return max(index for index, depth in enumerate(depths) if depth == best)


def _depth(root: Item | None, path: tuple[str, ...]) -> int:
    depth = 0
    item = root
    for name in path:
        item = item.value.get(name) if item is not None and isinstance(item.value, dict) else None
        if item is None:
            break
        depth += 1
    return depth


# ------------------------------------------------------------------ arguments


def _argument(state: State, path: tuple[str, ...]) -> int | None:
    """The position of the last argument that gives a key."""
    found = None
    for override in parse_overrides(state.overrides):
        if isinstance(override, Override) and override.key == path:
            found = override.index
    return found


def _in_arguments(state: State, edit: Edit, path: tuple[str, ...], at: int | None) -> State:
    texts = list(state.overrides)
    if edit.op == "rename" and at is not None and edit.to == f"+{edit.key}":  # the same key, added rather than set
        texts[at] = f"+{texts[at]}"
        return replace(state, overrides=tuple(texts))
    if edit.op == "rename":
        return _renamed_arguments(state, path, tuple((edit.to or "").split(".")))
    if at is None:
        if edit.op != "set":
            raise CannotEdit(f"{edit.key} is not among the arguments; change it in its file")
        texts.append(f"{edit.key}={override_word(edit.value)}")
    elif edit.op == "set":
        sign = texts[at].partition(path[0])[0].replace("~", "")
        texts[at] = f"{sign}{edit.key}={override_word(edit.value)}"
    else:
        del texts[at]
    return replace(state, overrides=tuple(texts))


def _renamed_arguments(state: State, path: tuple[str, ...], to: tuple[str, ...]) -> State:
    """Arguments of a key, or of keys below it, under the new name; dropped where the new name is given as well."""
    parsed = [override for override in parse_overrides(state.overrides) if isinstance(override, Override)]
    given = {override.key for override in parsed}
    texts: dict[int, str] = dict(enumerate(state.overrides))
    for override in parsed:
        if override.key[: len(path)] == path:
            key = to + override.key[len(path) :]
            sign, _, rest = override.text.partition(".".join(override.key))
            if key in given:
                del texts[override.index]
            else:
                texts[override.index] = f"{sign}{'.'.join(key)}{rest}"
    if tuple(texts.values()) == state.overrides:
        raise CannotEdit(f"{'.'.join(path)} is not among the arguments; change it in its file")
    return replace(state, overrides=tuple(texts.values()))
