"""What a verdict depends on besides the file: release, recipe, GPUs, launcher, and who said so.

Strongest first: a command-line flag; a directive comment in the file; ``[tool.mbpack]`` in pyproject.toml; what the
file itself shows; else unknown. Only the release has a last resort, the newest published one, and the report says so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from mbpack.config.beside import Beside
from mbpack.config.document import Document, Item
from mbpack.config.shown_release import excludes, shown_release
from mbpack.config.wrapper import read_wrapper
from mbpack.facts import learned
from mbpack.facts.gpus import GPUS, find_gpu, gpu_in_recipe
from mbpack.facts.patterns import lazy
from mbpack.facts.releases import Release, Version, parse_version, version_of

LAUNCHERS = ("run_recipe", "script")
#: What a directive, `[tool.mbpack]` and the flags may name, in the order of :class:`Given`.
CONTEXT_NAMES = ("bridge", "recipe", "gpus", "launcher", "step", "nodes", "gpu")
_DIRECTIVE = lazy(r"#\s*mbpack\s*:\s*(.*)$")
_IGNORE = lazy(r"ignore\[([^\]]*)\]\s*(.*)$")


class ContextError(ValueError):
    """A context value that cannot be used; the message says what was given, where, and what is allowed."""


class Ignore(Struct, frozen=True):
    """One ``ignore[CODE]`` directive: the codes or slugs it names, its reason, and its line.

    On a line of its own it holds for the file; behind a value (``only_here``) for the findings of that line.
    """

    codes: tuple[str, ...]
    reason: str
    line: int
    only_here: bool = False


class ContextProblem(Struct, frozen=True):
    """Something a file's own directive says that cannot be used; the report goes on without it.

    ``severity`` is that of the finding: "info" where nobody can say that anything is wrong.
    """

    message: str
    line: int | None = None
    severity: str = "error"


class Given(Struct, frozen=True):
    """Context values from one source, as text or numbers; None where the source says nothing."""

    bridge: str | None = None
    recipe: str | None = None
    gpus: int | None = None
    launcher: str | None = None
    step: str | None = None
    nodes: int | None = None
    gpu: str | None = None
    #: Names of which a script chooses its recipe.
    recipes: tuple[str, ...] = ()
    #: How to find the Megatron-Bridge that stands beside the files; asked only where nobody names a release.
    beside: Callable[[], Beside | None] | None = None


class Context(Struct, frozen=True):
    """The resolved context. ``sources`` names, per value, where it came from."""

    version: Version
    recipe: str | None = None
    recipes: tuple[str, ...] = ()  # of which a script chooses one, where nobody says which
    own_recipe: str | None = None  # the name of a recipe that the release does not ship
    gpus: int | None = None
    launcher: str | None = None
    step: str | None = None
    nodes: int | None = None
    gpu: str | None = None  # a name of facts/gpus.py
    sources: Mapping[str, str] = field(default_factory=dict)
    ignores: tuple[Ignore, ...] = ()
    marker: str | None = None  # the key that told the release, when the file did
    problems: tuple[ContextProblem, ...] = ()
    flags: Mapping[str, str] = field(default_factory=dict)  # options of the launch command, when a script was read
    clouded: Mapping[str, str] = field(default_factory=dict)  # keys that are not as the recipe has them -> why not known


#: Unknown words of one directive that are reported.
_MOST_WORDS = 8


def parse_directives(document: Document) -> tuple[Given, tuple[Ignore, ...], tuple[ContextProblem, ...]]:
    """Read every ``# mbpack:`` comment of a document; words that cannot be used become problems."""
    if "mbpack" not in document.text:
        return Given(), (), ()
    values: dict[str, Any] = {}
    ignores: list[Ignore] = []
    problems: list[ContextProblem] = []
    for line, text in document.comments():
        match = _DIRECTIVE.search(text)
        if not match:
            continue
        words = match[1].strip()
        ignore = _ignore(words, line)
        if ignore is not None:
            ignores.append(ignore)
            continue
        found = 0
        for word in dict.fromkeys(words.split()):
            name, equals, value = word.partition("=")
            if not equals or name not in CONTEXT_NAMES:
                message = (
                    f"`{word[:60]}` is not a directive mbpack knows; write for example "
                    "`# mbpack: bridge=0.6 recipe=NAME gpus=16 launcher=script` or `# mbpack: ignore[ALN101] reason`"
                )
                problems.append(ContextProblem(message, line))
                found += 1
                if found == _MOST_WORDS:
                    break  # no directive, but a sentence
                continue
            try:
                values[name] = check_value(name, value, "directive")
            except ContextError as error:
                problems.append(ContextProblem(str(error), line))
    for line, text in document.trailing_directives():
        match = _DIRECTIVE.search(text)
        ignore = _ignore(match[1].strip(), line, only_here=True) if match else None
        if ignore is not None:
            ignores.append(ignore)
        else:
            message = "behind a value only `# mbpack: ignore[CODE] reason` is read; put other directives on a line of their own"
            problems.append(ContextProblem(message, line))
    return Given(**values), tuple(ignores), tuple(problems)


