"""The report as text, JSON, answers and picture; the chart."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from mbpack.facts.releases import parse_version
from mbpack.plan import online, picture
from mbpack.plan._optional import PlanError
from mbpack.plan.answers import as_answers
from mbpack.plan.candidates import Setup, evaluate
from mbpack.plan.chart import buckets, terminal_chart
from mbpack.plan.histogram import Histogram
from mbpack.plan.picture import path_of, plot
from mbpack.plan.recommend import Recommendation, percent, recommend
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


SIMULATIONS = (
    online.in_batch(ROWS, 8192, 4, 64, 2, 8),
    online.energon(ROWS, 8192, 8, (8, 64)),
    online.global_batch(ROWS, 8192, 64, 2, 8),
    online.dynamic_cp(ROWS, 4096, 64, 4, 8),
)


@pytest.mark.parametrize(("name", "start"), [("a.png", b"\x89PNG"), ("a.svg", b"<?xml")])
def test_a_picture(name: str, start: bytes, tmp_path: Path) -> None:
    assert plot(made("0.5"), str(tmp_path / name)) == [str(tmp_path / name)]
    assert (tmp_path / name).read_bytes().startswith(start)


def texts(axes: Any) -> set[str]:
    return {one.get_text() for one in axes.findobj(lambda artist: hasattr(artist, "get_text"))}


def test_the_picture_says_what_it_is_about_and_marks_the_recommended_length() -> None:
    plan = made()
    figure = picture._pack_lengths(plan)
    assert figure.get_suptitle() == "Recommended pack length: 8,192 tokens"
    assert all(word in figure.get_supxlabel() for word in ("2,000 rows", "Megatron-Bridge 0.6", "TP 4", "CP 2", "SP", "DP 2"))
    spread, summed, slots, cost = figure.axes[:4]
    for axes in (spread, summed):
        lines = {int(line.get_xdata()[0]): line.get_linestyle() for line in axes.lines if len(line.get_xdata()) == 2}
        assert lines == {2048: ":", 4096: ":", 8192: "-"}
        assert texts(axes) >= {"2,048", "4,096", "8,192"}
    for axes in (slots, cost):
        assert "★ 8,192" in texts(axes)
    kept = {candidate.pack_size: f"keeps\n{percent(candidate.kept_share)}" for candidate in plan.candidates}
    assert texts(slots) >= set(kept.values())
    assert {f"{one.packed.steps_per_epoch:,}\n(gbs {one.batch.gbs:,})" for one in plan.candidates if one.packed} <= texts(cost)


def test_the_curves_tell_how_many_rows_and_tokens_fit() -> None:
    stored = ROWS.stored()
    fitting = stored.lengths <= 2048
    rows = 100 * stored.counts[fitting].sum() / stored.rows
    tokens = 100 * (stored.counts * stored.lengths)[fitting].sum() / stored.tokens
    curves = [line for line in picture._pack_lengths(made()).axes[1].lines if len(line.get_xdata()) > 2]
    for line, share in zip(curves, (rows, tokens), strict=True):
        there = np.searchsorted(line.get_xdata(), 2048, side="right") - 1
        assert line.get_ydata()[there] == pytest.approx(share)
        assert line.get_ydata()[-1] == 100


def test_every_simulated_mode_has_its_own_picture(tmp_path: Path) -> None:
    written = plot(made("0.7", SIMULATIONS), str(tmp_path / "a.svg"))
    modes = ("in_batch", "energon", "global_batch", "dynamic_cp")
    assert written == [str(tmp_path / "a.svg"), *(path_of(str(tmp_path / "a.svg"), mode) for mode in modes)]
    assert len({Path(one).read_bytes() for one in written}) == 5


def test_the_pictures_of_modes_show_their_numbers() -> None:
    plan = made("0.7", SIMULATIONS)
    drawn = {picture.mode_of(one): picture._DRAWN[picture.mode_of(one)](plan, one) for one in SIMULATIONS}
    in_batch, energon, whole, dynamic = SIMULATIONS
    assert texts(drawn["in_batch"]) >= {f"{in_batch.width_worst:,}", f"useful {in_batch.effective:.1f}%"}
    assert f"{energon.buffer_95:,} samples" in drawn["energon"].get_suptitle()
    curve = drawn["energon"].axes[0].lines[0]
    assert list(curve.get_ydata()) == [one.fill.value for one in energon.fills]
    assert f"{whole.microbatches_max}" in texts(drawn["global_batch"])
    assert {f"{share:.1f}%" for pair in dynamic.groups.values() for share in pair} <= texts(drawn["dynamic_cp"])


def test_rows_of_one_length_and_lengths_that_all_fail_can_be_drawn(tmp_path: Path) -> None:
    rows = Histogram.of_lengths([100] * 8)
    setup = Setup(parse_version("0.5"), cp=2)
    candidates = evaluate(rows, (64,), setup)
    same = Plan(rows, (), setup, (), candidates, recommend(candidates))
    plot(same, str(tmp_path / "a.svg"))
    failing = replace(made("0.5"), recommendation=Recommendation(None, ("none",)))
    assert picture._pack_lengths(failing).get_suptitle() == "Pack lengths: none can be recommended"


def test_a_picture_of_another_kind(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"\.png, \.svg or \.pdf"):
        plot(made(), str(tmp_path / "a.bmp"))
    with pytest.raises(PlanError, match="cannot write the plot"):
        plot(made(), str(tmp_path / "missing" / "a.png"))
