"""The walk through the questions: what is asked, going back, refusing answers in the doctor's words."""

from __future__ import annotations

from pathlib import Path

import pytest

from mbpack.report.explain import page
from mbpack.report.style import Style
from mbpack.wizard import review
from mbpack.wizard.draft import Draft, Refused
from mbpack.wizard.plan import make_plan
from mbpack.wizard.questions import BY_KEY, QUESTIONS, Question
from mbpack.wizard.screen import help_text
from mbpack.wizard.session import Session, close_options, missing, with_defaults

DENSE = {"bridge": "0.6", "workload": "lora", "recipe": "qwen3_8b_peft_1gpu_h100_bf16_config"}


def asked(given: dict[str, object], **answers: object) -> list[str]:
    """Questions in the order they come up, answered with defaults except where told."""
    session, order = Session(given), []
    while (question := session.question) is not None:
        order.append(question.key)
        value = answers.get(question.key, session.proposal(question).value)
        assert session.answer(question, value) is None
    return order


def at(given: dict[str, object], key: str) -> Session:
    """A session that has come to a question with defaults for those before it."""
    session = Session(given)
    while (question := session.question) is not None and question.key != key:
        assert session.answer(question, session.proposal(question).value) is None
    return session


def reviewed(given: dict[str, object]) -> Session:
    """A session whose questions are answered with defaults."""
    session = Session(given)
    while (question := session.question) is not None:
        assert session.answer(question, session.proposal(question).value) is None
    session.begin_review()
    return session


def refusal(session: Session, key: str, value: object) -> str:
    """Why an answer cannot be taken, in the review; nothing changes."""
    before = session.answers
    problem = session.change(BY_KEY[key], value)
    assert problem is not None
    assert session.answers == before
    return problem


def lines(given: dict[str, object]) -> list[str]:
    return [question.key for question in review.questions(Draft(given))]


def test_only_what_nothing_else_says_is_asked() -> None:
    assert asked({}, workload="lora", recipe="qwen3_8b_peft_1gpu_h100_bf16_config") == ["workload", "recipe", "data_path", "gpus"]
    assert asked({**DENSE, "gpus": 8}) == ["data_path"]
    assert asked({"recipe": DENSE["recipe"], "data": "hf", "gpus": 8}) == []


def test_what_the_data_are_is_asked_where_they_do_not_say(tmp_path: Path) -> None:
    assert asked({**DENSE, "gpus": 8, "data_path": "/nowhere/rows"}, data="chat") == ["data"]
    assert asked({**DENSE, "gpus": 8, "data_path": "HuggingFaceH4/ultrachat_200k"}) == []
    (tmp_path / "training.jsonl").write_text('{"messages": [{"role": "user", "content": "a"}]}\n')
    assert asked({**DENSE, "gpus": 8, "data_path": str(tmp_path)}) == []


def test_the_review_has_what_matters() -> None:
    dense = lines({**DENSE, "gpus": 8})
    common = ["data", "checkpoint", "gpu", "gpus", "tp", "pp", "cp", "seq_length", "cuda_graphs", "packing", "gbs", "launcher"]
    assert dense == ["bridge", "workload", "recipe", "data_path", *common]
    more = lines({**DENSE, "gpus": 16, "data": "jsonl", "tp": 2, "pp": 2, "seq_length": 32768, "long_samples": True})
    assert {"data_path", "vpp", "sp", "long_samples", "mbs"} <= set(more)
    assert "packing" not in more
    assert "ep" in lines({"bridge": "0.6", "recipe": "qwen3_30b_a3b_sft_8gpu_h100_bf16_config"})
    assert "ep" not in dense


def test_back_keeps_the_answer_as_the_proposal() -> None:
    session = at(DENSE, "gpus")
    question = session.question
    assert question is not None
    assert session.answer(question, 4) is None
    assert session.back()
    assert session.question == question
    assert session.proposal(question).value == 4
    assert not session.draft.given("gpus")


def test_back_at_the_first_question_stays() -> None:
    session = Session({})
    assert not session.back()
    assert session.question is not None
    assert session.question.key == "workload"