def _ignore(words: str, line: int, only_here: bool = False) -> Ignore | None:
    found = _IGNORE.match(words)
    if found is None:
        return None
    codes = tuple(code.strip() for code in found[1].split(",") if code.strip())
    return Ignore(codes, found[2].strip(), line, only_here)


def check_value(name: str, value: str, where: str) -> Any:
    """One context value in its own type.

    Raises:
        ContextError: when it cannot be used.
    """
    if name in ("gpus", "nodes"):
        if not (value.isascii() and value.isdigit() and len(value) <= 9 and int(value) > 0):
            raise ContextError(f"{where}: {name}={value} must be a positive whole number")
        return int(value)
    if name == "launcher" and value not in LAUNCHERS:
        raise ContextError(f"{where}: launcher={value} is not known; use run_recipe (scripts/training/run_recipe.py) or script")
    if name == "gpu":
        found = find_gpu(value)
        if found is None:
            raise ContextError(f"{where}: gpu={value} is not known; use {', '.join(GPUS)}")
        return found.name
    if name == "bridge":
        try:
            parse_version(value)
        except ValueError as error:
            raise ContextError(f"{where}: {error}") from None
    return value


def directives_of(documents: Iterable[Document]) -> tuple[Given, tuple[Ignore, ...], tuple[ContextProblem, ...]]:
    """The ``# mbpack:`` comments of one configuration: of two files that say the same word the later one counts."""
    directive = Given()
    ignores: tuple[Ignore, ...] = ()
    problems: tuple[ContextProblem, ...] = ()
    for document in documents:
        given, more, wrong = parse_directives(document)
        problems += wrong
        directive = Given(*(new if new is not None else old for new, old in zip(_values(given), _values(directive), strict=True)))
        ignores += more
    return directive, ignores, problems


def resolve_context(
    flags: Given,
    project: Given,
    documents: Collection[Document],
    script: Given | None = None,
    options: Mapping[str, str] | None = None,
    arguments: Sequence[Item] = (),
) -> Context:
    """Put the sources together for one configuration (one file, or files merged as layers).

    ``script`` is what a launch command shows, ``options`` are its flags. ``arguments`` are the trees of KEY=VALUE arguments,
    which show the release as files do.
    """
    directive, ignores, problems = directives_of(documents)
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for name in CONTEXT_NAMES:
        shown = script or Given()
        for source, given in (("flag", flags), ("directive", directive), ("script", shown), ("pyproject", project)):
            value = getattr(given, name)
            if value is not None:
                values[name], sources[name] = value, source
                break
    marker = None
    roots = [document.root for document in documents if document.root is not None]
    wrapper = read_wrapper(roots)
    for name in ("recipe", "step", "nodes", "gpus"):
        value = getattr(wrapper, name)
        if name not in values and value is not None:
            values[name], sources[name] = value, "file"
    if "gpu" not in values and "recipe" in values:
        named = gpu_in_recipe(values["recipe"])
        if named is not None:
            values["gpu"], sources["gpu"] = named.name, "recipe"
    if "bridge" in values:
        version = parse_version(values.pop("bridge"))
    else:
        release, marker = shown_release(
            [*roots, *arguments],
            (options or {}) if script is not None and script.launcher == "run_recipe" else (),
            values.get("recipe"),
        )
        version = version_of(release)
        sources["bridge"] = "file" if marker else "default"
        found = project.beside() if project.beside is not None else None
        if found is not None and _goes_with(found.version.release, roots, values.get("recipe"), marker, release):
            version, marker = _known_of(found), found.where
            sources["bridge"] = "installed"
    return Context(
        version=version,
        sources=sources,
        ignores=ignores,
        marker=marker,
        problems=problems,
        flags=dict(options or {}),
        recipes=script.recipes if script is not None and "recipe" not in values else (),
        clouded={**wrapper.clouded, **_replaced(options or {}, values.get("launcher"))},
        **values,
    )


def _known_of(found: Beside) -> Version:
    """What the version of a Megatron-Bridge says about its code.

    A source tree states the first number of its line while it is written, and forks leave it there: which fixes of the
    line's patches it holds is not known, unless the tree itself was learned.
    """
    version = found.version
    if found.tree and version.patch == f"{version.release.name}.0" and learned.find(version.patch) is None:
        return version_of(version.release)
    return version


def _goes_with(found: Release, roots: Sequence[Item], recipe: str | None, marker: str, shown: Release) -> bool:
    """Whether a configuration can be one of a release that was found: nothing in it shows another."""
    if not marker or found is shown:
        return True
    if recipe is not None and marker == f"recipe {recipe}":
        return False
    return excludes(roots, found) is None


def _replaced(options: Mapping[str, str], launcher: str | None) -> Mapping[str, str]:
    """What an option of ``run_recipe.py`` puts in the place of the recipe's values, each with why it is not known."""
    preset = options.get("--dataset") if launcher == "run_recipe" else None
    return {"dataset": f"--dataset {preset} replaces the recipe's dataset"} if preset else {}


def _values(given: Given) -> tuple[Any, ...]:
    return tuple(getattr(given, name) for name in CONTEXT_NAMES)
