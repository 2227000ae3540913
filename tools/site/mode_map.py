"""The map "which packing mode when" as SVG: jobs down, releases across, drawn by asking the wizard for each."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any, NamedTuple

from mbpack.facts.modes import MODES, NONE
from mbpack.facts.releases import RELEASES, Release
from mbpack.wizard.draft import Draft, Refused
from mbpack.wizard.modes import choose


class Job(NamedTuple):
    """A kind of job: how it is called, what is said below, and the answers that stand for it."""

    title: str
    note: str
    answers: Mapping[str, Any]


#: What the data and the model are; the wizard's answer hardly depends on anything else.
JOBS = (
    Job(
        "Text, rows of varying length",
        "JSONL, chat, Hugging Face; SFT or LoRA",
        {"workload": "sft", "modality": "text", "family": "llama", "data": "jsonl"},
    ),
    Job(
        "Text, long samples that fill a row",
        "long context, one sample a row",
        {"workload": "sft", "modality": "text", "family": "llama", "data": "jsonl", "long_samples": True},
    ),
    Job(
        "Text, Gemma 2",
        "its attention takes no packed rows",
        {"workload": "sft", "modality": "text", "family": "gemma2", "data": "jsonl"},
    ),
    Job(
        "Images or video, Hugging Face data",
        "Qwen2.5-VL",
        {"workload": "sft", "modality": "vlm", "family": "qwen25_vl", "data": "hf"},
    ),
    Job(
        "Images or video, Energon WebDataset",
        "Qwen2.5-VL",
        {"workload": "sft", "modality": "vlm", "family": "qwen25_vl", "data": "energon"},
    ),
    Job(
        "Pretraining, long context",
        "indexed data: rows are full already",
        {"workload": "pretrain", "modality": "text", "family": "llama"},
    ),
)
_LEFT, _WIDE, _HIGH, _GAP, _TOP = 290, 108, 58, 4, 34


class Cell(NamedTuple):
    """What the wizard recommends: a mode's name ("" where the job cannot be done) and those that fit as well."""

    mode: str
    also: tuple[str, ...] = ()


def cell(job: Job, release: Release) -> Cell:
    """The wizard's answer for a job in a release, on eight GPUs."""
    try:
        choice = choose(Draft({"bridge": release.name, "gpus": 8, **job.answers}))
    except Refused:
        return Cell("")
    also = tuple(one.mode.name for one in choice.others if one.fits and not one.doubts and one.mode is not NONE)
    return Cell(choice.mode.name, also)


def picture() -> str:
    """The map."""
    width, height = _LEFT + _WIDE * len(RELEASES), _TOP + _HIGH * len(JOBS) + 8
    parts = [
        f'<text class="head" x="{_LEFT + _WIDE * number + 8}" y="20">{release.name}</text>'
        for number, release in enumerate(RELEASES)
    ]
    spoken = []
    for row, job in enumerate(JOBS):
        top = _TOP + _HIGH * row
        parts += [
            f'<line x1="0" x2="{width}" y1="{top}" y2="{top}"/>',
            f'<text class="head" x="0" y="{top + 24}">{escape(job.title)}</text>',
            f'<text class="small" x="0" y="{top + 42}">{escape(job.note)}</text>',
        ]
        cells = [cell(job, release) for release in RELEASES]
        start = 0
        while start < len(cells):
            end = start
            while end + 1 < len(cells) and cells[end + 1] == cells[start]:
                end += 1
            parts += _lane(cells[start], start, end, top)
            spoken.append(f"{job.title}, {RELEASES[start]} to {RELEASES[end]}: {_title(cells[start])}")
            start = end + 1
    return (
        f'<svg class="map" xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
        f"<title>Which packing mode when</title><desc>{escape('; '.join(spoken))}</desc>{''.join(parts)}</svg>"
    )


def _title(one: Cell) -> str:
    return MODES[one.mode].title if one.mode else "not offered"


def _lane(one: Cell, start: int, end: int, top: int) -> list[str]:
    """A run of releases with the same answer, as a box that leads to the mode's page."""
    left, width = _LEFT + _WIDE * start + 2, _WIDE * (end - start + 1) - _GAP
    box = f'<rect class="{one.mode or "nothing"}" x="{left}" y="{top + 6}" width="{width}" height="{_HIGH - 12}" rx="7"/>'
    if not one.mode:
        return [box, f'<text class="small" x="{left + 10}" y="{top + 33}">no recipe for it</text>']
    narrow = width < 150
    title = _title(one).replace("packing", "").strip() if narrow and one.mode != NONE.name else _title(one)
    high = 27 if one.also else 34
    lines = [f'<text class="on" x="{left + 10}" y="{top + high}">{escape(title)}</text>']
    if one.also:
        names = ", ".join(MODES[name].title.removesuffix(" packing").removeprefix("native ") for name in one.also)
        lines.append(f'<text class="on small" x="{left + 10}" y="{top + 43}">also {escape(names)}</text>')
    return [f'<a href="{one.mode}.html">{box}{"".join(lines)}</a>']