def test_back_over_several_questions_and_forward_again() -> None:
    session = at({"bridge": "0.6"}, "workload")
    for key, value in (("workload", "lora"), ("recipe", DENSE["recipe"]), ("data_path", None)):
        assert session.answer(BY_KEY[key], value) is None
    for _ in range(2):
        assert session.back()
    question = session.question
    assert question is not None
    assert question.key == "recipe"
    assert session.answer(question, "qwen3_600m_peft_config") is None
    assert session.question is not None
    assert session.question.key == "data_path"


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("tp", 3, "16 GPUs cannot be divided by TP 3 x PP 1 x CP 1 = 3"),
        ("cp", 32, "16 GPUs cannot be divided"),
        ("gbs", 9, "global batch 9 is not a multiple of MBS 1 x DP 16 = 16; nearest: 16"),
        ("gpus", "some", "is no whole number"),
        ("gpus", "-8", "must be positive"),
        ("gpus", "100000000000", "is too large"),
        ("data", "energon", "is not among jsonl, chat, hf"),
        ("cuda_graphs", "attn", "attention cannot be captured"),
        ("packing", "in_batch", "GPT-SFT in-batch packing starts with 0.7"),
        ("packing", "energon", "native Energon packing starts with 0.7"),
    ],
)
def test_refused_in_the_words_of_the_rule(key: str, value: object, says: str) -> None:
    assert says in refusal(reviewed({**DENSE, "gpus": 16}), key, value)


def test_heads_that_tensor_parallel_does_not_divide() -> None:
    session = reviewed({"bridge": "0.6", "recipe": "qwen2_500m_sft_1gpu_h100_bf16_config", "gpus": 8})
    assert "[TOP106]" in refusal(session, "tp", 8)


def test_a_length_that_does_not_divide_names_the_nearest() -> None:
    problem = refusal(reviewed({**DENSE, "gpus": 16, "tp": 4, "cp": 2}), "seq_length", 5001)
    assert "must be a multiple of 8 = lcm(2*CP = 4, CP*TP = 8): 5,000 or 5,008" in problem


def test_unknown_recipes_say_where_they_exist_and_what_is_near() -> None:
    session = at({"bridge": "0.6"}, "recipe")
    assert "did you mean" in (session.answer(BY_KEY["recipe"], "qwen3_8b_sft_confg") or "")


def test_search_finds_names_by_parts() -> None:
    session = Session({"bridge": "0.6", "workload": "sft", "modality": "text"})
    question = BY_KEY["recipe"]
    assert question is not None
    assert close_options(session.options(question), "OSS 120b openmath") == []
    found = close_options(session.options(question), "llama3_8b sft")
    assert found == ["llama3_8b_sft_2gpu_h100_bf16_config"]


def test_missing_names_what_a_run_without_a_terminal_needs() -> None:
    assert missing(DENSE) == ["data_path", "gpus"]
    assert missing({}) == ["workload", "recipe", "data_path", "gpus"]
    assert missing({**DENSE, "data": "hf"}) == ["gpus"]
    assert missing(with_defaults(DENSE)) == []


def test_defaults_need_a_recipe() -> None:
    with pytest.raises(Refused, match="use --recipe or --family"):
        with_defaults({"bridge": "0.6"})


def test_contradicting_answers_are_refused() -> None:
    with pytest.raises(Refused, match="is a sft recipe, not one for lora; use llama3_8b_peft"):
        _ = Draft({"recipe": "llama3_8b_sft_2gpu_h100_bf16_config", "workload": "lora"}).recipe
    with pytest.raises(Refused, match="text only"):
        _ = Draft({"recipe": "llama3_8b_sft_2gpu_h100_bf16_config", "modality": "vlm"}).recipe
    with pytest.raises(Refused, match=r"it exists in 0\.6"):
        _ = Draft({"bridge": "0.5", "recipe": "llama3_8b_sft_2gpu_h100_bf16_config"}).recipe
    with pytest.raises(Refused, match=r"0\.3 has no recipe of the family qwen3.5-vl \(it has recipes in 0\.4"):
        _ = Draft({"bridge": "0.3", "family": "qwen3.5-vl"}).recipe
    with pytest.raises(Refused, match="NotImplementedError"):
        _ = Draft({"bridge": "0.6", "recipe": "qwen3_next_80b_a3b_peft_config"}).recipe


def test_flags_that_contradict_each_other_are_refused() -> None:
    recipe = {"bridge": "0.6", "recipe": "qwen3_8b_sft_4gpu_h100_bf16_config"}
    with pytest.raises(Refused, match="is of the family qwen3, not of llama"):
        with_defaults({**recipe, "family": "llama"})
    with pytest.raises(Refused, match="no recipe of the family lama; did you mean llama"):
        with_defaults({**recipe, "family": "lama"})
    with pytest.raises(Refused, match="has no experts to spread"):
        make_plan(Draft({**recipe, "gpus": 8, "ep": 2}))
    assert with_defaults({**recipe, "family": "Qwen3 dense"})["recipe"] == recipe["recipe"]


