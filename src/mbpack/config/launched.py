"""A launch command as a configuration: its overrides with their places in the script, its context and its files."""

from __future__ import annotations

from collections.abc import Sequence

from mbpack.config.context import Given
from mbpack.config.document import Document, Item, Span
from mbpack.config.items import walk
from mbpack.config.overrides import Override, OverrideProblem, as_document, parse_overrides
from mbpack.config.shell import Launch, LaunchOverride
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
    )


def flags_of(launch: Launch) -> dict[str, str]:
    """The options of the command with their values, and what is known of its torchrun; a switch has the value ""."""
    return {f"torchrun {name}": value for name, value in launch.torchrun.items()} | {
        flag.name: flag.value.text if flag.value is not None else "" for flag in launch.flags
    }


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
