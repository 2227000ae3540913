"""`mbpack.check`: one line in a training script or notebook, before the job starts.

    import mbpack
    mbpack.check(cfg)                       # raises CheckFailed with the report where something is wrong
    report = mbpack.check(cfg, raise_on=None)

Names and behaviour of this module follow semantic versioning; everything else in the package may change in any release.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct, field

if TYPE_CHECKING:
    from mbpack.engine.result import Result

__all__ = ["CheckFailed", "Finding", "NotChecked", "Report", "check"]

RaiseOn = Literal["error", "warning"] | None


class Finding(Struct, frozen=True):
    """One problem.

    severity     "error", "warning" or "info".
    consequence  what happens if nothing is done: "rejected", "crash", "silent", "ignored", "waste" or "note"; `when` it does.
    key          the setting it is about, in the names of the release; `line` of the file, where it is written in one.
    fix          what mends it, in words; None where nothing does.
    """

    code: str
    slug: str
    severity: str
    consequence: str
    when: str
    message: str
    why: str
    key: str | None
    line: int | None
    fix: str | None


class NotChecked(Struct, frozen=True):
    """A rule that could not be judged, and what would let it be ("gpus", "recipe", "launcher", "filesystem", ...)."""

    code: str
    needs: tuple[str, ...]


class Report(Struct, frozen=True):
    """What is wrong with a configuration. `str()` is the report as the terminal shows it.

    verdict   what a start-up says to it: "rejected", "accepted" or "unknown".
    mode      how it packs: "offline", "in_batch", "energon", "global_batch", "none" or "unknown".
    derived   numbers that follow from it, such as "data_parallel_size" or "num_microbatches".
    data      the whole report as plain data, as `mbpack doctor --format json` gives it for one file.
    """

    verdict: str
    mode: str
    findings: tuple[Finding, ...]
    derived: Mapping[str, int]
    not_checked: tuple[NotChecked, ...]
    data: Mapping[str, Any] = field(default_factory=dict)
    text: str = ""

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings of severity "error"."""
        return tuple(finding for finding in self.findings if finding.severity == "error")

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """The findings of severity "warning"."""
        return tuple(finding for finding in self.findings if finding.severity == "warning")

    @property
    def ok(self) -> bool:
        """Whether there is no error."""
        return not self.errors

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        """The report in a notebook: a line per finding, the numbers below."""
        from html import escape

        rows = "".join(
            f"<tr><td><b>{escape(finding.severity)}</b></td><td><code>{escape(finding.code)}</code></td>"
            f"<td>{escape(finding.message)}<br><small>{escape(finding.fix or '')}</small></td></tr>"
            for finding in self.findings
        )
        numbers = ", ".join(f"{escape(name)} {value}" for name, value in self.derived.items())
        head = f"mbpack: {escape(self.verdict)}, {len(self.errors)} errors, {len(self.warnings)} warnings"
        return f"<div><p><b>{head}</b></p><table>{rows}</table><p><small>{numbers}</small></p></div>"


class CheckFailed(ValueError):
    """Something is wrong with a configuration; the message is the report, `report` its data."""

    def __init__(self, report: Report) -> None:
        super().__init__(f"\n{report}")
        self.report = report


def check(
    cfg: Any,
    *,
    gpus: int | None = None,
    bridge: str | None = None,
    launcher: str | None = None,
    recipe: str | None = None,
    raise_on: RaiseOn = "error",
) -> Report:
    """Check a configuration before the job starts.

    `cfg` is a live ConfigContainer, a mapping of sections (with `recipe`, what it overrides), or the path of a YAML file, a
    launch script or a Python program. `gpus` is the number of processes; left out, a live container takes it from WORLD_SIZE.
    `bridge` is the release; left out, a live container takes the installed one. `launcher` is "script" for a live
    container, which a script of yours has made.

    On several ranks every rank gets the same report, and all of them raise.

    Raises:
        CheckFailed: there is a finding of severity `raise_on` or worse.
        TypeError: `cfg` is none of these.
        ValueError: a file cannot be read, or a release, recipe or launcher is not known.
    """
    if raise_on not in ("error", "warning", None):
        raise ValueError(f'raise_on is "error", "warning" or None, not {raise_on!r}')
    report = _merged([_report(result) for result in _results(cfg, gpus, bridge, launcher, recipe)])
    if report.errors or (raise_on == "warning" and report.warnings):
        if raise_on is not None:
            raise CheckFailed(report)
    return report


