"""Rules about the configuration that say more when somebody looked at the packs."""

from __future__ import annotations

from typing import Any

from mbpack.config.assemble import build_run
from mbpack.config.context import Given, resolve_context
from mbpack.config.document import parse
from mbpack.config.run import Run
from mbpack.engine.check import check
from mbpack.engine.result import Result
from mbpack.rules.base import Finding
from tests.rules.found import evidence_of

CP2 = """
dataset: {offline_packing_specs: {pad_seq_to_mult: 4, packed_train_data_path: packs/training.parquet}}
model: {context_parallel_size: 2}
"""


def findings(text: str, found: dict[str, Any], slug: str, **context: Any) -> list[Finding]:
    document = parse(text)
    given = Given(**{"bridge": "0.6", "gpus": 8, "recipe": "llama3_8b_sft_config", "launcher": "script", **context})
    resolved = resolve_context(given, Given(), [document])
    run = build_run(resolved, [document])
    seen = Run(run.settings, run.context, evidence_of(found))
    result = check(seen, Result(None, resolved, [document]))
    assert not result.failed_rules
    return [finding for finding in result.findings if finding.rule.slug == slug]


def test_rows_that_do_not_hold_what_the_configuration_says() -> None:
    for launcher in ("script", "run_recipe"):
        found = findings(CP2, {"training": {"rows": 1, "lengths": {7: 1, 9: 1}}}, "align/pad-seq-to-mult-cp", launcher=launcher)
        assert [finding.outcome.severity for finding in found] == ["error"]
        assert "7 and 9" in found[0].message
        assert found[0].setting.key == "dataset.offline_packing_specs.packed_train_data_path"


def test_rows_that_do() -> None:
    assert findings(CP2, {"training": {"rows": 1, "lengths": {8: 1, 12: 1}}}, "align/pad-seq-to-mult-cp") == []


def test_a_step_averages_the_samples_of_its_packs() -> None:
    text = "train: {global_batch_size: 128}"
    found = findings(text, {"metadata": [{"packing_factor": 12.3}]}, "gbs/tokens-per-step")
    assert [finding.outcome.severity for finding in found] == ["warning"]
    assert "1,574 samples" in found[0].message
    assert found[0].fix is not None
    assert "8 or 12" in found[0].fix.title


def test_a_small_batch_of_packs_is_fine() -> None:
    assert findings("train: {global_batch_size: 8}", {"metadata": [{"packing_factor": 12.3}]}, "gbs/tokens-per-step") == []


def test_fewer_packed_rows_than_one_global_batch() -> None:
    found = findings("train: {global_batch_size: 128}", {"training": {"rows": 100}}, "gbs/not-enough-rows")
    assert [finding.outcome.severity for finding in found] == ["error"]
    assert findings("train: {global_batch_size: 64}", {"training": {"rows": 100}}, "gbs/not-enough-rows") == []
