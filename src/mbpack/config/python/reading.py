"""From a Python file to configurations that can be judged: the release it is for, its layers, and how they vary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct

from mbpack.config.context import Given, directives_of
from mbpack.config.document import Document, Item, Span, walk
from mbpack.config.overrides import Override, OverrideProblem, parse_overrides
from mbpack.config.python.base import Facts
from mbpack.config.python.layers import Configuration, Merged, Source, configuration
from mbpack.config.python.machine import Command, Shown
from mbpack.config.python.program import Program, World, follow, parse_source
from mbpack.config.shown_release import infer_release
from mbpack.facts import recipes
from mbpack.facts.releases import DEFAULT, RELEASES, Release, parse_version, version_of
from mbpack.facts.schema import Schema, schema

#: Reads a file that a program merges into its configuration: its documents, None where there is no such file.
Load = Callable[[str], Sequence[Document] | None]


class Variant(Struct, frozen=True):
    """The layers of a configuration in one world; ``label`` says which world, "" for what is certain."""

    label: str
    documents: tuple[Document, ...]
    overrides: tuple[Override | OverrideProblem, ...] = ()


class Made(Struct, frozen=True):
    """One configuration of a program.

    ``given`` is what the program shows of its context; ``variants`` are what is certain, what holds with the defaults, and
    the other ways of the conditions. ``label`` is not empty where only some ways through the program make it.
    """

    name: str
    line: int
    given: Given
    variants: tuple[Variant, ...]
    label: str = ""
    base: str | None = None  # the recipe as the program calls it, known or not
    launched: bool = False
    variable: str = "cfg"


def read_program(
    text: str, path: str | None, bridge: str | None, load: Load, command: Command | None = None
) -> tuple[list[Made], Mapping[str, int]]:
    """Every configuration that a program makes, and what could not be followed (with its line).

    ``bridge`` is the release where somebody named it, ``command`` what starts the program.

    Raises:
        PythonError: the file is no Python.
    """
    tree = parse_source(text)
    source = Source(text, path, tree)
    program = follow(text, path, tree=tree, command=command)
    first = [configuration(shown, source, None) for shown in _distinct(program)]
    told = directives_of([Document(path, text, strings=source.strings, language="python")])[0]
    release = _release(bridge or told.bridge, first)
    version = parse_version(bridge or told.bridge or "") if bridge or told.bridge else version_of(release)
    if any(world.machine.asked_base for world in program.worlds):
        program = follow(text, path, Facts(version), tree, command)
    known = schema(release.name)

    def reread(text: str) -> list[Made]:
        return read_program(text, path, version.text, load, command)[0]

    reader = _Reader(program, source, known, load, reread)
    inferred = None
    if not (bridge or told.bridge) and first and _told_by_keys(first)[0] is not release:
        inferred = release.name
    made = list(reader.configurations(inferred))
    _mark_shared(made)
    return made, program.notes


def _mark_shared(made: Sequence[Made]) -> None:
    """Tell every document which of its values other keys or configurations take as well."""
    counts: Counter[int] = Counter()
    documents = [document for entry in made for document in entry.variants[0].documents if document.language == "python"]
    for document in documents:
        if document.root is not None:
            counts.update(item.span.start for _, item in walk(document.root) if not isinstance(item.value, dict))
    shared = frozenset(start for start, number in counts.items() if number > 1)
    for document in documents:
        document.shared = shared


def _distinct(program: Program) -> list[Shown]:
    return list(program.usual.shown()) or list(program.certain.shown())


def _roots(configurations: Sequence[Configuration]) -> list[Item]:
    return [
        layer.root for made in configurations for layer in made.layers if isinstance(layer, Document) and layer.root is not None
    ]


def _told_by_keys(configurations: Sequence[Configuration]) -> tuple[Release, bool]:
    found = infer_release(_roots(configurations))
    return (found[0], True) if found is not None else (DEFAULT, False)


def _release(named: str | None, configurations: Sequence[Configuration]) -> Release:
    """The release a program is for: named, shown by its keys, or the newest one that has its recipes."""
    if named is not None:
        return parse_version(named).release
    release, told = _told_by_keys(configurations)
    names = {made.recipe for made in configurations if made.recipe}
    missing = [name for name in names if recipes.find(release.name, name) is None]
    if not missing or told:
        return release
    for other in (*reversed(RELEASES[:4]), RELEASES[4]):
        if all(recipes.find(other.name, name) is not None for name in missing):
            return other
    return release


class _Reader:
    """Puts the worlds of a program together, configuration by configuration."""

    def __init__(self, program: Program, source: Source, known: Schema, load: Load, reread: Callable[[str], list[Made]]) -> None:
        self.program, self.source, self.schema, self.load, self.reread = program, source, known, load, reread

    def configurations(self, inferred: str | None) -> Iterator[Made]:
        """The configurations of the usual world, then those that only other worlds make."""
        worlds = self.program.worlds
        found = [(world, self._made(world)) for world in worlds]
        usual = found[1][1]
        done: set[tuple[str, int, str | None]] = set()
        for key, made in usual.items():
            variants = [self._variant(worlds[0], found[0][1].get(key)), self._variant(worlds[1], made)]
            for world, others in found[2:]:
                other = others.get(key)
                if other is not None and other.recipe == made.recipe:
                    variants.append(self._variant(world, other))
            done.add((*key, made.recipe))
            self._let_reread(variants[0], key)
            yield self._put(made, tuple(variants), "", inferred)
        for key, made in found[0][1].items():  # defaults alone do not get there: something must be given
            if key not in usual:
                done.add((*key, made.recipe))
                certain = self._variant(worlds[0], made)
                self._let_reread(certain, key)
                yield self._put(made, (certain, certain), "", inferred)
        for world, others in found[2:]:
            for key, made in others.items():
                if (*key, made.recipe) not in done:
                    done.add((*key, made.recipe))
                    nothing = Variant("", (self._unknown("it is made under a condition", made.line),))
                    yield self._put(made, (nothing, self._variant(world, made)), world.label, inferred)

    def _let_reread(self, variant: Variant, key: tuple[str, int]) -> None:
        """What is certain can be edited: the same document is found again in a changed text."""
        for index, document in enumerate(variant.documents):
            if document.language == "python":
                document.reread = lambda text, index=index: self._again(text, key, index)

    def _again(self, text: str, key: tuple[str, int], index: int) -> Document | None:
        for made in self.reread(text):
            documents = made.variants[0].documents
            if (made.name, made.line) == key and not made.label and index < len(documents):
                return documents[index]
        return None

    def _made(self, world: World) -> dict[tuple[str, int], Configuration]:
        return {(shown.how, shown.line): configuration(shown, self.source, self.schema) for shown in world.shown()}

    def _put(self, made: Configuration, variants: tuple[Variant, ...], label: str, inferred: str | None) -> Made:
        recipe = made.recipe or None
        given = Given(
            bridge=inferred,
            recipe=recipe,
            launcher="script" if made.launched else None,
            step=made.step,
        )
        return Made(made.name, made.line, given, variants, label, recipe, made.launched, made.variable)

    def _variant(self, world: World, made: Configuration | None) -> Variant:
        if made is None:  # it does not hold together where defaults do not count
            return Variant(world.label, (self._unknown("the configuration depends on values that may be given", 1),))
        documents: list[Document] = []
        words: list[str] = []
        for layer in made.layers:
            if isinstance(layer, Document):
                documents.append(layer)
                continue
            documents += self._merged(layer, world)
            words += layer.overlay.arguments
        return Variant(world.label, tuple(documents), tuple(parse_overrides(words)))

    def _merged(self, layer: Merged, world: World) -> Sequence[Document]:
        overlay = layer.overlay
        if overlay.arguments:
            return ()
        found = self.load(overlay.path) if overlay.path is not None else None
        if found is not None:
            return found
        if overlay.path is not None and not world.defaults:
            return (self._unknown(f"{overlay.path} is merged into it and is not there", overlay.line),)
        return () if world.defaults else (self._unknown("a file or arguments are merged into it", overlay.line),)

    def _unknown(self, why: str, line: int) -> Document:
        """A layer of which nothing is known."""
        span = Span(line, 1, line, 1, 0, 0)
        source = self.source
        return Document(source.path, source.text, Item({}, span), language="python", opaque={(): why}, strings=source.strings)
