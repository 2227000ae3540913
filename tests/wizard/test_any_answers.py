"""Whatever is answered: a plan that the doctor finds clean, or one reason; never anything else."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from mbpack.facts import recipes
from mbpack.facts.releases import RELEASES
from mbpack.wizard import screen
from mbpack.wizard.answers import KINDS, WORD, AnswerError, coerce
from mbpack.wizard.draft import Draft, Refused
from mbpack.wizard.key_value import arguments
from mbpack.wizard.next_steps import steps
from mbpack.wizard.plan import make_plan
from mbpack.wizard.session import missing, with_defaults

ODD = ("0", "1", "2", "3", "8", "64", "1000000", "999999999999", "8k", "none", "yes", "no", "", "a b", "'", "${oc.env:X}", "#c")


@st.composite
def answers(draw: st.DrawFn) -> dict[str, object]:
    release = draw(st.sampled_from(RELEASES)).name
    found: dict[str, object] = {"bridge": release, "recipe": draw(st.sampled_from(recipes.names(release)))}
    for name in draw(st.sets(st.sampled_from(sorted(KINDS)), max_size=6)):
        kind = KINDS[name]
        words = kind.words if kind.kind == WORD else ODD
        try:
            found.setdefault(name, coerce(name, draw(st.sampled_from(words))))
        except AnswerError:
            continue
    return found


@settings(max_examples=20, deadline=None)
@given(answers())
def test_a_plan_or_one_reason(given_answers: dict[str, object]) -> None:
    reason = ""
    try:
        missing(given_answers)
        plan = make_plan(Draft(with_defaults(given_answers)))
    except Refused as refused:
        reason = refused.reason
        assert reason
    else:
        assert plan.result.verdict == "accepted"
        assert [one for one in plan.result.findings if one.outcome.severity != "info"] == []
        assert make_plan(Draft(given_answers)).text == plan.text
        assert list(steps(plan, "packing.yaml"))
        assert arguments(plan)
        lines = [*screen.recommendation(plan, 60), *screen.derivation(plan, 60)]
        assert max(map(len, lines)) <= 110
    assert "\n" not in reason
