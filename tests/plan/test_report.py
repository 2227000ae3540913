"""The report as text, JSON, answers and picture; the chart."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import yaml

from mbpack.facts.releases import parse_version
from mbpack.plan import online
from mbpack.plan._optional import PlanError
from mbpack.plan.answers import as_answers
from mbpack.plan.candidates import Setup, evaluate
from mbpack.plan.chart import buckets, plot, terminal_chart
from mbpack.plan.histogram import Histogram
from mbpack.plan.recommend import recommend
from mbpack.plan.report_json import Plan, as_json
from mbpack.plan.report_text import as_lines, thousands

DATA = Path(__file__).parents[1] / "data" / "lengths"
ROWS = Histogram.of_lengths(np.loadtxt(DATA / "bimodal_2000_11.txt", dtype=int))
METADATA = {
    "dataset_max_seqlen",
    "max_samples_per_bin",
    "packing_factor",
    "packing_efficiency",
    "pack_size",
    "min_packed_seqlen",
}


def made(bridge: str = "0.6", simulations: tuple[object, ...] = ()) -> Plan:
    setup = Setup(parse_version(bridge), tp=4, pp=2, cp=2, sp=True, dp=2, token_slots=65536)
    candidates = evaluate(ROWS, (2048, 4096, 8192), setup)
    return Plan(ROWS, (), setup, ("nothing",), candidates, recommend(candidates), simulations)


def text(plan: Plan, **options: bool) -> str:
    return "\n".join(line for line, _ in as_lines(plan, **options))


def test_text_is_readable_at_80_columns() -> None:
    shown = text(made())
    assert max(len(line) for line in shown.splitlines()) <= 90
    assert "padding multiple 8 = lcm(2*CP = 4, CP*TP = 8)" in shown
    assert "seed 1234: exact" in shown
    assert [line.split()[1] for line in shown.splitlines() if line.startswith("* ")][:2] == ["8192", "8192"]
    assert "pipeline bubble 20% = (PP - 1) / (microbatches 4 + PP - 1)" in " ".join(shown.split())
    assert "Assumed: nothing" in shown


def test_the_chart_is_optional_and_can_be_plain() -> None:
    assert "< pack" in text(made())
    assert "< pack" not in text(made(), chart=False)
    plain = text(made(), unicode=False)
    assert plain.isascii()
    assert "####" in plain


def test_crashes_are_shown_and_said_once() -> None:
    shown = text(made("0.5"), chart=False)
    assert shown.count("data/chat-pad-type-error") == 1
    assert "error 2048, 4096, 8192:" in shown
    assert shown.count("! ") == 6
    assert "No recommendation" in shown


def test_estimates_are_marked() -> None:
    setup = Setup(parse_version("0.5"), "prompt-completion")
    candidates = evaluate(ROWS, (8192,), setup)
    plan = Plan(ROWS, (), setup, (), candidates, recommend(candidates))
    packs = candidates[0].packed.packs if candidates[0].packed else 0
    assert f"~{packs:,}" in text(plan, chart=False)
    estimates = as_json(plan)["candidates"][0]["estimates"]
    assert {"packs", "metadata", "steps_per_epoch", "dynamic_width"} <= set(estimates)
    assert "within 0." in estimates["packs"]
    assert set(as_json(made())["candidates"][0]["estimates"]) == {"dynamic_width"}


def test_json_keeps_its_contract() -> None:
    data = json.loads(json.dumps(as_json(made()), allow_nan=False))
    assert data["schema_version"] == 1
    assert data["recommendation"]["pack_size"] == 8192
    assert data["setup"]["pad_multiple"] == {"value": 8, "because": "lcm(2*CP = 4, CP*TP = 8)"}
    assert (data["data"]["rows"], data["data"]["tokens"]) == (ROWS.rows, ROWS.tokens)
    for one in data["candidates"]:
        assert set(one["metadata"]) == METADATA
        assert one["seed"] == 1234
        assert one["gbs"] * one["pack_size"] == one["token_slots"] == 65536
        assert one["lower_bound"] <= one["ffd_packs"] <= one["packs"]
        assert one["steps_per_epoch"] == one["packs"] // one["gbs"]
        for loss in (one["truncated"], one["dropped"]):
            assert set(loss) == {"rows", "tokens", "share"}
        assert 0 < one["fill"] <= 100
        assert one["bubble"] == pytest.approx(100 / (one["microbatches"] + 1))


def test_json_of_a_crash_has_nulls() -> None:
    one = as_json(made("0.5"))["candidates"][0]
    assert one["crash"]["slug"] == "data/chat-pad-type-error"
    assert one["packs"] is one["metadata"] is one["steps_per_epoch"] is None


def test_simulations_are_reported_in_both_forms() -> None:
    simulations = (
        online.in_batch(ROWS, 2048, 2, 16, 2),
        online.energon(ROWS, 2048, buffers=(8, 16), visual_tokens=500),
        online.global_batch(ROWS, 2048, 16, 2),
        online.dynamic_cp(ROWS, 512, 16, 4),
    )
    plan = made(simulations=simulations)
    shown = text(plan, chart=False)
    for title in ("In-batch packing", "Energon packing", "Global-batch packing", "Dynamic context parallelism"):
        assert title in shown
    assert "skipped:" in shown
    assert "estimate, +-" in shown
    modes = [one["mode"] for one in json.loads(json.dumps(as_json(plan)))["simulations"]]
    assert modes == ["in_batch", "energon", "global_batch", "dynamic_cp"]


def test_answers_are_inits_flags() -> None:
    answers = yaml.safe_load(as_answers(made()))
    assert answers == {
        "bridge": "0.6",
        "packing": "offline",
        "seq_length": 8192,
        "gbs": 8,
        "tp": 4,
        "pp": 2,
        "cp": 2,
        "sp": True,
        "gpus": 32,
    }
    assert yaml.safe_load(as_answers(made(), 2048))["gbs"] == 32


def test_answers_for_a_length_that_was_not_compared() -> None:
    with pytest.raises(PlanError, match=r"--choose 1000: not among the pack lengths compared \(2048, 4096, 8192\)"):
        as_answers(made(), 1000)
    with pytest.raises(PlanError, match="nothing to write"):
        as_answers(made("0.5"))


def test_buckets_cover_every_row_once() -> None:
    for lengths in ([1], [0, 1, 2, 3], list(range(5000)), [1, 1 << 20]):
        found = buckets(Histogram.of_lengths(lengths))
        assert sum(bucket.rows for bucket in found) == len(lengths)
        assert len(found) <= 12
    assert terminal_chart(Histogram.empty(), (), True) == []


@pytest.mark.parametrize(("number", "shown"), [(0, "0"), (9999, "9,999"), (12345, "12.3 k"), (5e6, "5.0 M"), (2e9, "2.0 G")])
def test_thousands(number: float, shown: str) -> None:
    assert thousands(number) == shown


@pytest.mark.parametrize(("name", "start"), [("a.png", b"\x89PNG"), ("a.svg", b"<?xml")])
def test_a_picture(name: str, start: bytes, tmp_path: Path) -> None:
    plot(ROWS, made("0.5").candidates, str(tmp_path / name))
    assert (tmp_path / name).read_bytes().startswith(start)


def test_a_picture_of_another_kind(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"\.png, \.svg or \.pdf"):
        plot(ROWS, made().candidates, str(tmp_path / "a.bmp"))
    with pytest.raises(PlanError, match="cannot write the plot"):
        plot(ROWS, made().candidates, str(tmp_path / "missing" / "a.png"))
