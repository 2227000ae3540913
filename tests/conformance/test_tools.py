"""The conformance tools themselves, without the real packages."""

from __future__ import annotations

import collections
import json
import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from . import changes, classify, minimise
from .compare import Tally, difference, doctor
from .generator import complete_rows
from .names import RELEASES
from .overrides import override_rows
from .real import environments, offline_hub
from .record import Selection, choose
from .rows import Row, read, text_of, write
from .table import Line, render

RECIPES = {
    "llama32_1b_sft_config": {
        "dataset_class": "FinetuningDatasetConfig",
        "tp": 1,
        "pp": 1,
        "cp": 1,
        "heads": 32,
        "groups": 8,
        "seq_length": 4096,
        "mbs": 1,
        "gbs": 8,
        "pack_size": 4096,
        "peft": None,
    }
}


def error(kind: str, caller: str, message: str) -> dict[str, str]:
    return {"type": kind, "caller": caller, "message": message, "where": "", "function": caller}


@pytest.mark.parametrize("release", RELEASES)
def test_the_same_seed_gives_the_same_rows(release: str) -> None:
    assert list(complete_rows(release, 30, 5)) == list(complete_rows(release, 30, 5))
    assert list(override_rows(release, RECIPES, 30, 5)) == list(override_rows(release, RECIPES, 30, 5))
    assert list(complete_rows(release, 5, 5)) != list(complete_rows(release, 5, 6))


def test_every_mutation_is_used() -> None:
    seen: set[str] = set()
    for release in RELEASES:
        seen.update(name for row in complete_rows(release, 1000, 1) for name in row["aim"])
    assert seen == {name for name, _, _ in (*changes.VIOLATIONS, *changes.ODDITIES)}


@given(seed=st.integers(0, 10**9), release=st.sampled_from(RELEASES))
@settings(max_examples=40, deadline=None)
def test_a_complete_row_survives_the_file(seed: int, release: str) -> None:
    row = next(complete_rows(release, 1, seed))
    text = text_of(row)
    assert yaml.safe_load(text) == json.loads(json.dumps(row["config"]))
    assert text.startswith(f"# mbpack: bridge={release} gpus={row['gpus']} launcher=script\n")


def test_generated_rows_are_answered(tmp_path: Path) -> None:
    rows: list[Row] = []
    for release in RELEASES:
        rows += complete_rows(release, 25, 11)
        rows += override_rows(release, RECIPES, 10, 11)
    answers = doctor((sys.executable, "-m", "mbpack"), rows)
    assert {a["verdict"] for a in answers} <= {"accepted", "rejected", "unknown"}
    for answer in answers:
        first = [f for f in answer["findings"] if f["fires_first"]]
        assert len(first) == (answer["verdict"] == "rejected")


def test_a_known_exception_has_its_slug() -> None:
    inner = error("ValueError", "validate", "Micro batch size should be 1 when ...")
    assert classify.slug_of({"errors": [inner]}) == "batch/offline-mbs-one"
    outer = error("InstantiationException", "_call_target", "Error in call to target ...")
    assert classify.slug_of({"errors": [outer, inner]}) == "batch/offline-mbs-one"


def test_an_unknown_exception_has_none() -> None:
    assert classify.slug_of({"errors": [error("ValueError", "validate", "something new")]}) is None
    assert not classify.claimed(None)
    assert not classify.claimed("<expert-bias>")


def test_slugs_of_the_table_are_rules_of_mbpack() -> None:
    from mbpack.rules.catalogue import ALL_RULES

    known = {rule.slug for rule in ALL_RULES}
    claimed = {slug for check in classify.checks() for slug in check.slugs if classify.claimed(slug)}
    assert claimed - known == set()


def test_differences_are_named() -> None:
    row: Row = {"id": "x", "expect": "rejected", "check": "batch/offline-mbs-one", "derived": {}}
    first = {"slug": "batch/offline-mbs-one", "consequence": "rejected", "fires_first": True}
    other = {"slug": "cp/per-token-loss", "consequence": "rejected", "fires_first": True}
    accepted: Row = {"id": "y", "expect": "accepted", "check": None, "derived": {"data_parallel_size": 2}}
    cases: list[tuple[Row, Row, str | None]] = [
        (row, {"verdict": "rejected", "findings": [first]}, None),
        (row, {"verdict": "rejected", "findings": [other]}, "first"),
        (row, {"verdict": "accepted", "findings": []}, "missed"),
        (row, {"verdict": "unknown", "findings": [], "not_checked": []}, "unknown"),
        (row | {"check": "<expert-bias>"}, {"verdict": "accepted", "findings": []}, "unclaimed"),
        (accepted, {"verdict": "rejected", "findings": [other]}, "false"),
        (accepted, {"verdict": "accepted", "findings": [], "derived": {"data_parallel_size": 2}}, None),
        (accepted, {"verdict": "accepted", "findings": [], "derived": {}}, "derived"),
        (accepted, {"verdict": "no answer"}, "broken"),
    ]
    tally = Tally()
    for given_row, answer, kind in cases:
        found = difference(given_row, answer)
        assert (found.kind if found else None) == kind
        tally.add(given_row, answer)
    assert tally.counts["agree"] == 4
    assert (tally.counts["first"], tally.counts["first_of"]) == (1, 2)


