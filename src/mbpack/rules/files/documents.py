"""Problems of the file as YAML: what OmegaConf refuses to read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mbpack.config.document import Document, Item, Problem, walk
from mbpack.config.run import Run
from mbpack.config.settings import ABSENT, Origin, Setting
from mbpack.rules.base import NOTE, REJECTED_LOAD, Edit, Finding, Fix, RejectingRule, Rule


class DuplicateKey(RejectingRule):
    """A key may stand only once in a mapping.

    OmegaConf refuses the file. A complete file is read by a plain YAML parser, which lets the last one win. Two entries that give
    no key different values can be joined by `--fix`.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    train: {micro_batch_size: 1}
    train: {global_batch_size: 8}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    train: {micro_batch_size: 1, global_batch_size: 8}
    ```

    ## Upstream
    - all releases: OmegaConf's loader (ConstructorError)
    """

    code, slug = "CFG109", "cfg/dup-key"

    def check(self, run: Run) -> Iterator[Finding]:
        return iter(())


class Unreadable(RejectingRule):
    """The file cannot be read as a configuration.

    Not valid YAML, not UTF-8, several documents in one file, or a list where a mapping is needed.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    train: {micro_batch_size: 1, global_batch_size: 8
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    train: {micro_batch_size: 1, global_batch_size: 8}
    ```

    ## Upstream
    - all releases: OmegaConf's loader
    """

    code, slug = "CFG123", "cfg/unreadable"

    def check(self, run: Run) -> Iterator[Finding]:
        return iter(())


class YamlNote(Rule):
    """Something about the file's YAML that is allowed and rarely meant.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    # A forgotten name: YAML reads the key as a number
    2: 4096
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    train: {micro_batch_size: 1}
    ```
    """

    code, slug = "CFG124", "cfg/yaml-note"

    def check(self, run: Run) -> Iterator[Finding]:
        return iter(())


DUPLICATE, UNREADABLE, REMARK = DuplicateKey(), Unreadable(), YamlNote()
RULES: tuple[Rule, ...] = (DUPLICATE, UNREADABLE, REMARK)


def document_findings(document: Document) -> Iterator[Finding]:
    """One finding per problem of a document."""
    for problem in document.problems:
        rule: Rule = DUPLICATE if problem.kind == "duplicate-key" else UNREADABLE if problem.fatal else REMARK
        yield Finding(
            rule=rule,
            outcome=REJECTED_LOAD if problem.fatal else NOTE.as_warning(),
            message=problem.message,
            why="OmegaConf refuses the file." if problem.fatal else "",
            setting=_place(problem, document),
            fix=_joined(document, problem) if rule is DUPLICATE else _without(document, problem),
            station="load",
        )


def _without(document: Document, problem: Problem) -> Fix | None:
    """The key of a set that a complete file holds goes."""
    if problem.kind != "set" or problem.fatal or document.root is None:
        return None
    for place, item in walk(document.root):
        if place and item.span == problem.span:
            path = ".".join(str(part) for part in place)
            return Fix(f"remove {path}", (Edit("delete", path),))
    return None


def _joined(document: Document, problem: Problem) -> Fix:
    """One entry with the keys of both, where no value differs; else a decision for the user."""
    from mbpack.config.duplicates import merged, path_of, values_to_keep
    from mbpack.config.edit import CannotEdit

    path = path_of(document, problem)
    if path is None:
        return Fix("keep one of them")
    try:
        merged(document, path)
        kept = values_to_keep(document, path)
    except CannotEdit as reason:
        return Fix(f"keep one of the two ({reason})")
    if not kept:
        return Fix("keep one of the two, they say the same", (Edit("set", ".".join(path), _plain(document, path)),), True)
    edits = tuple(Edit("set", ".".join(found), value) for found, value in kept.items())
    return Fix(f"one `{path[-1]}` with the keys of both", edits, True)


def _plain(document: Document, path: tuple[str, ...]) -> Any:
    held = document.root.plain if document.root is not None else {}
    for name in path:
        held = held[name]
    return held


def _place(problem: Problem, document: Document) -> Setting:
    return Setting("", ABSENT, Origin.FILE, Item(None, problem.span), document)
