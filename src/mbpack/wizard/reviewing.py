"""The review on the screen: shown, changed line by line, until it is written or left."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from mbpack.wizard import asking, leaving, prompt, review, screen
from mbpack.wizard.output import existing, preview
from mbpack.wizard.plan import Plan, derived
from mbpack.wizard.questions import BY_KEY
from mbpack.wizard.review import Row
from mbpack.wizard.session import Session


def shown(plan: Plan, found: list[Row], width: int, before: Mapping[str, str] | None = None, more: Sequence[str] = ()) -> str:
    """The whole review: values, costs, the packing mode with its reasons, what was derived, notes."""
    blocks = [
        review.lines(found, list(review.costs(plan)), width),
        screen.recommendation(plan, width),
        screen.derivation(plan, width, before, review.notes(plan, more)),
    ]
    return screen.joined(blocks)


def settle(
    session: Session,
    plan: Plan,
    path: str,
    text_of: Callable[[Plan], tuple[str, Sequence[str]]],
    keep: Callable[[], object],
) -> tuple[Plan, str]:
    """Show the review until somebody decides; the plan then, and whether it is written, left, or asked on.

    Raises:
        KeyboardInterrupt, EOFError: Ctrl-C, Ctrl-D.
    """
    before: dict[str, str] | None = None
    earlier: dict[str, str] | None = None
    old = existing(path) if path != "-" else None
    text, more = text_of(plan)
    if old is not None and old != text:
        prompt.say([f"{path} (changes)", *preview(path, old, text), ""])
    fresh = True
    while True:
        found = review.rows(plan, session.origin, before)
        if fresh:
            new = "new" if old is None else "already exactly this" if old == text else "changes"
            prompt.say([f"Review of {path} ({new})", shown(plan, found, prompt.width(), earlier, more), ""])
        wish = leaving.confirm(path, old is not None, session.first, len(found), old == text)
        if wish.what in (leaving.WRITE, leaving.LEAVE, leaving.AGAIN):
            return plan, wish.what
        fresh = wish.what == leaving.CHANGE
        if wish.what == leaving.FILE:
            prompt.say([f"{path} ({'new' if old is None else 'changes'})", *preview(path, old, text), ""])
            continue
        question = BY_KEY[found[wish.line - 1].key]
        if wish.what == leaving.EXPLAIN:
            prompt.say(screen.help_text(question, session.draft, prompt.width()))
            continue
        values, others = {row.key: row.value for row in found}, {name: value for name, value, _ in derived(plan)}
        if wish.value is None:
            taken = asking.change(session, question)
        else:
            problem = session.change(question, wish.value)
            taken = problem is None
            if problem is not None:
                prompt.say(screen.refused(problem, prompt.width()))
                fresh = False
        if taken:
            before, earlier = values, others
            plan = asking.converse(session, keep)
            text, more = text_of(plan)
            keep()
