"""The conversation at a terminal: the few open questions, then the review, in which any line is changed by its number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mbpack.wizard import catalog, prompt, screen
from mbpack.wizard.answers import KINDS, YES_NO
from mbpack.wizard.draft import Default, Refused
from mbpack.wizard.plan import Plan, make_plan
from mbpack.wizard.questions import BY_KEY, Option, Question
from mbpack.wizard.session import Session, close_options

#: Nothing was answered: help, or a reason, was shown.
_NOTHING = object()


def converse(session: Session, keep: Callable[[], object]) -> Plan:
    """Ask what is open until the answers make a plan. ``keep`` is called after every answer."""
    while True:
        question = session.question
        if question is not None:
            if ask(session, question):
                keep()
            continue
        try:
            session.begin_review()
            return make_plan(session.draft)
        except Refused as refused:
            prompt.say(screen.refused(refused.reason, prompt.width()))
            wanted = BY_KEY.get(refused.question or "")
            if wanted is not None and wanted.key not in session.answers:
                change(session, wanted)
            elif not session.back():
                raise


def ask(session: Session, question: Question) -> bool:
    """Ask one question once; an unusable answer is explained and the question stays open. Whether an answer was taken."""
    width = prompt.width()
    reply = _replied(session, question)
    if reply is prompt.BACK:
        if not session.back():
            prompt.say(screen.refused("this is the first question", width))
        return False
    if reply is _NOTHING:
        return False
    problem = session.answer(question, reply)
    if problem is not None:
        prompt.say(screen.refused(problem, width))
    return problem is None


def change(session: Session, question: Question) -> bool:
    """Ask for another answer to a line of the review, until it can be taken or the user goes back. Whether it was taken."""
    while True:
        reply = _replied(session, question)
        if reply is prompt.BACK:
            return False
        if reply is _NOTHING:
            continue
        problem = session.change(question, reply)
        if problem is None:
            return True
        prompt.say(screen.refused(problem, prompt.width()))


def _replied(session: Session, question: Question) -> Any:
    """What was typed or chosen, ``BACK``, or ``_NOTHING`` where only help or a reason was shown."""
    width = prompt.width()
    proposal = session.proposal(question)
    options = session.options(question)
    prompt.say(screen.before(question, proposal, session.draft, options, width))
    listed = question.options is not None and not (question.search and not session.draft.given("family"))
    names = [*session.families(), *(option.value for option in options)] if question.search and not listed else []
    reply = _prompted(question, proposal, options, names)
    if reply is prompt.HELP:
        prompt.say(screen.help_text(question, session.draft, width))
        for option in options:
            if option.refused:
                prompt.say(screen.wrapped(f"{option.title}: {option.refused}", width, "  - ", "    "))
        return _NOTHING
    if reply is prompt.BACK:
        return reply
    if reply is prompt.TAKE_DEFAULT:
        if not proposal.known:
            prompt.say(screen.refused("there is no default: type a name, parts of one, or a model family", width))
            return _NOTHING
        reply = proposal.value
    answer = reply if listed else _completed(session, question, options, reply)
    if answer is prompt.BACK:
        return _NOTHING  # to the same question
    if answer != reply:
        prompt.say([f"  {answer}"])
    return answer


def _prompted(question: Question, proposal: Default, options: list[Option], names: list[str]) -> Any:
    """The answer: found among ``names`` where there are any, else chosen from the options, else typed."""
    default = screen.answered(question, proposal.value) if proposal.known else ""
    if names:
        return prompt.ask_search(question.prompt, default, names)
    if question.options is not None:
        return prompt.ask_choice(question.prompt, options, proposal.value)
    if KINDS[question.key].kind == YES_NO:
        return prompt.ask_yes_no(question.prompt, bool(proposal.value))
    return prompt.ask_text(question.prompt, default)


def _completed(session: Session, question: Question, options: list[Option], reply: Any) -> Any:
    """A search text that only one option answers to is that option, of several one is chosen; a model family stays."""
    if not question.search or any(option.value == reply for option in options):
        return reply
    if session.is_recipe(str(reply)):
        return reply  # under another name
    family = session.family_of(question, reply)
    if family is not None and not session.reviewing:
        return reply
    draft = session.draft
    found = [one.name for one in catalog.matching(draft.release, draft.get("workload"), family)] if family else []
    found = found or session.meant(str(reply)) or close_options(options, str(reply))
    if len(found) < 2:
        return found[0] if found else reply
    prompt.say(screen.refused(f"{len(found)} recipes match: choose one, or b to type another name", prompt.width()))
    listed = [option for option in options if option.value in found] or [Option(name, name) for name in found]
    chosen = prompt.ask_choice(question.prompt, listed, listed[0].value)
    return reply if chosen is prompt.HELP else chosen
