"""Move a configuration from one release to another: keys, classes, flags, and what no key shows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from mbpack.config.assemble import build_run
from mbpack.config.context import Context, ContextError, Given, parse_directives, resolve_context
from mbpack.config.document import Item, is_whole, walk
from mbpack.config.edit import CannotEdit
from mbpack.config.overrides import as_document, parse_overrides
from mbpack.config.run import Run
from mbpack.config.shown_release import infer_release
from mbpack.config.spelling import word
from mbpack.config.unknown_keys import unknown_keys
from mbpack.facts.keys import SPECS, path_in, rename_of
from mbpack.facts.releases import R05, R06, Release, Version, parse_version, version_of
from mbpack.facts.schema import NO_DEFAULT, schema
from mbpack.facts.targets import is_blocked
from mbpack.fix import hub_data, renames
from mbpack.fix.behaviour import behaviour
from mbpack.fix.directives import with_release, without_ignore
from mbpack.fix.state import State, apply
from mbpack.fix.summary import change
from mbpack.rules.base import Edit


class Migration(Struct):
    """What became of a configuration: changes made, what the user must decide, what will behave differently."""

    start: State
    state: State
    source: Release
    target: Version
    changed: list[str] = field(default_factory=list)
    decide: list[str] = field(default_factory=list)
    different: list[str] = field(default_factory=list)
    context: Given = field(default_factory=Given)

    def root(self) -> Item:
        """The values as they are now."""
        if self.state.documents:
            return self.state.documents[0].root or Item({}, None)
        return as_document(parse_overrides(self.state.overrides)).root or Item({}, None)

    def get(self, path: str) -> Item | None:
        """What is written at a path."""
        item: Item | None = self.root()
        for name in path.split("."):
            item = item.value.get(name) if item is not None and isinstance(item.value, dict) else None
        return item

    def edit(self, operation: str, key: str, value: Any = None, to: str | None = None, note: str = "") -> bool:
        """Make one edit, or leave it to the user with the reason."""
        edit = Edit(operation, key, value, to)
        try:
            state = apply(self.state, edit)
        except CannotEdit as reason:
            self.decide.append(f"{change(edit)}: not done by machine, {reason}")
            return False
        if state.texts != self.state.texts:
            self.state = state
            self.changed.append(change(edit) + (f" ({note})" if note else ""))
        return True

    def without_ignore(self, code: str) -> None:
        """Take out the comments that keep a rule quiet where there is nothing left for it to say."""
        self.state = without_ignore(self.state, code)


def migrate(state: State, to: str, source: str | None = None, given: Given | None = None) -> Migration:
    """Move one file, or a list of KEY=VALUE arguments, to another release. Nothing is written.

    ``source`` is the release it was written for; without it, what the file says or shows.

    Raises:
        ContextError: the release it was written for cannot be told, or a name is not known.
    """
    target = _version(to)
    context = _context(state, given or Given())
    release = _source(state, context, source, target.release)
    made = Migration(state, state, release, target, context=replace(given or Given(), bridge=target.text))
    before = _run(state, context, release)
    complete = bool(state.documents) and state.documents[0].root is not None and is_whole(state.documents[0].root)
    renames.keys(made)
    renames.dataset_class(made, before.settings.class_at("dataset") if before is not None else None)
    hub_data.after(made, _run(made.state, context, target.release))
    renames.packing_switch(made, complete)
    renames.packing_specs(made)
    renames.graphs(made)
    renames.preprocessing(made, _run(made.state, context, target.release))
    _paths_of_classes(made)
    if complete:
        _strict(made)
    elif context.recipe is not None:
        renames.local_data(made, _run(made.state, context, target.release))
        renames.needless_class(made, _run(made.state, context, target.release))
        renames.own_class(made, _run(made.state, context, target.release), before)
        renames.lengths(made, before, _run(made.state, context, target.release))
    _recipe(made, context, complete)
    if state.documents:
        made.state = with_release(made.state, target.text)
    _left(made, complete)
    made.different += behaviour(release, target.release, before)
    return made


def _version(text: str) -> Version:
    try:
        return parse_version(text)
    except ValueError as error:
        raise ContextError(str(error)) from None


def _context(state: State, given: Given) -> Context:
    documents = [*state.documents] or [as_document(parse_overrides(state.overrides))]
    return resolve_context(given, Given(), documents)


def _source(state: State, context: Context, named: str | None, target: Release) -> Release:
    """The release a configuration was written for."""
    if named is not None:
        return _version(named).release
    told = context.version.release if context.sources.get("bridge") in ("flag", "directive", "file") else None
    root = Migration(state, state, target, version_of(target)).root()
    stale = [path for path, _ in _paths(root) if rename_of(target, path) is not None]
    if told is not None and told is not target:
        return told
    if stale:
        shown = infer_release([root])
        return shown[0] if shown is not None and shown[0] is not target else (R05 if target >= R06 else R06)
    if told is not None:
        return told
    raise ContextError("nothing in this configuration tells the release it was written for: name it with --from")


def _paths(root: Item) -> Iterator[tuple[str, Item]]:
    for place, item in walk(root):
        if all(isinstance(part, str) for part in place):
            yield ".".join(place), item


def _run(state: State, context: Context, release: Release) -> Run | None:
    """The configuration as its own release reads it; None where its recipe is not known there."""
    version = context.version if context.version.release is release else version_of(release)
    try:
        return build_run(replace(context, version=version), state.documents, parse_overrides(state.overrides))
    except ContextError:
        return build_run(replace(context, version=version, recipe=None), state.documents, parse_overrides(state.overrides))


def _paths_of_classes(made: Migration) -> None:
    """Every ``_target_`` that the new release keeps in another module."""
    old, new = schema(made.source.name), schema(made.target.release.name)
    for path, item in list(_paths(made.root())):
        target = item.value.get("_target_") if isinstance(item.value, dict) else None
        if target is None or not isinstance(target.value, str) or new.class_of(target.value) is not None:
            continue
        name = old.class_of(target.value)
        moved = new.path(name) if name is not None else None
        if moved is not None:
            made.edit("set", f"{path}._target_" if path else "_target_", moved)
        elif name is not None:
            made.decide.append(f"{path}: {made.target.release} has no class {name}")


def _strict(made: Migration) -> None:
    """A complete file is loaded strictly: keys that the new release lacks would refuse it, so they go."""
    release = made.target.release
    for _ in range(3):
        run = _run(made.state, Context(made.target), release)
        unknown = unknown_keys(run.settings) if run is not None else []
        if not unknown:
            break
        for key in unknown:
            item = made.get(key.path)
            if item is None:
                continue
            held = item.plain
            usual = _default(made.source, key.owner, key.path)
            shown = word(held) if not isinstance(held, (dict, list)) else "its values"
            if (
                made.edit("delete", key.path, note=f"{release} has no such field")
                and held != usual
                and held not in (None, {}, [])
            ):
                made.changed.pop()
                made.decide.append(f"{key.path}: {shown} is gone, {release} has no such field")
    for path, item in list(_paths(made.root())):
        target = item.value.get("_target_") if isinstance(item.value, dict) else None
        if target is not None and isinstance(target.value, str) and is_blocked(release, target.value):
            if path == "train.exit_signal":
                made.edit("delete", path, note=f"{release} refuses {target.value}; the default stays")
            else:
                made.decide.append(f"{path}: {release} refuses to load {target.value}; write the value itself")


def _default(release: Release, owner: str | None, path: str) -> Any:
    """The value of a field that nobody wrote, in the old release; a stand-in where it has none."""
    known = schema(release.name)
    section, _, name = path.rpartition(".")
    for cls in (owner, known.section_class(section)):
        found = (known.fields(cls) or {}).get(name) if cls else None
        if found is not None and found.default is not NO_DEFAULT:
            return found.default
    return NO_DEFAULT


def _recipe(made: Migration, context: Context, complete: bool) -> None:
    """The recipe's name in the new release; old names live on as aliases there, or do not."""
    from mbpack.facts import recipes

    if context.recipe is None or complete:
        if not complete:
            made.decide.append(
                "the recipe: its values differ between releases; name it (# mbpack: recipe=NAME) and run mbpack doctor"
            )
        return
    release = made.target.release.name
    found = recipes.find(release, context.recipe)
    made.context = replace(made.context, recipe=context.recipe if found is not None else None)
    if found is None:
        near = ", ".join(recipes.suggest(release, context.recipe)) or "none with a close name"
        made.decide.append(f"recipe {context.recipe} does not exist in {release}: {near}")
    elif found.name != context.recipe:
        made.decide.append(f"recipe {context.recipe} is called {found.name} in {release}; the old name still works")


def _left(made: Migration, complete: bool) -> None:
    """Keys that the new release will ignore, although nothing replaces them."""
    if complete:
        return
    release = made.target.release
    given = replace(made.context, bridge=made.target.text)
    try:
        context = _context(made.state, given)
        run = _run(made.state, replace(context, version=made.target), release)
    except ContextError:
        return
    for key in unknown_keys(run.settings) if run is not None else []:
        if not any(key.path in text for text in made.decide):
            made.decide.append(f"{key.path}: {release} has no such key and ignores it")


def specs_path(release: Release) -> str:
    """Where a release keeps the packing specs."""
    return path_in(release, SPECS)


__all__ = ["Migration", "migrate", "parse_directives", "specs_path"]