def _results(cfg: Any, gpus: int | None, bridge: str | None, launcher: str | None, recipe: str | None) -> Sequence[Result]:
    from mbpack.config.context import Given, check_value

    for name, value in (("bridge", bridge), ("launcher", launcher), ("gpus", None if gpus is None else str(gpus))):
        if value is not None:
            check_value(name, value, name)
    if isinstance(cfg, (str, os.PathLike)):
        return _of_file(os.fspath(cfg), Given(bridge, recipe, gpus, launcher))
    from mbpack.config.live import document_of, is_container
    from mbpack.engine.doctor import Request, judge
    from mbpack.engine.worlds import in_python

    live = is_container(cfg)
    if live:
        bridge, launcher = bridge or _installed(), launcher or "script"
        gpus = gpus if gpus is not None else _world_size()
    document = document_of(cfg)
    result = judge(Request([document], Given(bridge, recipe, gpus, launcher)))
    if live:
        first = result.first
        spelled = [in_python(finding, "cfg") for finding in result.findings]
        result.first = next((new for old, new in zip(result.findings, spelled, strict=True) if old is first), None)
        result.findings = spelled
    return [result]


def _of_file(path: str, flags: Any) -> Sequence[Result]:
    from mbpack.cli.inputs import InputError
    from mbpack.cli.session import Options, Unit, requests
    from mbpack.engine.doctor import judge

    try:
        return [judge(request) for request in requests(Unit((path,)), Options(flags=flags))]
    except InputError as error:
        raise ValueError(str(error)) from None


def _world_size() -> int | None:
    """The number of processes that torchrun or Slurm tell, None where they tell none."""
    text = os.environ.get("WORLD_SIZE") or os.environ.get("SLURM_NTASKS") or ""
    return int(text) if text.isascii() and text.isdigit() and int(text) > 0 else None


def _installed() -> str | None:
    """The release of the installed Megatron-Bridge, where mbpack knows it."""
    from importlib import metadata

    from mbpack.facts.releases import parse_version

    try:
        version = metadata.version("megatron-bridge")
        parse_version(version)
    except (metadata.PackageNotFoundError, ValueError):
        return None
    return version


def _report(result: Result) -> Report:
    from mbpack.report.json import file_data
    from mbpack.report.style import Style
    from mbpack.report.text import render

    data = file_data(result)
    names = ("code", "slug", "severity", "consequence", "when", "message", "why", "key")
    return Report(
        verdict=result.verdict,
        mode=result.mode,
        findings=tuple(
            Finding(
                **{name: found[name] for name in names},
                line=found["line"] or None,
                fix=found["fix"]["title"] if found["fix"] else None,
            )
            for found in data["findings"]
        ),
        derived=data["derived"],
        not_checked=tuple(NotChecked(entry["code"], tuple(entry["needs"])) for entry in data["not_checked"]),
        data=data,
        text=render(result, Style()),
    )


def _merged(reports: Sequence[Report]) -> Report:
    """The reports of several launches or configurations of one file as one."""
    if len(reports) == 1:
        return reports[0]
    verdicts = {report.verdict for report in reports}
    verdict = "rejected" if "rejected" in verdicts else "accepted" if verdicts == {"accepted"} else "unknown"
    modes = {report.mode for report in reports}
    return Report(
        verdict=verdict,
        mode=modes.pop() if len(modes) == 1 else "unknown",
        findings=tuple(finding for report in reports for finding in report.findings),
        derived={},
        not_checked=tuple(dict.fromkeys(entry for report in reports for entry in report.not_checked)),
        data={"files": [report.data for report in reports]},
        text="\n\n".join(report.text for report in reports),
    )
