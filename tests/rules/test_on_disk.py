"""Rules about files on disk: their documentation, their cases and the field cases that need evidence."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from mbpack.config.assemble import build_run
from mbpack.config.context import Given, resolve_context
from mbpack.config.document import parse
from mbpack.config.in_effect import SPECS
from mbpack.config.settings import Unknown, WrongKind
from mbpack.facts.keys import path_in
from mbpack.facts.releases import parse_version
from mbpack.report.json import finding_data
from mbpack.rules.data import tokenisation
from mbpack.rules.packing import loss
from mbpack.rules.packs import building, jobs, metadata, paths, shards
from mbpack.rules.training import resumed_rows
from tests.conftest import DATA, load_cases, slugs
from tests.rules.found import doctor_with, evidence_of

MODULES = (loss, building, jobs, paths, metadata, shards, tokenisation, resumed_rows)
RULES = [rule for module in MODULES for rule in module.RULES]
CASES = [
    pytest.param(case, id=f"{file.stem}:{case['name']}")
    for file in sorted((Path(__file__).parent / "on_disk").glob("*.yaml"))
    for case in load_cases(file)
]
FIELD = [
    case for case in load_cases(DATA / "field_cases.yaml") if {"artifact", "data", "nodes", "env"} & set(case.get("needs", ()))
]
CONTEXT = ("bridge", "recipe", "gpus", "launcher", "step", "nodes")


@pytest.mark.parametrize("case", CASES)
def test_case(case: dict[str, Any]) -> None:
    context = {name: case[name] for name in CONTEXT if case.get(name) is not None}
    result = doctor_with(case.get("found", {}), case["input"], **context)
    assert not result.failed_rules
    found = [finding_data(finding, finding is result.first) for finding in result.findings]
    for expected in case.get("expect", ()):
        assert any(all(data[key] == value for key, value in expected.items()) for data in found), (expected, found)
    for slug in case.get("absent", ()):
        assert slug not in [data["slug"] for data in found]
    for slug, needs in case.get("not_checked", {}).items():
        assert (slug, tuple(needs)) in [(entry.rule.slug, entry.needs) for entry in result.not_checked]


def found_in(case: dict[str, Any]) -> dict[str, Any]:
    """What a field case says about files, in the short form."""
    artifact, data = case.get("artifact", {}), case.get("data", {})
    training: dict[str, Any] = {"path": artifact["path"], "rows": 100} if "path" in artifact else {}
    found: dict[str, Any] = {}
    if isinstance(artifact.get("rows"), list):
        lengths = [length for row in artifact["rows"] for length in row["runtime_lengths"]]
        training.update(rows=len(artifact["rows"]), lengths={length: lengths.count(length) for length in lengths})
    if "longest_row" in artifact:
        training["longest_row"] = artifact["longest_row"]
    if "loss_mask_mean" in artifact:
        training.update(lengths={8192: 100}, supervised=round(819_200 * artifact["loss_mask_mean"]))
    if "glob_rows" in artifact:
        training["rows"] = artifact["glob_rows"]
        found["metadata"] = [{"rows": artifact["metadata_rows"]}]
    if "metadata" in artifact:
        found["metadata"] = artifact["metadata"]
    if data:
        training["missing"] = not data["packs_exist"]
        found["raw"] = {"lines": data["training_lines"]}
        if "mean_tokens" in data:
            found["lengths"] = {data["mean_tokens"]: data["training_lines"]}
    if training:
        found["training"] = training
    if "env" in case:
        found["environ"] = {name: value for name, value in case["env"].items() if value is not None}
    return found


@pytest.mark.parametrize("case", FIELD, ids=lambda case: case["id"])
def test_field_case_with_evidence(case: dict[str, Any]) -> None:
    context = {name: case[name] for name in CONTEXT if case.get(name) is not None}
    result = doctor_with(found_in(case), case["input"], **context)
    found = [(finding.outcome.severity, finding.rule.slug) for finding in result.findings]
    for want in case["expect"]:
        assert (want["severity"], want["slug"]) in found
    if case.get("clean"):
        assert [slug for slug in slugs(result, "error") if slug not in case.get("may", ())] == []


@pytest.mark.parametrize("case", FIELD, ids=lambda case: case["id"])
def test_without_evidence_a_rule_about_files_is_not_checked(case: dict[str, Any]) -> None:
    context = {name: case[name] for name in CONTEXT if case.get(name) is not None and name != "nodes"}
    result = doctor_with({}, case["input"], **context)
    assert not result.failed_rules
    files = [want["slug"] for want in case["expect"] if want["slug"].startswith(("data/", "loss/"))]
    assert not [slug for slug in files if slug in slugs(result)]
    needs = {entry.rule.slug: entry.needs for entry in result.not_checked}
    assert {need for slug in files for need in needs.get(slug, ())} <= {"filesystem", "nodes", "environment", "data"}


def test_short_form_refuses_what_it_does_not_know() -> None:
    with pytest.raises(AssertionError, match="unknown words"):
        evidence_of({"trainnig": {}})


KEYS = (
    *(f"dataset.{name}" for name in ("dataset_root", "do_validation", "do_test", "drop_last", "max_train_samples", "seq_length")),
    *(f"dataset.{name}" for name in ("dataset_kwargs", "preprocessing", "hf_dataset", "hf_rewrite", "dataloader_type")),
    *(f"dataset.dataset_kwargs.{name}" for name in ("chat", "chat_template", "virtual_tokens", "answer_only_loss")),
    *(f"{SPECS}.{name}" for name in ("packed_sequence_size", "pad_seq_to_mult", "pad_cu_seqlens", "num_tokenizer_workers")),
    *(f"{SPECS}.{name}" for name in ("packed_train_data_path", "packed_val_data_path", "packed_metadata_path")),
    *(f"model.{name}" for name in ("context_parallel_size", "tensor_model_parallel_size", "sequence_parallel", "vocab_size")),
    *("tokenizer.tokenizer_type", "dist.eval_context_parallel_size", "validation.eval_iters", "checkpoint.load", SPECS),
)
VALUES = st.sampled_from(
    (
        *(None, True, False, 0, 1, -1, 4, 10**30, 1.5, float("inf"), float("nan"), "", "x", "true", "4096"),
        *("p[12].parquet", "p*", "a_pad_seq_to_mult3/training_4.npy", "a\0b", [], [1], {}, {"a": 1}, "${x}", "???"),
        {"_target_": "no.Such"},
    )
)
FOUND = st.sampled_from(
    (
        {},
        {"training": {"missing": True}, "raw": {"lines": 2_000_000, "bytes": 10**12, "validation": False}},
        {
            "training": {"rows": 3, "lengths": {7: 1, 8: 2}, "longest_row": 10**6, "most_samples": 5, "supervised": 23},
            "metadata": [{"max_samples_per_bin": "x", "pack_size": 1e9}],
            "raw": {"modified": 2.0},
            "lengths": {0: 1, 1: 1, 10**6: 2},
            "environ": {},
        },
        {"training": {"problem": "bad"}, "validation": {"rows": 0}, "metadata": {"problem": "x"}, "environ": {}},
    )
)


@settings(max_examples=150, deadline=None)
@given(
    st.dictionaries(st.sampled_from(KEYS), VALUES, min_size=1, max_size=5),
    FOUND,
    st.sampled_from(("0.3", "0.4", "0.5.0", "0.5", "0.6", "0.7", "nightly")),
    st.sampled_from((None, "script", "run_recipe")),
    st.booleans(),
)
def test_any_kind_of_value(values: dict[str, Any], found: dict[str, Any], bridge: str, launcher: str | None, whole: bool) -> None:
    release = parse_version(bridge).release
    tree: dict[str, Any] = {"_target_": "megatron.bridge.training.config.ConfigContainer"} if whole else {}
    for key, value in values.items():
        *owners, name = path_in(release, key).split(".")
        at = tree
        for owner in owners:
            at = at.setdefault(owner, {}) if isinstance(at.get(owner, {}), dict) else {}
        at[name] = value
    documents = [parse(yaml.safe_dump(tree))]
    context = resolve_context(Given(bridge, launcher=launcher), Given(), documents)
    run = build_run(context, documents, environ=found.get("environ"), evidence=evidence_of(found))
    for rule in RULES:
        with suppress(Unknown, WrongKind):
            for finding in rule.check(run):
                assert finding.message