def test_a_family_picks_the_recipe_that_needs_the_fewest_gpus() -> None:
    draft = Draft({"bridge": "0.6", "family": "Qwen3-VL", "workload": "sft"})
    assert draft.recipe.name == "qwen3_vl_8b_sft_2gpu_h100_bf16_config"


def test_a_family_answers_the_question_for_the_recipe() -> None:
    session = at({"bridge": "0.6", "workload": "lora", "modality": "text"}, "recipe")
    question = session.question
    assert question is not None
    assert {"qwen3", "llama"} <= set(session.families())
    assert session.answer(question, "Qwen3 dense") is None
    assert session.question is question  # asked again, among the family's
    names = [option.value for option in session.options(question)]
    assert names == [name for name in names if name.startswith("qwen3_") and "peft" in name]
    assert "1 GPU" in [option.note for option in session.options(question)]
    assert session.proposal(question).why == "of this family, it needs the fewest GPUs"
    assert session.answer(question, names[-1]) is None
    assert session.draft.recipe.name == names[-1]
    assert session.back()
    assert session.back()  # out of the family
    assert not session.draft.given("family")
    assert len(session.options(question)) > len(names)


def test_a_family_without_a_recipe_for_the_work_says_so() -> None:
    session = at({"bridge": "0.6", "workload": "lora", "modality": "text"}, "recipe")
    assert "has no peft recipe of the family minimax_m3" in (session.answer(BY_KEY["recipe"], "minimax_m3") or "")
    assert "has no peft recipe of the family qwen3_vl for modality text" in (session.answer(BY_KEY["recipe"], "qwen3-vl") or "")


def test_a_family_given_by_flag_is_enough_without_a_terminal() -> None:
    given = {"bridge": "0.6", "workload": "sft", "family": "qwen3"}
    assert "recipe" not in missing(given)
    assert with_defaults(given)["recipe"] == "qwen3_1p7b_sft_1gpu_h100_bf16_config"
    with pytest.raises(Refused, match="no recipe of the family qven3; did you mean qwen3"):
        missing({**given, "family": "qven3"})


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.key)
def test_the_help_key_shows_what_explain_has(question: Question) -> None:
    draft = Draft({"bridge": "0.6", "workload": "sft", "family": "qwen3"})
    shown = "\n".join(help_text(question, draft, 79))
    assert " ".join(question.why.split()) in " ".join(shown.split())
    for name in (*question.topics(draft), *question.rules):
        assert page(name, Style(width=77)).splitlines()[0].split()[0] in shown
    first = (*question.topics(draft), *question.rules)[:1]
    for name in first:
        assert all(f"  {line}".rstrip() in shown for line in page(name, Style(width=77)).splitlines()[:4])


@pytest.mark.parametrize(
    ("packing", "mean", "batch", "why"),
    [
        ("offline", None, 4, "about the recipe's 32,768 token slots a step"),
        ("offline", 512, 4, "about the recipe's 32,768 token slots a step"),
        (
            "in_batch",
            None,
            8,
            "the smallest multiple of MBS x DP; 2 x the recipe's 32,768 token slots a step, were every sample full",
        ),
        ("in_batch", 512, 64, "about the recipe's 32,768 token slots a step, in samples of 512 tokens"),
        ("global_batch", 512, 64, "about the recipe's 32,768 token slots a step, in samples of 512 tokens"),
        ("none", 100_000, 4, "about the recipe's 32,768 token slots a step, in samples of 100,000 tokens"),
    ],
)
def test_samples_of_the_mean_length_fill_the_step_of_a_packing_recipe(
    packing: str, mean: int | None, batch: int, why: str
) -> None:
    given = {"bridge": "0.7", "recipe": "llama3_8b_sft_config", "workload": "sft", "gpus": 8, "packing": packing}
    draft = Draft({**given, "mean_length": mean} if mean else given)
    assert draft.default("gbs").value == batch
    assert draft.default("gbs").why == why


def test_a_recipe_that_counts_samples_keeps_their_number() -> None:
    given = {"bridge": "0.6", "recipe": "qwen3_vl_8b_sft_config", "workload": "sft", "gpus": 8, "packing": "in_batch"}
    assert {Draft({**given, "seq_length": length}).default("gbs").value for length in (4096, 8192, 32768)} == {32}


def test_token_slots_stand_for_the_batch() -> None:
    answers = with_defaults({**DENSE, "gpus": 8, "seq_length": 4096, "token_slots": 65536})
    assert Draft(answers).get("gbs") == 16
    with pytest.raises(Refused, match="nearest: 32,768 or 65,536"):
        with_defaults({**DENSE, "gpus": 8, "seq_length": 4096, "token_slots": 65000})
