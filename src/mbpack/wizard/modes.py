"""Which packing mode fits a job, why, and why not the others.

What the data and the release allow is decided here; everything else is asked of the doctor: a mode is tried out, and
the first error of the resulting file, in the doctor's words, is the reason it does not fit.
"""

from __future__ import annotations

from dataclasses import dataclass

from mbpack.facts.classes import DatasetKind
from mbpack.facts.families import OK, REFUSED, family, support
from mbpack.facts.hard_blocks import DSV4_PACKED_RECIPE, QWEN3_VL, belongs
from mbpack.facts.modes import ENERGON, GLOBAL_BATCH, IN_BATCH, MODES, NONE, OFFLINE, Mode
from mbpack.facts.releases import NIGHTLY, R04, R07, RELEASES, Release
from mbpack.rules.base import Finding
from mbpack.wizard.answers import ATTN, AUTO, PRETRAIN
from mbpack.wizard.draft import Draft, Refused

#: From this length on a sample may fill a row by itself, tokens.
LONG = 16384
#: Warnings by which upstream keeps a family out of a mode: not chosen unless asked for.
OPT_OUTS = frozenset({"FAM103", "FAM104", "FAM105", "FAM101", "GDN101"})


@dataclass(frozen=True, slots=True)
class Assessment:
    """Whether a mode fits: ``obstacle`` is the one reason it does not, ``doubts`` what speaks against it all the same."""

    mode: Mode
    obstacle: str | None = None
    doubts: tuple[str, ...] = ()

    @property
    def fits(self) -> bool:
        return self.obstacle is None


@dataclass(frozen=True, slots=True)
class Choice:
    """The mode taken, the reasons for it, and how the others were judged."""

    mode: Mode
    reasons: tuple[str, ...]
    others: tuple[Assessment, ...]


def chosen_mode(draft: Draft) -> Mode:
    """The mode a draft ends up with."""
    return choose(draft).mode


def choose(draft: Draft) -> Choice:
    """Settle the packing mode: the one asked for, else the best that fits.

    Raises:
        Refused: the mode asked for does not fit, with the reason, or none fits.
    """
    _ = draft.recipe, draft.dataset_class, draft.dp  # refusals that have nothing to do with a mode
    if draft.given("ep") and draft.ep > 1 and not draft.moe:
        raise Refused(f"{draft.recipe.name} has no experts to spread over expert parallel {draft.ep}", "ep")
    wanted = draft.get("packing")
    if wanted != AUTO:
        mode = MODES[wanted]
        found = assess(draft, mode)
        if found.obstacle is not None:
            plain = mode is NONE or found.obstacle == assess(draft, NONE).obstacle  # nothing to do with packing
            raise Refused(found.obstacle if plain else f"{mode.title} does not fit: {found.obstacle}", "packing")
        return Choice(mode, (f"asked for ({mode.where})", *found.doubts), ())
    if draft.get("cuda_graphs") == ATTN and _preference(draft) != (NONE,):
        from mbpack.wizard.graphs import ATTENTION_REFUSED

        raise Refused(f"{ATTENTION_REFUSED}; or train unpacked (--packing none)", "cuda_graphs")
    judged: list[Assessment] = []
    doubtful: Assessment | None = None
    for mode in _preference(draft):
        found = assess(draft, mode)
        if found.fits and not found.doubts:
            rest = [assess_structure(draft, other) for other in MODES.values() if other not in (mode, NONE)]
            others = [one for one in judged if not one.fits or one.doubts]
            seen = {one.mode for one in others}
            others += [one for one in rest if one.mode not in seen]
            return Choice(mode, reasons(draft, mode), tuple(others))
        doubtful = doubtful or (found if found.fits else None)
        judged.append(found)
    if doubtful is not None:
        return Choice(doubtful.mode, doubtful.doubts, tuple(one for one in judged if one is not doubtful))
    last = judged[-1]
    raise Refused(str(last.obstacle), None)


def _preference(draft: Draft) -> tuple[Mode, ...]:
    """Modes in the order they are tried when none was asked for."""
    if draft.pretraining or draft.get("long_samples"):
        return (NONE,)
    if draft.kind is DatasetKind.ENERGON:
        return (ENERGON, IN_BATCH, NONE)
    if draft.kind is DatasetKind.GPT_SFT:
        return (OFFLINE, IN_BATCH, NONE)
    return (IN_BATCH, NONE)


def assess(draft: Draft, mode: Mode) -> Assessment:
    """Whether a mode fits a draft, by structure first, then by trying it out."""
    found = assess_structure(draft, mode)
    return _try_out(draft, found) if found.fits else found


def assess_structure(draft: Draft, mode: Mode) -> Assessment:
    """Whether release, data and model family allow a mode at all."""
    reason = _STRUCTURE[mode.name](draft)
    if reason is not None or draft.recipe.family is None or draft.recipe.name == DSV4_PACKED_RECIPE:
        return Assessment(mode, reason)
    found = support(draft.release, draft.recipe.family, mode.name)
    if found.verdict == OK:
        return Assessment(mode, None, _saves_nothing(draft, mode))
    text = f"{family(draft.recipe.family).title}: {found.reason}"
    if found.since is not None and found.since > draft.release and str(found.since) not in text:
        text += f" (works from {found.since} on)"
    return Assessment(mode, text) if found.verdict == REFUSED else Assessment(mode, None, (text,))


