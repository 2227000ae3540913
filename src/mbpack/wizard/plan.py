"""From answers to the finished override: mode, settings, what was derived, and what the doctor still says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mbpack.engine.result import Result
from mbpack.facts import formulas
from mbpack.facts.buffers import buffer_bytes
from mbpack.facts.keys import SPECS
from mbpack.facts.knowledge import reach
from mbpack.facts.modes import ENERGON, GLOBAL_BATCH, IN_BATCH, NONE, OFFLINE
from mbpack.facts.releases import DEFAULT, R06, version_of
from mbpack.rules.base import Finding
from mbpack.wizard import judge
from mbpack.wizard.answers import AUTO, CHAT, HF
from mbpack.wizard.compose import Job, compose, fixed_width_reason
from mbpack.wizard.draft import Draft, Refused
from mbpack.wizard.modes import Choice, choose, settled, with_release
from mbpack.wizard.yaml_text import Line, render

#: Warnings that no answer avoids, and why the file is right all the same.
ACCEPTED = {
    "CFG118": "the recipe's dataset class cannot read these data; every field the new class needs is set here",
    "MTP101": "the recipe trains multi-token prediction; only its auxiliary loss sees the pack boundaries",
}
#: Warnings of a likely crash that another answer avoids: refused like errors.
AVOIDABLE = frozenset({"TOP104"})
#: Pack lengths whose batches with equal token slots are offered, tokens.
LENGTHS = (2048, 4096, 8192, 16384, 32768)


@dataclass(frozen=True, slots=True)
class Accepted:
    """A warning that the file carries as an ignore directive."""

    finding: Finding
    reason: str

    @property
    def directive(self) -> str:
        return f"# mbpack: ignore[{self.finding.rule.code}] {self.reason}"


@dataclass(frozen=True, slots=True)
class Plan:
    """What will be written, and everything worth telling about it. ``recommended``: nobody asked for the mode."""

    job: Job
    recommended: bool
    choice: Choice
    lines: tuple[Line, ...]
    accepted: tuple[Accepted, ...]
    text: str
    result: Result

    @property
    def draft(self) -> Draft:
        return self.job.draft


def make_plan(draft: Draft) -> Plan:
    """The finished override for a draft.

    Raises:
        Refused: with the one reason why these answers give no configuration that trains.
    """
    choice = choose(draft)
    job = Job(settled(draft, choice.mode), choice.mode)
    lines = judge.in_release(job, compose(job))
    body = render(lines)
    result = judge.judge_settings(job, lines)
    wrong = judge.errors(result)
    if wrong:
        raise Refused(with_release(draft.release, wrong[0], judge.words_of(wrong[0])))
    doubts = _distinct(judge.warnings(result))
    avoidable = next((finding for finding in doubts if finding.rule.code in AVOIDABLE), None)
    if avoidable is not None:
        raise Refused(judge.words_of(avoidable))
    accepted = tuple(_accepted(finding) for finding in doubts)
    text = "\n".join([*header(job, accepted), body])
    final = judge.judge(text)
    left = [*judge.errors(final), *judge.warnings(final)]
    if left:
        raise Refused(judge.words_of(left[0]))
    if final.verdict == "unknown":
        raise Refused(_untold(final))
    return Plan(job, draft.get("packing") == AUTO, choice, tuple(lines), accepted, text, final)


def _untold(result: Result) -> str:
    """Why nobody can say whether the start-up accepts a file: a value of the recipe that is not on record."""
    entry = next((entry for entry in result.not_checked if entry.rule.rejects), None)
    if entry is None:
        return "whether the start-up accepts this cannot be told from here"
    name = entry.key or "a value of the recipe"
    return f"whether the start-up accepts this cannot be told: {name} is not known [{entry.rule.code}]"


def _distinct(findings: list[Finding]) -> list[Finding]:
    seen: dict[str, Finding] = {}
    for finding in findings:
        seen.setdefault(finding.rule.code, finding)
    return list(seen.values())


def _accepted(finding: Finding) -> Accepted:
    reason = ACCEPTED.get(finding.rule.code) or " ".join(finding.message.split())
    return Accepted(finding, reason)


def header(job: Job, accepted: tuple[Accepted, ...] = ()) -> list[str]:
    """The comment lines at the top: what the doctor needs to know, and what the file is."""
    draft = job.draft
    words = {"sft": "full fine-tuning", "lora": "LoRA", "dora": "DoRA", "pretrain": "pretraining"}
    what = f"{words[draft.get('workload')]}, {draft.get('data')} data, {job.mode.title}"
    return [
        judge.directive(job),
        *(one.directive for one in accepted),
        f"# {draft.recipe.name}: {what}. Written by `mbpack init`; derived values say why.",
    ]


# ---------------------------------------------------------------------- what is told


def derived(plan: Plan) -> Iterator[tuple[str, str, str]]:
    """Derived values as (name, value, why), in the order they are shown."""
    job, draft = plan.job, plan.draft
    values = plan.result.derived
    length, batch = draft.get("seq_length"), draft.get("gbs")
    yield "data parallel", str(draft.dp.value), draft.dp.because
    if job.mode is OFFLINE:
        yield "pad_seq_to_mult", str(draft.pack_mult.value), draft.pack_mult.because
        yield "packed_sequence_size", f"{length:,}", "sequence length (model, dataset and pack must agree)"
        why = fixed_width_reason(draft)
        if why is not None:
            yield "pad_to_max_length", "true", why
    elif "collate_alignment" in values:
        found = values["collate_alignment"]
        yield "row alignment", str(found.value), f"{found.because}; the start-up writes it, the file does not"
    if job.mode is GLOBAL_BATCH and "pack_capacity" in values:
        yield "pack capacity", f"{values['pack_capacity'].value:,}", values["pack_capacity"].because
    yield "micro_batch_size", str(draft.get("mbs")), job.mode.micro_batch.partition(": ")[2] or "rows a microbatch"
    yield from _batch(plan, length, batch)
    if (draft.cp > 1 and not draft.pretraining) or job.mode in (ENERGON, GLOBAL_BATCH):
        yield "calculate_per_token_loss", "true", "and average_in_collective false: this training needs both"
    if job.mode is ENERGON:
        yield from _buffer(draft, length)


def _batch(plan: Plan, length: int, batch: int) -> Iterator[tuple[str, str, str]]:
    draft = plan.draft
    slots = formulas.token_slots(length, batch)
    unit = formulas.product((draft.get("mbs"), draft.dp.value))
    yield "token slots a step", f"{slots.value:,}", slots.because + equal_slots(slots.value, length, unit)
    count = formulas.num_microbatches(batch, draft.get("mbs"), draft.dp.value)
    idle = ""
    if draft.pp > 1:
        idle = f"; pipeline idle {formulas.bubble_share(draft.pp, count.value, draft.get('vpp') or 1)}"
    yield "microbatches", str(count.value), count.because + idle


def equal_slots(slots: int, length: int, unit: int) -> str:
    """Other lengths and batches with the same token slots a step, as words behind the slots; "" where there are none."""
    same = formulas.equal_slot_alternatives(slots, [one for one in LENGTHS if one != length], unit)
    return "; same slots: " + ", ".join(f"{width} x {count}" for width, count in same) if same else ""


def _buffer(draft: Draft, length: int) -> Iterator[tuple[str, str, str]]:
    workers = draft.recipe_count("dataset.num_workers", 2)
    ranks = min(draft.dp.value, 8)
    held = buffer_bytes(draft.get("buffer"), max(1, length // 8), 1000, 14, workers, ranks)
    yield "packing_buffer_size", str(draft.get("buffer")), "samples; measure the fill with `mbpack plan`"
    yield "buffer memory", f"{held.value / 2**30:.1f} GiB a node", held.because


def notes(plan: Plan) -> Iterator[str]:
    """Things to know that change nothing in the file."""
    job, draft = plan.job, plan.draft
    length = draft.get("seq_length")
    if draft.release > DEFAULT:
        yield f"mbpack {reach(version_of(draft.release))}, from its sources; the newest whose package it has run is {DEFAULT}"
    if job.mode is OFFLINE and draft.get("data") == CHAT:
        if draft.release < R06:
            yield f"chat rows longer than {length:,} tokens stop the packing with an index error: filter them before"
        elif draft.pack_mult.value > 1:
            yield f"chat rows longer than {length:,} tokens are cut (multiple {draft.pack_mult.value}); `mbpack plan` counts them"
        else:
            yield f"chat rows longer than {length:,} tokens are dropped (multiple 1); `mbpack plan` counts them"
    if job.mode is IN_BATCH:
        most = formulas.token_slots(length, draft.get("mbs"))
        yield f"one row may hold up to {most.value:,} tokens = {most.because}: plan memory for that"
    if job.mode is NONE and draft.get("data") == HF and draft.recipe_value(SPECS) is not None:
        yield "the recipe packs; this file switches that off"
    for one in plan.accepted:
        yield f"{one.finding.rule.code} stays: {one.finding.message} (carried in the file as an ignore directive)"
