"""What the wizard says, as lines of plain text no wider than the terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping

from mbpack.facts import formulas
from mbpack.facts.families import family
from mbpack.facts.modes import NONE
from mbpack.rules.documentation import page_of
from mbpack.wizard import catalog
from mbpack.wizard.draft import Default, Draft, Refused
from mbpack.wizard.next_steps import steps
from mbpack.wizard.plan import Plan, derived, equal_slots, notes
from mbpack.wizard.questions import Option, Question

GREETING = (
    "mbpack writes a packing configuration for NVIDIA Megatron-Bridge. b goes back, ? explains, Ctrl-C leaves without writing."
)
_SEARCH_KEYS = "Type words (qwen3 8b), a Hugging Face id (Qwen/Qwen3-8B) or a family; Tab lists them, ? explains, b goes back."
OWN = "the recipe's own"
YES_NO = {True: "yes", False: "no", None: "none"}


def shown(value: object) -> str:
    """An answer as a person would write it."""
    return YES_NO[value] if isinstance(value, bool) or value is None else str(value)


def answered(question: Question, value: object) -> str:
    """An answer to a question as a person would write it; no path of the data is the recipe's own."""
    return OWN if value is None and question.key == "data_path" else shown(value)


def wrapped(text: str, width: int, first: str = "", rest: str | None = None) -> list[str]:
    """Text folded to a width; words longer than a line stay whole."""
    return textwrap.wrap(
        text,
        max(20, width),
        initial_indent=first,
        subsequent_indent=first if rest is None else rest,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [first.rstrip()]


def before(question: Question, proposal: Default, draft: Draft, options: list[Option], width: int) -> list[str]:
    """The lines above a prompt: what has formed so far, and what Enter takes and why."""
    lines = list(forming(question, draft, width))
    if question.search and not draft.given("family"):
        lines += wrapped(_SEARCH_KEYS, width, "  ")
    if proposal.known:
        titles = {option.value: option.title for option in options}
        why = f": {proposal.why}" if proposal.why else ""
        lines += wrapped(f"Enter takes {titles.get(proposal.value) or answered(question, proposal.value)}{why}", width, "  ")
    return lines


def forming(question: Question, draft: Draft, width: int) -> Iterator[str]:
    """Values that follow from the answers so far, where they help with this question."""
    try:
        if question.key == "recipe" and draft.given("family"):
            yield from wrapped(f"-> family {_family_title(draft)}", width, "  ", "     ")
        if question.key in ("vpp", "cp", "sp", "seq_length", "ep"):
            yield from wrapped(f"-> data parallel {draft.dp}", width, "  ", "     ")
        if question.key in ("tp", "pp", "cp", "ep", "sp", "seq_length"):
            from mbpack.wizard.memory import line

            needs = line(draft)
            if needs is not None:
                yield from wrapped(f"-> {needs}", width, "  ", "     ")
        if question.key == "seq_length":
            from mbpack.wizard.defaults import length_unit

            yield from wrapped(f"-> must be a multiple of {length_unit(draft)}", width, "  ", "     ")
        if question.key == "gbs":
            from mbpack.wizard.defaults import batch_unit

            unit, length = batch_unit(draft), draft.get("seq_length")
            slots = formulas.token_slots(length, draft.default("gbs").value)
            yield from wrapped(f"-> must be a multiple of MBS x DP = {unit}", width, "  ", "     ")
            same = equal_slots(slots.value, length, unit)
            yield from wrapped(f"-> {slots.value:,} token slots a step = {slots.because}{same}", width, "  ", "     ")
    except Refused:
        return


def _family_title(draft: Draft) -> str:
    text = draft.get("family")
    name = catalog.find_family(draft.release, text)
    return family(name).title if name is not None else text


def help_text(question: Question, draft: Draft, width: int) -> list[str]:
    """What the help key shows: why it is asked, and what `mbpack explain` has about it, its other rules by name."""
    from mbpack.report.explain import page
    from mbpack.report.style import Style
    from mbpack.rules.catalogue import BY_NAME

    style = Style(width=width - 2)
    topics = question.topics(draft)
    in_full = topics or question.rules[:1]
    lines = wrapped(question.why, width, "  ")
    for name in in_full:
        lines += ["", *(f"  {line}".rstrip() for line in _head(page(name, style)).splitlines())]
    named = [code for code in question.rules if code not in in_full]
    if named:
        lines.append("")
    for code in named:
        lines += wrapped(f"{code}  {page_of(BY_NAME[code]).title}", width, "  ", "          ")
    names = [*topics, *question.rules]
    if names:
        lines += ["", *wrapped(f"`mbpack explain NAME` says more: {', '.join(names)}", width, "  ", "  ")]
    return [*lines, ""]


def _head(text: str) -> str:
    """A page without what follows the matter itself: the rules that mention it, upstream's code and tests."""
    for heading in ("Rules", "Upstream"):
        text = text.partition(f"\n\n{heading}")[0]
    return text.rstrip()


def refused(reason: str, width: int) -> list[str]:
    """Why an answer cannot be taken."""
    return wrapped(reason, width, "  ! ", "    ")


def recommendation(plan: Plan, width: int) -> list[str]:
    """The mode, the reasons for it, and why not the others."""
    lines = [f"{'Recommended' if plan.recommended else 'Packing'}: {_title(plan)}"]
    for reason in plan.choice.reasons:
        lines += wrapped(reason, width, "  + ", "    ")
    for other in plan.choice.others:
        reason = other.obstacle or "; ".join(other.doubts)
        if reason:
            lines += wrapped(f"{other.mode.title}: {reason}", width, "  - ", "    ")
    return lines


def _title(plan: Plan) -> str:
    mode = plan.job.mode
    return mode.title if mode is not NONE else "no packing, one sample a row"


def derivation(plan: Plan, width: int, before: Mapping[str, str] | None = None, more: Iterable[str] = ()) -> list[str]:
    """Derived values in a column, each with its arithmetic, then what else is worth knowing. ``before``: values shown last."""
    lines = ["Derived"]
    for name, value, why in derived(plan):
        if (before or {}).get(name, value) != value:
            why = f"{why} (was {(before or {})[name]})" if why else f"was {(before or {})[name]}"
        head = f"  {name:<24} {value}"
        lines += wrapped(f"{value} = {why}" if why else value, width, f"  {name:<24} ", " " * 27) if why else [head]
    for note in (*more, *notes(plan)):
        lines += wrapped(note, width, "  * ", "    ")
    return lines


def next_commands(plan: Plan, path: str, submitted: bool = False) -> list[str]:
    """Commands to run next, also for a Slurm script that was written. They are never folded: they are there to be copied."""
    lines = ["Next"]
    for number, step in enumerate(steps(plan, path, submitted), 1):
        lines.append(f"  {number}  {step.what}:")
        lines += [f"     {line}" if "<<'PY'" not in step.shell else line for line in step.shell.splitlines()]
    return lines


def joined(blocks: Iterable[list[str]]) -> str:
    """Blocks with an empty line between them."""
    return "\n\n".join("\n".join(block) for block in blocks)
