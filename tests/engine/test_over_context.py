"""What nobody names beside a file is judged over all it can be: the launcher, and the number of GPUs."""

from __future__ import annotations

from mbpack.config.context import Given
from mbpack.config.document import parse
from mbpack.engine.doctor import Request, examine, judge
from mbpack.engine.result import Result
from mbpack.report.candidates import holds_for, question
from mbpack.report.json import file_data
from mbpack.rules.base import Finding, HoldsFor

TEXT = "model: {context_parallel_size: 2, calculate_per_token_loss: true}\ndataset: {seq_length: 8192}\n"
BATCH = "train: {global_batch_size: 192, micro_batch_size: 1}\n"
RECIPE = "llama3_8b_sft_config"


def judged(text: str, recipe: str | None = RECIPE, gpus: int | None = 16, launcher: str | None = None) -> Result:
    return examine([parse(text)], Given("0.6", recipe=recipe, gpus=gpus, launcher=launcher))


def found(result: Result, slug: str) -> Finding:
    (finding,) = (finding for finding in result.findings if finding.rule.slug == slug)
    return finding


def test_what_one_launcher_refuses_is_a_warning_and_no_verdict() -> None:
    finding = found(judged(TEXT), "seq/model-dataset-equal")
    assert finding.holds_for == HoldsFor(1, 2, ("script",), ("run_recipe",), "launcher")
    assert (finding.outcome.severity, finding.outcome.consequence) == ("warning", "rejected")
    assert finding.fix is None or not finding.fix.safe
    assert judged(TEXT).verdict == "unknown"
    assert judged(TEXT, launcher="script").verdict == "rejected"
    assert found(judged(TEXT, launcher="script"), "seq/model-dataset-equal").holds_for is None
    assert found(judged(TEXT, launcher="run_recipe"), "seq/model-dataset-equal").outcome.severity == "info"


def test_what_both_launchers_refuse_is_certain() -> None:
    text = "train: {global_batch_size: 3, micro_batch_size: 2}\n"
    result = judged(text)
    assert result.verdict == "rejected"
    assert result.first is not None
    assert result.first.holds_for is None


def test_a_number_of_gpus_from_which_on_it_fails() -> None:
    finding = found(judged(BATCH, gpus=None, launcher="script"), "gbs/eval-divisible")
    held = finding.holds_for
    assert held is not None
    assert held.input == "gpus"
    copies = [int(count) for count in held.not_with]
    assert max(copies) < min(map(int, held.such_as))
    assert (finding.outcome.severity, finding.fix) == ("info", None)  # the file trains on fewer
    for count in copies:
        assert "gbs/eval-divisible" not in {f.rule.slug for f in judged(BATCH, gpus=count, launcher="script").findings}
    for count in map(int, held.such_as):
        assert "gbs/eval-divisible" in {f.rule.slug for f in judged(BATCH, gpus=count, launcher="script").findings}
    assert holds_for(held).startswith(f"from {min(map(int, held.such_as))} GPUs on")


def test_a_rule_that_nothing_but_the_gpus_kept_open_is_checked() -> None:
    result = judged(BATCH, gpus=None, launcher="script")
    assert not [entry.rule.slug for entry in result.not_checked if entry.needs == ("gpus",)]


def test_what_no_number_of_gpus_mends_is_certain() -> None:
    text = BATCH.replace("micro_batch_size: 1", "micro_batch_size: 7")
    finding = found(judged(text, gpus=None, launcher="script"), "gbs/eval-divisible")
    assert (finding.outcome.severity, finding.holds_for) == ("error", None)


def test_over_recipes_the_launcher_is_named_beside_them() -> None:
    result = judged(TEXT, recipe=None)
    finding = found(result, "seq/model-dataset-equal")
    assert finding.holds_for is not None
    assert (finding.holds_for.input, finding.holds_for.also) == ("recipe", "launcher script")
    assert holds_for(finding.holds_for).endswith("; with launcher script")
    assert result.verdict == "unknown"
    assert not [entry.rule.slug for entry in result.not_checked if "launcher" in entry.needs]


def test_the_question_is_the_one_that_settles_most() -> None:
    assert question(judged(TEXT, recipe=None)).startswith("--recipe NAME settles ")
    assert question(judged(TEXT)).startswith("--launcher NAME settles ")
    assert question(judged(BATCH, gpus=None, launcher="script")).startswith("--gpus N settles ")


def test_the_json_says_which_input_a_finding_depends_on() -> None:
    data = file_data(judged(TEXT))
    (finding,) = (one for one in data["findings"] if one["slug"] == "seq/model-dataset-equal")
    held = finding["holds_for"]
    assert (held["input"], held["number"], held["of"]) == ("launcher", 1, 2)


def test_releases_differ_also_where_nobody_names_the_recipe() -> None:
    text = "dataset: {seq_length: 4096, pack_sequences_in_batch: true}\ntrain: {micro_batch_size: 2, global_batch_size: 16}\n"
    text += "model: {seq_length: 4096, pipeline_model_parallel_size: 2}\n"
    result = judge(Request([parse(text)], Given(gpus=8, launcher="script"), all_releases=True))
    assert result.candidates is not None
    (found,) = (finding for finding in result.by_release if finding.rule.slug == "pp/inbatch-variable-seq")
    assert found.holds_for is not None
    assert (found.holds_for.input, found.holds_for.such_as) == ("bridge", ("0.3",))
    assert not any(finding.holds_for is None for finding in result.by_release)
