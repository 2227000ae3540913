"""The doctor's opinion of what the wizard is about to write."""

from __future__ import annotations

from mbpack.config.document import parse
from mbpack.engine.doctor import examine
from mbpack.engine.result import Result
from mbpack.facts.keys import path_in
from mbpack.rules.base import Finding
from mbpack.wizard.compose import Job, compose
from mbpack.wizard.yaml_text import Line, render


def directive(job: Job) -> str:
    """The comment that tells the doctor what the file was written for."""
    draft = job.draft
    words = [f"bridge={draft.version.text}", f"recipe={draft.recipe.name}", f"gpus={draft.get('gpus')}"]
    words += [f"launcher={draft.get('launcher')}", f"step={job.step}"]
    return "# mbpack: " + " ".join(words)


def in_release(job: Job, lines: list[Line]) -> list[Line]:
    """Lines under the names of the job's release."""
    release = job.draft.release
    return [Line(path_in(release, line.key), line.value, line.why) for line in lines]


def judge(text: str) -> Result:
    """The doctor's result for a file; its directives say everything else."""
    return examine([parse(text)])


def judge_lines(job: Job) -> Result:
    """The doctor's result for a job's settings, before anything is suppressed."""
    return judge(directive(job) + "\n" + render(in_release(job, compose(job))))


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
