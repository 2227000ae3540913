"""Text of what `mbpack inspect` found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mbpack.rules.base import Finding


def text(label: str, summary: Mapping[str, Any], findings: Sequence[Finding], notes: Sequence[str] = ()) -> str:
    """One target: its numbers, then its findings."""
    lines = [label]
    for name, split in summary["splits"].items():
        lines += _split(name, split)
    if "metadata" in summary:
        lines.append(_line("metadata", _metadata(summary["metadata"])))
    if "step" in summary:
        lines.append(_line("step", _step(summary["step"])))
    lines += [_line("note", note) for note in notes]
    for finding in findings:
        lines += _finding(finding)
    return "\n".join(lines)


def _line(name: str, words: str) -> str:
    return f"  {name:<11} {words}"


def _split(name: str, split: Mapping[str, Any]) -> Iterator[str]:
    files = f"{split['files']} file{'' if split['files'] == 1 else 's'}"
    head = f"{split['rows']:,} rows in {files}" if "rows" in split else files
    if "samples" not in split:
        yield _line(name, head)
        return
    full = f", {split['efficiency']:.2%} full" if "efficiency" in split else ""
    a_row = f"{split['samples_per_row']:g} a row, at most {split['most_samples']}"
    yield _line(
        name,
        f"{head}, {split['samples']:,} samples ({a_row}){full}",
    )
    yield _line(
        "",
        f"{split['tokens']:,} tokens, {split['supervised']:.1%} carry loss; longest sample {split['longest_sample']:,},"
        f" rows {split['shortest_row']:,} to {split['longest_row']:,}; lengths are multiples of {split['aligned_to']}",
    )


def _metadata(found: Mapping[str, Any]) -> str:
    if not found["exists"]:
        return f"{found['path']} does not exist"
    if "problem" in found:
        return f"{found['path']}: {found['problem']}"
    words = [
        f"pack_size {entry.get('pack_size')}, packing_factor {entry.get('packing_factor')},"
        f" max_samples_per_bin {entry.get('max_samples_per_bin')}"
        for entry in found["entries"]
    ]
    return "; ".join(words) or "no entries"


def _step(step: Mapping[str, Any]) -> str:
    words = [f"global_batch_size {step['global_batch_size']}: {step['steps_per_epoch']:,} steps an epoch"]
    if "epochs" in step:
        words.append(f"{step['epochs']:g} epochs")
    if "samples" in step:
        words.append(f"{step['samples']:,} samples and {step['tokens']:,} tokens a step")
    if "packs_for_as_many_samples" in step:
        sizes = " or ".join(str(size) for size in step["packs_for_as_many_samples"])
        words.append(f"{step['global_batch_size']} unpacked samples are about {sizes} packs")
    if "pipeline_bubble" in step:
        words.append(f"pipeline idle {step['pipeline_bubble']:.0%}")
    return ", ".join(words)


def _finding(finding: Finding) -> Iterator[str]:
    yield f"{finding.outcome.severity} {finding.rule.code}  {finding.message}   [{finding.outcome.consequence}]"
    if finding.why:
        yield f"  why   {finding.why}"
    if finding.fix is not None:
        yield f"  fix   {finding.fix.title}"
