"""A walk through the questions, forward and back. No input, no output: an adapter shows what it says."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from mbpack.facts import formulas
from mbpack.wizard import catalog
from mbpack.wizard.answers import AnswerError, coerce
from mbpack.wizard.draft import Default, Draft, Refused
from mbpack.wizard.questions import BY_KEY, QUESTIONS, Option, Question
from mbpack.wizard.settling import fault, settled

YOURS, BEFORE = "your answer", "your answer before"


class Session:
    """Questions in order, those that flags or an answers file settled left out; then changes of single answers.

    Going back keeps every answer: it is proposed again on the way forward. ``offered`` are answers of an earlier session,
    proposed in the same way. ``origins`` says where each of the ``given`` ones comes from.
    """

    def __init__(
        self, given: Mapping[str, Any], offered: Mapping[str, Any] | None = None, origins: Mapping[str, str] | None = None
    ) -> None:
        self.given = dict(given)
        self._offered = dict(offered or {})
        self._kept: dict[str, Any] = dict(self._offered)
        self._history: list[str] = []
        self._changed: dict[str, Any] = {}
        self._gone: set[str] = set()
        self._origins = dict(origins or {})
        self.reviewing = False

    @property
    def draft(self) -> Draft:
        """The answers so far."""
        return Draft(self.answers)

    @property
    def answers(self) -> dict[str, Any]:
        """What was answered, by flags, questions and changes."""
        asked = {key: self._kept[key] for key in self._history}
        return {key: value for key, value in {**self.given, **asked, **self._changed}.items() if key not in self._gone}

    @property
    def question(self) -> Question | None:
        """The question to ask now, None when all are answered.

        Raises:
            Refused: the answers contradict each other in a way no later answer mends.
        """
        return next(open_questions(self.answers), None)

    @property
    def first(self) -> bool:
        """Whether there is nothing to go back to."""
        return not self._history

    def proposal(self, question: Question) -> Default:
        """What Enter takes: the answer given before, else the default."""
        answers = self.answers
        if question.key in answers:
            return Default(answers[question.key], self.origin(question.key))
        if question.key in self._kept:
            return Default(self._kept[question.key], BEFORE)
        return self.draft.default(question.key)

    def origin(self, key: str) -> str:
        """Where the answer to a question comes from, in words; "" where it is a default."""
        if key not in self.answers:
            return ""
        if key in self._changed or key in self._history:
            value = self.answers[key]
            return BEFORE if key in self._offered and self._offered[key] == value and key in self._changed else YOURS
        return self._origins.get(key, YOURS)

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

    def change(self, question: Question, value: Any) -> str | None:
        """Another answer to a question that was settled; answers that no longer fit give way to what follows from it.

        Returns why it cannot be taken; then nothing changes.
        """
        try:
            value = coerce(question.key, value)
        except AnswerError as error:
            return str(error).partition(": ")[2]
        problem = self._not_offered(question, value)
        if problem is not None:
            return problem
        found = settled(self.answers, question.key, value)
        if isinstance(found, str):
            return found + self._nearest(question, value, self.draft)
        for key in self.answers.keys() - found.keys():
            self._changed.pop(key, None)
            self._gone.add(key)
        for key, held in found.items():
            if key == question.key or self.answers.get(key) != held:
                self._gone.discard(key)
                self._changed[key] = held
                self._kept[key] = held
        return None

    def begin_review(self) -> None:
        """All is answered: take what was answered before to the rest. The family has done its work, the recipe is known."""
        self.reviewing = True
        if "recipe" in self.answers:
            self._gone |= {"family"} & self.answers.keys()
        self._adopt()

    def _adopt(self) -> None:
        """Take the answers of an earlier session to what is not asked, where the job is the same and they still fit."""
        same = all(self._offered.get(key) == self.answers.get(key) for key in ("recipe", "gpus", "data_path", "data"))
        found = {
            key: value
            for key, value in self._offered.items()
            if key in BY_KEY and key not in self.answers and key not in self._gone and BY_KEY[key].asked(self.draft)
        }
        if same and found and fault(Draft({**self.answers, **found})) is None:
            self._changed.update(found)

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
        """Recipes that a Hugging Face id or words may mean, for the work answered so far."""
        from mbpack.wizard import naming

        draft = self.draft
        modality = draft.get("modality") if draft.given("modality") else None
        return [recipe.name for recipe in naming.meant(draft.release, text, draft.get("workload"), modality)]

    def families(self) -> list[str]:
        """Families that have a recipe for the work answered so far."""
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
        self.reviewing = False
        key = self._history.pop()
        self._changed.pop(key, None)
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


def open_questions(answers: Mapping[str, Any]) -> Iterator[Question]:
    """Questions without an answer that neither recipe, data nor machine settle, in order.

    Raises:
        Refused: the answers contradict each other.
    """
    draft = Draft(answers)
    for question in QUESTIONS:
        if question.key in answers or not question.asked(draft):
            continue
        if question.first(draft) or not draft.default(question.key).known:
            yield question


def missing(given: Mapping[str, Any]) -> list[str]:
    """Questions that would be asked, in order: what a run without a terminal must be told. A family settles the recipe.

    Raises:
        Refused: the family has no recipe for this work, or the answers contradict each other.
    """
    answers, found = dict(given), []
    while (question := next(open_questions(answers), None)) is not None:
        proposal = Draft(answers).default(question.key)
        if question.key != "recipe" or "family" not in given:
            found.append(question.key)
        elif not proposal.known:
            _ = Draft(answers).recipe  # says why the family has none
        if not proposal.known and question.key == "recipe":  # the others depend on it; these are asked in any case
            return found + [
                key for key in ("data_path", "gpus") if key not in answers and not (key != "gpus" and "data" in given)
            ]
        answers[question.key] = proposal.value
    return found


def with_defaults(given: Mapping[str, Any]) -> dict[str, Any]:
    """Answers completed with the default of every question that matters.

    Raises:
        Refused: a question without a default is open, or the answers contradict each other.
    """
    answers = dict(given)
    while True:
        draft = Draft(answers)
        question = next((one for one in QUESTIONS if one.key not in answers and one.asked(draft)), None)
        if question is None:
            return answers
        proposal = draft.default(question.key)
        if not proposal.known:
            _ = draft.recipe  # says what is missing
            raise Refused(f"{question.prompt}: no answer and no default", question.key)
        answers[question.key] = proposal.value


def close_options(options: list[Option], text: str) -> list[str]:
    """Options whose name holds every word of a text, else the most similar ones."""
    parts = text.lower().split()
    found = [option.value for option in options if all(part in option.value.lower() for part in parts)]
    return found or difflib.get_close_matches(text, [option.value for option in options], n=5, cutoff=0.4)
