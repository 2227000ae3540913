"""The doctor's opinion of what the wizard is about to write."""

from __future__ import annotations

from collections.abc import Iterable

from mbpack.config.context import Given
from mbpack.config.document import parse
from mbpack.config.live import document_of
from mbpack.engine.doctor import examine
from mbpack.engine.result import Result
from mbpack.facts.keys import path_in
from mbpack.rules.base import Finding
from mbpack.wizard.compose import Job, compose
from mbpack.wizard.yaml_text import Line, mapping


def given(job: Job) -> Given:
    """What a job's file is written for, as the command's flags would say it."""
    draft = job.draft
    return Given(draft.version.text, draft.recipe.name, draft.get("gpus"), draft.get("launcher"), step=job.step)


def directive(job: Job) -> str:
    """The comment that tells the doctor what the file was written for."""
    said = given(job)
    names = ("bridge", "recipe", "gpus", "launcher", "step")
    return "# mbpack: " + " ".join(f"{name}={getattr(said, name)}" for name in names)


def in_release(job: Job, lines: list[Line]) -> list[Line]:
    """Lines under the names of the job's release."""
    release = job.draft.release
    return [Line(path_in(release, line.key), line.value, line.why) for line in lines]


def judge(text: str) -> Result:
    """The doctor's result for a file; its directives say everything else."""
    return examine([parse(text)])


def judge_settings(job: Job, lines: Iterable[Line] | None = None) -> Result:
    """The doctor's result for a job's settings, before there is a file and before anything is suppressed.

    ``lines`` are the settings under the names of the release, where the caller has them.
    """
    composed = in_release(job, compose(job)) if lines is None else lines
    return examine([document_of(mapping(composed))], given(job))


def errors(result: Result) -> list[Finding]:
    """Errors, the one upstream would raise first in front."""
    return [finding for finding in result.findings if finding.outcome.severity == "error"]


def warnings(result: Result) -> list[Finding]:
    """Warnings, in the order of the report."""
    return [finding for finding in result.findings if finding.outcome.severity == "warning"]


def words_of(finding: Finding) -> str:
    """A finding in one line: what is wrong, and how to mend it."""
    fix = f"; fix: {finding.fix.title}" if finding.fix is not None else ""
    return f"{finding.message}{fix} [{finding.rule.code}]"
