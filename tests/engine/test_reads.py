"""Which keys rules read on recipes alone is on record, and up to date: a rule that is left out of a file has nothing to say about it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from mbpack.config.assemble import build_run
from mbpack.config.context import Given, resolve_context
from mbpack.config.document import parse
from mbpack.engine.reads import Touched, reads
from mbpack.rules.catalogue import BY_NAME

TOOL = Path(__file__).parents[2] / "tools" / "rule_reads.py"


def test_the_record_has_what_rules_read() -> None:
    done = subprocess.run([sys.executable, str(TOOL), "--covers"], capture_output=True, text=True)
    assert done.stdout.strip() == "", "python -m tests.record"
    assert done.returncode == 0


def touched(text: str, slug: str) -> bool:
    document = parse(text)
    context = resolve_context(Given("0.6"), Given(), (document,))
    return Touched.of_run(build_run(context, (document,))).by(BY_NAME[slug])


def test_a_rule_is_asked_where_one_of_its_keys_is_written() -> None:
    assert touched("model: {context_parallel_size: 2}", "cp/per-token-loss")
    assert touched("model: {transformer: {context_parallel_size: 2}}", "cp/per-token-loss")
    assert touched("model: null", "cp/per-token-loss")  # all below it is covered
    assert touched("model: {_target_: megatron.bridge.models.gpt_provider.GPTModelProvider}", "cp/per-token-loss")
    assert not touched("logger: {log_interval: 2}", "cp/per-token-loss")


def test_the_record_speaks_of_rules_that_exist() -> None:
    assert set(reads()) <= set(BY_NAME)