def _saves_nothing(draft: Draft, mode: Mode) -> tuple[str, ...]:
    """A step that joins rows with all their padding: nothing to choose the mode for."""
    if mode is IN_BATCH and belongs(QWEN3_VL, draft.recipe.module, draft.recipe.model_class):
        return ("qwen3_vl_step joins the rows with their padding: in-batch packing saves nothing there",)
    return ()


def _offline(draft: Draft) -> str | None:
    if draft.pretraining:
        return "pretraining data are cut to the sequence length already"
    if draft.kind is not DatasetKind.GPT_SFT:
        return f"it reads text fine-tuning data; this recipe's dataset is {draft.kind.value}"
    return None


def _in_batch(draft: Draft) -> str | None:
    if draft.pretraining:
        return "pretraining data are cut to the sequence length already"
    if draft.kind is DatasetKind.GPT_SFT and draft.release < R07:
        return "GPT-SFT in-batch packing starts with 0.7"
    if draft.kind is DatasetKind.ENERGON and draft.release < R04:
        return "the Energon provider cannot pack in the batch before 0.4"
    return None


def _energon(draft: Draft) -> str | None:
    if draft.release < R07:
        return "native Energon packing starts with 0.7"
    if draft.kind is not DatasetKind.ENERGON:
        return f"the data are no Energon WebDataset ({draft.get('data')})"
    return None


def _global_batch(draft: Draft) -> str | None:
    if draft.release < R07:
        return "global-batch packing starts with 0.7"
    if draft.kind is not DatasetKind.GPT_SFT:
        return f"it packs text fine-tuning data; this recipe's dataset is {draft.kind.value}"
    return None


def _none(draft: Draft) -> str | None:
    return None


_STRUCTURE = {
    OFFLINE.name: _offline,
    IN_BATCH.name: _in_batch,
    ENERGON.name: _energon,
    GLOBAL_BATCH.name: _global_batch,
    NONE.name: _none,
}


def _try_out(draft: Draft, found: Assessment) -> Assessment:
    """The assessment by structure, refined by the doctor's opinion of the file the mode would give."""
    from mbpack.wizard.compose import Job
    from mbpack.wizard.judge import errors, judge_settings, warnings

    mode = found.mode
    try:
        result = judge_settings(Job(settled(draft, mode), mode))
    except Refused as refused:
        return Assessment(mode, refused.reason)
    wrong = errors(result)
    if wrong:
        return Assessment(mode, obstacle_of(draft.release, wrong[0]))
    doubts = tuple(one.message for one in warnings(result) if one.rule.code in OPT_OUTS)
    return Assessment(mode, None, found.doubts or doubts)


def settled(draft: Draft, mode: Mode) -> Draft:
    """The draft with its mode and the micro batch size that goes with it."""
    from mbpack.wizard.defaults import mbs_for

    more = {"packing": mode.name}
    if not draft.given("mbs"):
        more["mbs"] = mbs_for(draft, mode).value
    return draft.having(**more)


def obstacle_of(release: Release, finding: Finding) -> str:
    """A doctor's error as the reason a mode does not fit, with the release from which it works where there is one."""
    from mbpack.wizard.judge import words_of

    return with_release(release, finding, words_of(finding))


def with_release(release: Release, finding: Finding, text: str) -> str:
    """A reason with the release from which it no longer holds, unless the doctor's words name one already."""
    later = works_from(release, finding)
    return f"{text} (works from {later} on)" if later is not None and "Megatron-Bridge" not in text else text


def works_from(release: Release, finding: Finding) -> Release | None:
    """The first release that a rule no longer concerns, None where it concerns every later one."""
    last = finding.rule.releases[1]
    if last >= NIGHTLY or last < release:
        return None
    return next((other for other in RELEASES if other > last), None)


def reasons(draft: Draft, mode: Mode) -> tuple[str, ...]:
    """Why a mode was chosen."""
    if mode is NONE:
        return _reasons_for_none(draft)
    found = []
    if mode is OFFLINE:
        found.append("text samples of varying length, packed once before training")
    elif mode is IN_BATCH:
        found.append("samples of varying length, joined as they are loaded; nothing is prepared before")
    elif mode is ENERGON:
        found.append("an Energon WebDataset: its loader packs to the sequence length")
    else:
        found.append("whole steps are packed and balanced over the data parallel ranks")
    name = family(draft.recipe.family).title if draft.recipe.family else "this model"
    found.append(f"{name} supports it in {draft.release}")
    if draft.cp > 1:
        found.append(f"samples are padded to a multiple of {draft.mult}, so context parallelism splits them evenly")
    return tuple(found)


def _reasons_for_none(draft: Draft) -> tuple[str, ...]:
    length = draft.get("seq_length")
    if draft.get("workload") == PRETRAIN:
        found = [f"pretraining rows are full: {length:,} tokens each"]
    elif draft.get("long_samples"):
        found = [f"most samples fill {length:,} tokens by themselves: packing would find nothing to join"]
    else:
        found = ["no packing mode fits (see below): every sample is one row"]
    if draft.cp > 1:
        found.append(f"context parallel {draft.cp} splits the row; its length is a multiple of 2*CP = {2 * draft.cp}")
    elif length >= LONG:
        found.append("context parallelism would cut activation memory at this length")
    return tuple(found)