def test_renamed_keys_may_be_named_more_exactly() -> None:
    assert classify.same("cfg/yaml-unknown-key", "cfg/renamed-key")
    assert not classify.same("cfg/renamed-key", "cfg/yaml-unknown-key")
    assert not classify.same("cp/per-token-loss", "cfg/renamed-key")


def test_files_have_the_same_bytes(tmp_path: Path) -> None:
    rows: list[Row] = [{"id": "a", "yaml": "x: ü\n"}, {"id": "b", "config": {"n": 1.5}}]
    write(tmp_path / "one.jsonl.gz", rows)
    write(tmp_path / "two.jsonl.gz", rows)
    assert (tmp_path / "one.jsonl.gz").read_bytes() == (tmp_path / "two.jsonl.gz").read_bytes()
    assert read(tmp_path / "one.jsonl.gz") == rows


def test_a_recording_is_balanced_and_leaves_out_what_no_rule_claims() -> None:
    selection = Selection(40)
    base = {"id": "x", "release": "0.6", "gpus": 1, "config": {}, "derived": {}, "errors": [error("E", "f", "m")]}
    for check, expect in [(None, "accepted")] * 60 + [("sched/steps", "rejected")] * 60 + [("<null-number>", "rejected")] * 3:
        selection.offer(base | {"check": check, "expect": expect})
    assert selection.counts == collections.Counter({"accepted": 20, "sched/steps": 3})
    assert selection.left_out == collections.Counter({"<null-number>": 3})
    assert "errors" not in selection.rows[0]


def test_judged_rows_are_chosen_from_as_fresh_ones_are() -> None:
    accepted = {
        "id": "a",
        "release": "0.6",
        "gpus": 1,
        "config": {},
        "expect": "accepted",
        "check": None,
        "derived": {},
        "errors": [],
    }
    rejected = accepted | {
        "id": "r",
        "expect": "rejected",
        "check": "old/name",
        "errors": [error("AssertionError", "validate", "fsdp_dtensor")],
    }
    rows: list[Row] = [accepted, rejected, accepted | {"release": "0.5"}, {"yaml": "", **accepted}]
    del rows[3]["config"]
    chosen = choose(rows, "0.6", 10).rows
    assert [(row["id"], row["check"]) for row in chosen] == [("a", None), ("r", "fsdp/ckpt")]


def test_removals_of_a_complete_row() -> None:
    row: Row = {"id": "x", "config": {"_target_": "C", "model": {"_target_": "M", "a": 1, "b": {"c": 2}}}}
    removed = [place for place, _ in minimise.smaller(row)]
    assert removed == [("model",), ("model", "a"), ("model", "b"), ("model", "b", "c")]
    smaller = minimise.without(row, [("model", "a"), ("model", "b", "c")])
    assert smaller["config"] == {"_target_": "C", "model": {"_target_": "M", "b": {}}}
    assert row["config"]["model"]["a"] == 1


def test_removals_of_an_override_row() -> None:
    row: Row = {"id": "x", "yaml": "model:\n  a: 1\n  b: 2\ntrain:\n  c: 3\n", "overrides": ["d=4"]}
    texts = [made["yaml"] for _, made in minimise.smaller(row)]
    assert "train:\n  c: 3\n" in texts
    assert "model:\n  b: 2\ntrain:\n  c: 3\n" in texts
    assert minimise.without(row, ["d=4"])["overrides"] == []


def test_offline_configurations_have_shapes() -> None:
    found = offline_hub.configurations()
    assert found["meta-llama/Meta-Llama-3-8B"]["num_attention_heads"] == 32
    assert found["Qwen/Qwen3-30B-A3B"]["num_experts"] == 128
    assert found["google/gemma-3-4b-it"]["text_config"]["num_hidden_layers"] == 34


def test_a_release_that_is_not_there_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(environments.EnvironmentMissing, match=r"real setup .* 0\.6\.2"):
        environments.find("0.6.2", tmp_path)
    assert environments.available(tmp_path) == []


def test_requirements_of_an_installed_release(tmp_path: Path) -> None:
    info = tmp_path / "megatron_bridge-0.9.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: megatron-bridge\nVersion: 0.9.0\n"
        "Requires-Dist: megatron-core[dev,mlm]<0.30,>=0.29\nRequires-Dist: transformers<=5.3.0,>=5.0.0\n"
    )
    found = environments.requirements(tmp_path, "0.9.0")
    assert found["megatron-core"] == "megatron-core<0.30,>=0.29"
    assert environments.installed(tmp_path, "megatron-bridge") == "0.9.0"


def test_the_table_adds_up_and_counts_what_is_wrong() -> None:
    counts = collections.Counter(rows=10, accepted=5, rejected=5, missed=1, first_of=4, first=1, unclaimed=2)
    line = Line.of("0.6", "verdicts", counts, 90.0)
    right = Line.of("0.5", "verdicts", collections.Counter(rows=1000, accepted=1000, unclaimed=3), 30.0)
    assert (line.wrong, right.wrong) == (2, 0)
    lines = render([line, right]).splitlines()
    assert lines[1].split() == "0.6 verdicts 10 5 1 0 0 3/4 (75.00%) 0 2 0 1.5".split()
    assert lines[3].split() == "all 1,010 1,005 1 0 0 3/4 (75.00%) 0 5 0 2.0".split()
