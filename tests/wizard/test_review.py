"""The review: every value with its reason, what follows a change, what the data and the machine say."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from mbpack.facts.releases import RELEASES, Release
from mbpack.wizard import catalog, kept, review
from mbpack.wizard.draft import Draft, Refused
from mbpack.wizard.machine import Machine, machine
from mbpack.wizard.plan import make_plan
from mbpack.wizard.questions import BY_KEY
from mbpack.wizard.seen import lengths, look
from mbpack.wizard.session import BEFORE, YOURS, Session
from mbpack.wizard.settling import fault, settled

JOB = {"bridge": "0.6", "workload": "lora", "recipe": "qwen3_8b_peft_1gpu_h100_bf16_config", "data": "hf", "gpus": 16}


def session_in_review(given: dict[str, object], offered: dict[str, object] | None = None) -> Session:
    session = Session(given, offered)
    while (question := session.question) is not None:
        assert session.answer(question, session.proposal(question).value) is None
    session.begin_review()
    return session


def test_every_value_has_a_reason() -> None:
    plan = make_plan(Draft(JOB))
    found = review.rows(plan, lambda key: "--flag" if key in JOB else "")
    assert [row.key for row in found] == [question.key for question in review.questions(plan.draft)]
    assert all(row.value and row.why for row in found)
    assert {row.key for row in found if row.why == "--flag"} == set(JOB) & {row.key for row in found}
    text = "\n".join(review.lines(found, list(review.costs(plan)), 100))
    assert all(f"{number:>3}  {row.label}" in text for number, row in enumerate(found, 1))
    assert "GPU memory" in text


def test_what_depends_on_a_line_follows_and_what_was_answered_stays() -> None:
    session = session_in_review(JOB)
    before = session.draft
    assert (before.mult.value, before.get("gbs")) == (1, 16)
    assert session.change(BY_KEY["cp"], 2) is None
    assert session.change(BY_KEY["tp"], 4) is None
    after = session.draft
    assert (after.mult.value, after.dp.value, after.get("gbs")) == (8, 2, 8)
    assert session.origin("tp") == YOURS
    assert session.change(BY_KEY["gbs"], 32) is None
    assert session.change(BY_KEY["gpus"], 64) is None
    assert (session.draft.get("gbs"), session.draft.tp) == (32, 4)


def test_an_answer_that_no_longer_fits_gives_way() -> None:
    session = session_in_review(JOB)
    assert session.change(BY_KEY["tp"], 8) is None
    assert session.change(BY_KEY["gpus"], 4) is None
    assert session.draft.tp <= 4
    assert "tp" not in session.answers
    assert fault(session.draft) is None
    assert session.change(BY_KEY["gpus"], 16) is None
    assert session.draft.tp == 1  # forgotten, not remembered by halves


def test_a_change_that_fits_nothing_changes_nothing() -> None:
    session = session_in_review(JOB)
    before = session.answers
    assert "cannot be divided" in (session.change(BY_KEY["tp"], 3) or "")
    assert "is not one of" in (session.change(BY_KEY["gpu"], "toaster") or "")
    assert session.answers == before


@pytest.mark.parametrize(
    ("key", "value", "recipe"),
    [
        ("workload", "sft", "qwen3_8b_sft_4gpu_h100_bf16_config"),
        ("bridge", "0.5", "qwen3_8b_peft_config"),
        ("bridge", "0.7", "qwen3_8b_peft_1gpu_h100_bf16_config"),
    ],
)
def test_the_recipe_of_the_same_model_follows(key: str, value: str, recipe: str) -> None:
    found = settled(JOB, key, value)
    assert not isinstance(found, str)
    assert Draft(found).recipe.name == recipe
    assert Draft(found).get("workload") == (value if key == "workload" else "lora")


def test_another_recipe_brings_its_own_training() -> None:
    found = settled(JOB, "recipe", "llama31_8b_sft_config")
    assert not isinstance(found, str)
    assert Draft(found).get("workload") == "sft"


def test_answers_of_an_earlier_session_are_offered_for_the_same_job() -> None:
    earlier = {**JOB, "tp": 2, "gbs": 32, "checkpoint": "/ckpt/base"}
    again = session_in_review(JOB, earlier)
    assert (again.draft.tp, again.draft.get("gbs"), again.draft.get("checkpoint")) == (2, 32, "/ckpt/base")
    assert again.origin("tp") == BEFORE
    other = session_in_review({**JOB, "gpus": 8}, earlier)
    assert other.draft.tp == 1
    spoilt = session_in_review(JOB, {**JOB, "tp": 3})
    assert spoilt.draft.tp == 1


def test_answers_are_kept_by_the_file_they_are_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert kept.load("packing.yaml") == {}
    assert kept.save("packing.yaml", {**JOB, "data_path": None})
    assert kept.load("packing.yaml") == JOB
    assert kept.load("other.yaml") == {}
    assert kept.place("packing.yaml").stat().st_mode & 0o077 == 0
    kept.place("packing.yaml").write_text("tp: [")
    assert kept.load("packing.yaml") == {}
    monkeypatch.setenv("XDG_STATE_HOME", str(kept.place("packing.yaml")))
    assert not kept.save("packing.yaml", JOB)


# ---------------------------------------------------------------------- data and machine


@pytest.mark.parametrize(
    ("row", "kind", "columns"),
    [
        ({"messages": []}, "chat", None),
        ({"conversations": [{"from": "human", "value": "a"}]}, "chat", None),
        ({"input": "a", "output": "b", "id": 3}, "jsonl", ("input", "output")),
        ({"question": "a", "answer": "b"}, "jsonl", ("question", "answer")),
        ({"frage": "a", "antwort": "b"}, "jsonl", ("frage", "antwort")),
        ({"text": "a"}, None, None),
    ],
)
def test_rows_say_what_they_are(tmp_path: Path, row: dict[str, object], kind: str | None, columns: object) -> None:
    (tmp_path / "training.jsonl").write_text(json.dumps(row) + "\n")
    found = look(str(tmp_path))
    assert (found.kind, found.columns) == (kind, columns)
    assert found.no_validation == (kind is not None or True)
    assert look(str(tmp_path / "training.jsonl")).folder == str(tmp_path)


def test_columns_of_the_rows_are_those_that_are_read(tmp_path: Path) -> None:
    (tmp_path / "training.jsonl").write_text('{"question": "a", "answer": "b"}\n')
    (tmp_path / "validation.jsonl").write_text('{"question": "a", "answer": "b"}\n')
    for release in ("0.5", "0.6"):
        recipe = "qwen3_8b_peft_config"
        plan = make_plan(Draft({"bridge": release, "recipe": recipe, "data_path": str(tmp_path), "gpus": 8}))
        held = {line.key: line.value for line in plan.lines}
        if release == "0.5":
            assert held["dataset.dataset_kwargs.prompt_template"] == "{question} {answer}"
        else:
            assert "question" in str([value for key, value in held.items() if key.startswith("dataset.preprocessing")])
        assert "dataset.do_validation" not in held


def test_a_file_under_another_name_is_refused_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text('{"messages": []}\n')
    with pytest.raises(Refused, match=r"is a file: training\.jsonl and validation\.jsonl are read"):
        make_plan(Draft({**JOB, "data": "chat", "data_path": str(path)}))


def test_other_places_say_what_they_are(tmp_path: Path) -> None:
    (tmp_path / "energon" / ".nv-meta").mkdir(parents=True)
    for name in ("tokens.bin", "tokens.idx"):
        (tmp_path / name).touch()
    assert look(str(tmp_path / "energon")).kind == "energon"
    assert look(str(tmp_path / "tokens")).kind == "indexed"
    assert look("squad").kind == "hf"
    assert look("HuggingFaceH4/ultrachat_200k").kind == "hf"
    assert look("data/sft").kind is None
    assert look("/no/where").kind is None
    assert look("./a/b").kind is None


def test_padding_is_estimated_from_rows_that_are_here(tmp_path: Path) -> None:
    rows = [{"messages": [{"role": "user", "content": "a" * 400 * (n % 40 + 1)}]} for n in range(200)]
    (tmp_path / "training.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert len(lengths(str(tmp_path))) == 200
    plan = make_plan(Draft({**JOB, "data": "chat", "data_path": str(tmp_path)}))
    spent = {cost.label: cost.words for cost in review.costs(plan)}
    assert spent["Padding"].startswith(("0.", "1.", "2.", "3.", "4."))
    assert "without packing 75% of every row" in spent["Padding"]
    unknown = {cost.label for cost in review.costs(make_plan(Draft({**JOB, "data": "chat", "data_path": "/not/here"})))}
    assert unknown == {"GPU memory"}


def test_idle_stages_are_a_cost() -> None:
    spent = {cost.label: cost.words for cost in review.costs(make_plan(Draft({**JOB, "pp": 2})))}
    assert "PP - 1" in spent["Idle pipeline"]


@pytest.mark.parametrize(
    ("model", "count", "found"),
    [
        ("NVIDIA H100 80GB HBM3", 8, Machine(8, "h100-80gb")),
        ("NVIDIA A100-SXM4-40GB", 4, Machine(4, "a100-40gb")),
        ("NVIDIA GB200", 4, Machine(4, "gb200")),
        ("Quadro K2000", 1, Machine(1, None)),
    ],
)
def test_the_machine_says_its_gpus(tmp_path: Path, model: str, count: int, found: Machine) -> None:
    for number in range(count):
        folder = tmp_path / f"0000:{number:02}:00.0"
        folder.mkdir()
        (folder / "information").write_text(f"Model: \t\t {model}\nIRQ:   \t\t 30\n")
    assert machine(str(tmp_path)) == found
    assert machine(str(tmp_path / "none")) is None


def test_the_gpus_of_the_machine_are_proposed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mbpack.wizard.defaults.machine", lambda: Machine(4, "h200"))
    draft = Draft({key: value for key, value in JOB.items() if key != "gpus"})
    assert draft.default("gpus") == (4, "this machine's", True)
    assert draft.default("gpu") == ("h200", "this machine's", True)


# ---------------------------------------------------------------------- all recipes


@pytest.mark.parametrize("release", RELEASES, ids=str)
def test_defaults_alone_lead_to_a_review(release: Release) -> None:
    """Every seventh usable recipe: where defaults alone do not suffice, the doctor says which value to change."""
    tried = catalog.usable(release.name)[::7]
    stuck = []
    for recipe in tried:
        answers = {"bridge": release.name, "recipe": recipe.name}
        reason = fault(Draft({**answers, "data_path": Draft(answers).default("data_path").value}))
        if reason is not None:
            stuck.append((recipe.name, reason))
    assert len(stuck) <= len(tried) / 5, stuck
    assert all(re.search(r"\[[A-Z]{3}\d{3}\]$", reason) for _, reason in stuck), stuck
