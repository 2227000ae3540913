"""The review before writing: every value in effect with its reason, numbered, and what it costs where that is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from mbpack.facts import formulas
from mbpack.facts.modes import NONE, OFFLINE
from mbpack.wizard import memory
from mbpack.wizard.answers import CHAT, JSONL
from mbpack.wizard.draft import Draft, Refused
from mbpack.wizard.plan import Plan
from mbpack.wizard.questions import QUESTIONS, Question
from mbpack.wizard.screen import OWN, YES_NO, wrapped
from mbpack.wizard.seen import CHARACTERS, VALIDATION, lengths, look

#: Columns of the longest value behind which reasons still stand on the same line, and of the narrowest reason.
_VALUE, _REASON = 20, 24
#: Rows from which a share of padding is worth saying.
_ENOUGH_ROWS = 10


class Row(NamedTuple):
    """One value: the question that changes it, its value in words, why it has it, and what it was before the last change."""

    key: str
    label: str
    value: str
    why: str
    was: str = ""


class Cost(NamedTuple):
    """What the values cost, in words."""

    label: str
    words: str


def questions(draft: Draft) -> list[Question]:
    """The questions that matter for a draft, in order: the lines of the review, from number 1 on."""
    return [question for question in QUESTIONS if question.asked(draft)]


def rows(plan: Plan, origin: Callable[[str], str], before: Mapping[str, str] | None = None) -> list[Row]:
    """Every value in effect. ``origin`` says where an answer comes from; ``before``: the values shown last, by question."""
    draft = plan.draft
    found = []
    for question in questions(draft):
        value, why = _value(plan, question), origin(question.key) or _why(plan, question)
        was = (before or {}).get(question.key, value)
        found.append(Row(question.key, question.label, value, why, was if was != value else ""))
    return found


def _value(plan: Plan, question: Question) -> str:
    draft = plan.draft
    if question.key == "packing":
        return plan.job.mode.title if plan.job.mode is not NONE else "none: one sample a row"
    value = draft.get(question.key)
    if question.key == "data_path" and value is None:
        return OWN
    if question.key == "recipe":
        return draft.recipe.name
    if question.options is not None and not question.search and question.key not in ("bridge", "gpu"):
        return next((option.title for option in question.options(draft) if option.value == value), str(value))
    if isinstance(value, bool) or value is None:
        return YES_NO[value]
    return f"{value:,}" if isinstance(value, int) else str(value)


def _why(plan: Plan, question: Question) -> str:
    if question.key == "packing":
        return "recommended: the reasons are below" if plan.recommended else "; ".join(plan.choice.reasons)
    return plan.draft.default(question.key).why


def costs(plan: Plan) -> Iterator[Cost]:
    """Memory, padding and idle pipeline stages, where they are known."""
    draft = plan.draft
    try:
        needs = memory.line(draft)
    except Refused:
        needs = None
    if needs is not None:
        yield Cost("GPU memory", needs)
    padding = _padding(plan)
    if padding is not None:
        yield Cost("Padding", padding)
    if draft.pp > 1:
        count = formulas.num_microbatches(draft.get("gbs"), draft.get("mbs"), draft.dp.value).value
        yield Cost("Idle pipeline", f"{formulas.bubble_share(draft.pp, count, draft.get('vpp') or 1)}")


def _padding(plan: Plan) -> str | None:
    """Padding in packs and without packing, from the first rows of data that lie here; None where nothing is known."""
    draft = plan.draft
    if draft.get("data") not in (JSONL, CHAT) or not draft.given("data_path"):
        return None
    width = int(draft.get("seq_length"))
    found = [min(length, width) for length in lengths(draft.get("data_path"))]
    if len(found) < _ENOUGH_ROWS:
        return None
    mean, longer = sum(found) / len(found), sum(length > width for length in lengths(draft.get("data_path")))
    loose = f"without packing {1 - mean / width:.0%} of every row"
    base = f"estimated from the first {len(found):,} rows, {CHARACTERS} characters a token, about {mean:,.0f} tokens a row"
    cut = f", {longer:,} longer than a row" if longer else ""
    packed = _packed(found, width, draft.pack_mult.value) if plan.job.mode is OFFLINE else None
    if packed is None:
        return f"{loose} ({base}{cut})"
    return f"{packed:.1%} of the packs; {loose} ({base}{cut})"


def _packed(found: Sequence[int], width: int, multiple: int) -> float | None:
    """Share of packs that is padding, packed as upstream packs them; None without numpy or with hardly a pack to fill."""
    try:
        import numpy as np
    except ImportError:
        return None
    from mbpack.plan.packing import Shuffler, shuffled_first_fit

    rounded = [min(formulas.round_up(length, multiple), width) for length in found]
    if sum(rounded) < 2 * width:
        return None
    values, counts = np.unique(np.asarray(rounded, dtype=np.int64), return_counts=True)
    packs = shuffled_first_fit(values, counts, width, Shuffler(0))
    return float(1 - sum(found) / (packs.count * width))


def notes(plan: Plan, more: Sequence[str] = ()) -> Iterator[str]:
    """What the data lack, as far as they were seen; ``more``: what was to be said besides."""
    yield from more
    draft = plan.draft
    if draft.given("data_path") and look(draft.get("data_path")).no_validation:
        yield f"{draft.get('data_path')} holds no {VALIDATION}: nothing is evaluated, or the packing would stop"


def lines(found: Sequence[Row], spent: Sequence[Cost], width: int) -> list[str]:
    """The review as text: one numbered value a line, its reason behind it, or below it where there is no room."""
    label = max(len(row.label) for row in found) + 2
    value = max((len(row.value) for row in found if len(row.value) <= _VALUE), default=0) + 2
    column = 5 + label + value
    told = []
    for number, row in enumerate(found, 1):
        head = f"{number:>3}  {row.label:<{label}}"
        why = f"{row.why} (was {row.was})" if row.was and row.why else f"was {row.was}" if row.was else row.why
        if not why:
            told.append(f"{head}{row.value}")
        elif len(row.value) <= value - 2 and width - column >= _REASON:
            told += wrapped(why, width, f"{head}{row.value:<{value}}", " " * column)
        else:
            told += [f"{head}{row.value}", *wrapped(why, width, " " * (5 + min(label, max(2, width - 45))))]
    if spent:
        told += ["", "Costs"]
    for cost in spent:
        told += wrapped(cost.words, width, f"     {cost.label:<{label}}", " " * (5 + label))
    return told
