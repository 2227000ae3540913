"""A walk through the questions, forward and back. No input, no output: an adapter shows what it says."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from mbpack.facts import formulas
from mbpack.wizard import catalog
from mbpack.wizard.answers import AnswerError, coerce
from mbpack.wizard.draft import Default, Draft, Refused
from mbpack.wizard.plan import make_plan
from mbpack.wizard.questions import QUESTIONS, Option, Question


class Session:
    """Questions in order, those that flags or an answers file settled left out.

    Going back keeps every answer: it is proposed again on the way forward.
    """

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.given = dict(given)
        self._kept: dict[str, Any] = {}
        self._history: list[str] = []

    @property
    def draft(self) -> Draft:
        """The answers so far."""
        return Draft({**self.given, **{key: self._kept[key] for key in self._history}})

    @property
    def question(self) -> Question | None:
        """The question to ask now, None when all are answered.

        Raises:
            Refused: the answers contradict each other in a way no later answer mends.
        """
        draft = self.draft
        for question in QUESTIONS:
            if question.key not in self.given and question.key not in self._history and question.asked(draft):
                return question
        return None

    @property
    def first(self) -> bool:
        """Whether there is nothing to go back to."""
        return not self._history

    def proposal(self, question: Question) -> Default:
        """What Enter takes: the answer given before, else the default."""
        if question.key in self._kept:
            return Default(self._kept[question.key], "your answer before")
        return self.draft.default(question.key)

    def options(self, question: Question) -> list[Option]:
        """The choices of a question, none for a free one."""
        return question.options(self.draft) if question.options is not None else []

    def answer(self, question: Question, value: Any) -> str | None:
        """Take an answer; returns why it cannot be taken, in the doctor's words where it has any."""
        try:
            value = coerce(question.key, value)
        except AnswerError as error:
            return str(error).partition(": ")[2]
        family = self.family_of(question, value)
        if family is not None:
            return self._narrow(family)
        problem = self._not_offered(question, value) or self._fault(question, value)
        if problem is None:
            self._take(question.key, value)
        return problem

    def family_of(self, question: Question, text: str) -> str | None:
        """The model family that a text given for the recipe means; the recipe is asked again among its recipes."""
        from mbpack.facts import recipes

        release = self.draft.release
        if question.key != "recipe" or self.draft.given("family") or recipes.find(release.name, text) is not None:
            return None
        return catalog.find_family(release, text)

    def is_recipe(self, text: str) -> bool:
        """Whether a text is the name of a recipe, under whichever of its names."""
        from mbpack.facts import recipes

        return recipes.find(self.draft.release.name, text) is not None

    def meant(self, text: str) -> list[str]:
        """Recipes that a Hugging Face id or words may mean, for the work and modality answered so far."""
        from mbpack.wizard import naming

        draft = self.draft
        modality = draft.get("modality") if draft.given("modality") else None
        return [recipe.name for recipe in naming.meant(draft.release, text, draft.get("workload"), modality)]

    def families(self) -> list[str]:
        """Families that have a recipe for the work and modality answered so far."""
        draft = self.draft
        modality = draft.get("modality") if draft.given("modality") else None
        found = catalog.matching(draft.release, draft.get("workload"), None, modality)
        return sorted({recipe.family for recipe in found if recipe.family})

    def _narrow(self, family: str) -> str | None:
        """Take a family if it has a recipe for this work; returns why not."""
        from mbpack.wizard.recipe_choice import no_recipe

        draft = self.draft.having(family=family)
        if not draft.default("recipe").known:
            return no_recipe(draft)
        self._take("family", family)
        return None

    def _take(self, key: str, value: Any) -> None:
        self._kept[key] = value
        self._history.append(key)

    def back(self) -> bool:
        """Return to the question before; False at the first one."""
        if not self._history:
            return False
        self._history.pop()
        return True

    def _not_offered(self, question: Question, value: Any) -> str | None:
        if question.options is None or question.search:
            return self._unknown_recipe(value) if question.search else None
        options = {option.value: option for option in self.options(question)}
        if value not in options:
            return f"{value} is not among {', '.join(options)}"
        return options[value].refused

    def _unknown_recipe(self, value: str) -> str | None:
        from mbpack.facts import recipes
        from mbpack.wizard.recipe_choice import unknown_recipe

        if recipes.find(self.draft.release.name, value) is not None:
            return None
        return unknown_recipe(self.draft.release, value)

    def _fault(self, question: Question, value: Any) -> str | None:
        """What the doctor refuses because of this answer: not what it refuses with the default as well."""
        draft = self.draft
        reason = fault(draft.having(**{question.key: value}))
        if reason is None:
            return None
        usual = draft.default(question.key)
        if usual.known and usual.value != value and fault(draft.having(**{question.key: usual.value})) == reason:
            return None
        return reason + self._nearest(question, value, draft)

    def _nearest(self, question: Question, value: Any, draft: Draft) -> str:
        """The nearest lengths that divide, where a length does not."""
        if question.key != "seq_length":
            return ""
        from mbpack.wizard.defaults import length_unit

        unit = length_unit(draft)
        if unit.value <= 1 or value % unit.value == 0:
            return ""
        near = " or ".join(f"{number:,}" for number in formulas.nearest_multiples(value, unit.value))
        return f"; must be a multiple of {unit}: {near}"


_ALWAYS = ("data", "gpus", "tp", "pp", "cp", "seq_length", "cuda_graphs", "packing", "gbs", "launcher")


def fault(draft: Draft) -> str | None:
    """Why a draft, with defaults for what is open, gives no configuration; None when it gives one or no recipe is named."""
    try:
        if draft.get("recipe") is None:
            _ = draft.version
            return None
        make_plan(draft)
    except Refused as refused:
        return refused.reason
    return None


def missing(given: Mapping[str, Any]) -> list[str]:
    """Questions that are open and matter, in order: what a run without a terminal must be told. A family settles the recipe.

    Raises:
        Refused: the family has no recipe for this work, or the answers contradict each other.
    """
    session = Session(given)
    found: list[str] = []
    while True:
        question = session.question
        if question is None:
            return found
        proposal = session.proposal(question)
        if question.optional:
            pass
        elif question.key != "recipe" or "family" not in given:
            found.append(question.key)
        elif not proposal.known:
            _ = session.draft.recipe  # says why the family has none
        if not proposal.known:  # later questions depend on it; these are asked in any case
            return found + [key for key in _ALWAYS if key not in session.given]
        session.given[question.key] = proposal.value


def with_defaults(given: Mapping[str, Any]) -> dict[str, Any]:
    """Answers completed with the default of every question that matters.

    Raises:
        Refused: a question without a default is open, or the answers contradict each other.
    """
    session = Session(given)
    while True:
        question = session.question
        if question is None:
            return dict(session.given)
        proposal = session.proposal(question)
        if not proposal.known:
            _ = session.draft.recipe  # says what is missing
            raise Refused(f"{question.prompt}: no answer and no default", question.key)
        session.given[question.key] = proposal.value


def close_options(options: list[Option], text: str) -> list[str]:
    """Options whose name holds every word of a text, else the most similar ones."""
    parts = text.lower().split()
    found = [option.value for option in options if all(part in option.value.lower() for part in parts)]
    return found or difflib.get_close_matches(text, [option.value for option in options], n=5, cutoff=0.4)
