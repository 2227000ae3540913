"""A launch command as a configuration: its overrides with their places in the script, its context and its files."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec.structs import replace

from mbpack.config.context import Context, ContextProblem, Given
from mbpack.config.document import Document, Item, Span
from mbpack.config.items import walk
from mbpack.config.overrides import Override, OverrideProblem, as_document, parse_overrides
from mbpack.config.shell import Launch, LaunchOverride, Word
from mbpack.config.shell.slurm import Counts
from mbpack.facts.gpus import find_gpu
from mbpack.facts.launchers import PERFORMANCE_MODEL, PERFORMANCE_SETS, PERFORMANCE_UNREAD, flags_named
from mbpack.facts.releases import Release


def given_by(launch: Launch) -> Given:
    """The context values that a launch command shows: recipe, GPU count, launcher, step function, nodes."""
    step = launch.step
    return Given(
        recipe=launch.recipe(),
        gpus=launch.gpus,
        launcher=launch.launcher,
        step=step.text if step is not None and step.known else None,
        nodes=launch.nodes,
        gpu=_gpu(launch),
        recipes=launch.recipes,
    )


def _gpu(launch: Launch) -> str | None:
    """The kind of GPU that a performance script is given."""
    word = launch.flag("--gpu", "-g") if launch.performance else None
    found = find_gpu(word.text) if word is not None and word.known else None
    return found.name if found is not None else None


def flags_of(launch: Launch) -> dict[str, str]:
    """The options of the command with their values, and what is known of its torchrun; a switch has the value ""."""
    return {f"torchrun {name}": value for name, value in launch.torchrun.items()} | {
        flag.name: flag.value.text if flag.value is not None else "" for flag in launch.flags
    }


def without_own_recipe(context: Context, launch: Launch) -> Context:
    """The context of a performance script: its recipe is its own, and nobody here knows what it holds."""
    given = {flag.name for flag in launch.flags}
    model = launch.flag(*PERFORMANCE_MODEL)
    name = f" {model.text}" if model is not None and model.known else ""
    unread = [names[0] for names in PERFORMANCE_UNREAD if not given.isdisjoint(names)]
    message = f"the performance launcher builds a recipe of its own{name}, whose values mbpack does not hold"
    if unread:
        message += f"; not read: {', '.join(unread)}"
    problem = ContextProblem(message, launch.script.line, severity="info")
    named = context.sources.get("recipe") in ("flag", "directive")
    own = context.own_recipe if named else (name.strip() or "unknown")
    return replace(context, own_recipe=own, problems=(*context.problems, problem))


def defaults_of(launch: Launch) -> tuple[str, ...]:
    """The variables with whose defaults the command sets keys and counts GPUs; the recipe that a default names is the script's."""
    words = [*(override.word for override in launch.overrides), *(override.value for override in launch.overrides)]
    words += [flag.value for flag in launch.flags if flag.value is not None and _sets(flag.name)]
    return tuple(dict.fromkeys([name for word in words for name in word.defaults] + list(launch.counts.defaults)))


def defaults_by_key(launch: Launch, release: Release) -> dict[str, tuple[str, ...]]:
    """The variables whose defaults each key takes."""
    found: dict[str, tuple[str, ...]] = {}
    for setting in launch.settings(release):
        key = setting.text.partition("=")[0].lstrip("+")
        found[key] = (*setting.word.defaults, *(name for name in setting.value.defaults if name not in setting.word.defaults))
    return found


def without_defaults(launch: Launch, doubted: Collection[str]) -> Launch:
    """The command where nothing is known of some variables that have defaults."""
    counted = not set(doubted).isdisjoint(launch.counts.defaults)
    return replace(
        launch,
        flags=tuple(
            replace(flag, value=_unknown(flag.value, doubted)) if flag.value is not None and _sets(flag.name) else flag
            for flag in launch.flags
        ),
        overrides=tuple(_without_default(override, doubted) for override in launch.overrides),
        counts=Counts() if counted else launch.counts,
        torchrun=dict.fromkeys(launch.torchrun.keys() & {"torchrun"}, "") if counted else launch.torchrun,
    )


def _sets(option: str) -> bool:
    return any(flag.sets is not None for flag in flags_named(option)) or any(option in names for names in PERFORMANCE_SETS)


def _unknown(word: Word, doubted: Collection[str]) -> Word:
    name = next((name for name in word.defaults if name in doubted), None)
    return word if name is None else replace(word, text=f"${{shell:{name}}}", known=False, defaults=())


def _without_default(override: LaunchOverride, doubted: Collection[str]) -> LaunchOverride:
    held = (*override.word.defaults, *override.value.defaults)
    value = _unknown(replace(override.value, defaults=held), doubted)
    if value.known or not held:
        return override
    key, equals, _ = override.word.text.partition("=")
    word = replace(override.word, text=f"{key}={value.text}" if equals else key, known=False, defaults=())
    return LaunchOverride(word, value)


def overrides_of(launch: Launch, release: Release, script: Document) -> tuple[list[Override | OverrideProblem], Document]:
    """The overrides of a command, and a document whose values stand where the script writes them."""
    settings = list(launch.settings(release))
    parsed = parse_overrides([setting.text for setting in settings])
    document = as_document(parsed, script.path)
    if document.root is not None:
        _replace_places(document.root, settings)
    return parsed, Document(script.path, script.text, document.root, deleted=document.deleted)


def _replace_places(root: Item, settings: Sequence[LaunchOverride]) -> None:
    for _, item in walk(root):
        index = item.span.line - 1
        if item is root or not 0 <= index < len(settings):
            continue
        value, word = settings[index].value, settings[index].word
        item.move(
            Span(value.line, value.column, value.line, value.end_column, 0, 0),
            Span(word.line, word.column, word.line, word.end_column, 0, 0),
        )
