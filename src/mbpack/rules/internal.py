"""The finding that stands for a broken rule, and those about suppressions."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.context import ContextProblem, Ignore
from mbpack.config.document import Document, Item, Span
from mbpack.config.run import Run
from mbpack.config.settings import ABSENT, Origin, Setting
from mbpack.rules.base import IGNORED, NOTE, Finding, Fix, Rule


class InternalError(Rule):
    """A rule of mbpack failed; the others still ran.

    This is a defect of mbpack, not of the configuration. The exit code is 70.
    """

    code, slug = "INT101", "internal/rule-failed"

    def check(self, run: Run) -> Iterator[Finding]:
        return iter(())

    def about(self, run: Run, rule: Rule, error: Exception) -> Finding:
        """The finding for one failed rule."""
        return Finding(
            rule=self,
            outcome=NOTE.as_warning(),
            message=f"rule {rule.code} ({rule.slug}) failed: {type(error).__name__}: {error}",
            why="This is a defect of mbpack; the other rules ran.",
            setting=Setting("", ABSENT, Origin.DEFAULT),
            fix=Fix("report it with this file"),
        )


class UnusedIgnore(Rule):
    """An ignore directive that suppresses nothing.

    It hides the next finding of that rule without anybody having decided so; remove it.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    # mbpack: ignore[ALN101] the packs were aligned by another program
    train: {global_batch_size: 8}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    train: {global_batch_size: 8}
    ```
    """

    code, slug = "SUP101", "suppress/unused"

    def check(self, run: Run) -> Iterator[Finding]:
        return iter(())

    def about(self, ignore: Ignore, code: str, document: Document, known: bool) -> Finding:
        """The finding for one code of a directive."""
        span = Span(ignore.line, 1, ignore.line, 1, 0, 0)
        item = Item(None, span)
        return Finding(
            rule=self,
            outcome=NOTE.as_warning(),
            message=f"ignore[{code}] suppresses nothing" if known else f"ignore[{code}] names no rule",
            why="" if known else "Rules are named by code (ALN101) or slug (align/pad-seq-to-mult-cp).",
            setting=Setting("", ABSENT, Origin.FILE, item, document),
            fix=Fix("remove it from the directive"),
        )


class IgnoreWithoutReason(Rule):
    """An ignore directive should say why.

    Whoever reads the file next needs to know whether the exception still holds.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    # mbpack: ignore[ALN101]
    train: {global_batch_size: 8}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    train: {global_batch_size: 8}
    ```
    """

    code, slug = "SUP102", "suppress/no-reason"

    def check(self, run: Run) -> Iterator[Finding]:
        return iter(())

    def about(self, ignore: Ignore, document: Document) -> Finding:
        """The finding for one directive."""
        item = Item(None, Span(ignore.line, 1, ignore.line, 1, 0, 0))
        return Finding(
            rule=self,
            outcome=NOTE,
            message=f"ignore[{', '.join(ignore.codes)}] gives no reason",
            why="",
            setting=Setting("", ABSENT, Origin.FILE, item, document),
            fix=Fix("add the reason behind the bracket"),
        )


class UnusableDirective(Rule):
    """A directive or recipe name that cannot be used.

    The report goes on without it: what it would have told counts as unknown. A recipe that the release does not ship may be
    somebody's own, which is no mistake; one whose name is nearly that of a shipped one, or that another release has, probably is.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sfft_config gpus=8 launcher=script
    train: {global_batch_size: 8}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    train: {global_batch_size: 8}
    ```
    """

    code, slug = "SUP103", "suppress/unusable-directive"

    def check(self, run: Run) -> Iterator[Finding]:
        return iter(())

    def about(self, problem: ContextProblem, document: Document | None) -> Finding:
        """The finding for one problem."""
        item = Item(None, Span(problem.line, 1, problem.line, 1, 0, 0)) if problem.line is not None else None
        return Finding(
            rule=self,
            outcome=IGNORED if problem.severity == "error" else NOTE._replace(severity=problem.severity),
            message=problem.message,
            why="",
            setting=Setting("", ABSENT, Origin.FILE, item, document),
        )


class NotBridge(Rule):
    """The file is no Megatron-Bridge configuration.

    It has none of Bridge's sections; where the file of another program is recognised, the message names it.

    ## Bad
    ```yaml
    # mbpack: gpus=8 launcher=script
    apiVersion: v1
    kind: Pod
    metadata: {name: train}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    train: {global_batch_size: 8}
    ```
    """

    code, slug = "CFG128", "cfg/not-bridge"

    def check(self, run: Run) -> Iterator[Finding]:
        return iter(())

    def about(self, message: str, span: Span | None, document: Document) -> Finding:
        """The finding for one file."""
        item = Item(None, span) if span is not None else None
        return Finding(
            rule=self, outcome=IGNORED, message=message, why="", setting=Setting("", ABSENT, Origin.FILE, item, document)
        )


INTERNAL = InternalError()
UNUSED = UnusedIgnore()
NO_REASON = IgnoreWithoutReason()
UNUSABLE = UnusableDirective()
NOT_BRIDGE = NotBridge()
RULES: tuple[Rule, ...] = (INTERNAL, UNUSED, NO_REASON, UNUSABLE, NOT_BRIDGE)
