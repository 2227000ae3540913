"""Two findings never give two consequences for one cause: recorded rows, searched for pairs on one key that differ."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from mbpack.config.document import parse
from mbpack.engine.doctor import Request, judge
from mbpack.engine.result import Result
from mbpack.rules.base import Finding
from tests.conformance.rows import text_of
from tests.rules.recorded import CORPORA, rows

#: Rules that speak of one key for two reasons of their own: a value can be wrong in both ways, and mending one leaves the other.
TWO_CAUSES = {
    ("EPL101", "TOP108"): "what the overlap asks for, and boundaries that its schedule does not know",
    ("GRA102", "GRA103"): "boundaries of one length, and packed rows in a graph at all",
    ("GRA103", "GRA114"): "scopes beside whole layers, and packed rows in a graph at all",
    ("GRA103", "GRA109"): "the random states, and packed rows in a graph",
    ("GRA101", "GRA109"): "the width of rows, and the random states",
    ("GRA101", "GRA103"): "the width of rows, and packed rows in a graph at all",
    ("GRA105", "GRA109"): "a spelling, and the random states",
    ("GBP104", "GRA103"): "what the packing excludes, and packed rows in a graph at all",
    ("GBP104", "GRA109"): "what the packing excludes, and the random states",
    ("GRA106", "GRA109"): "a spelling, and the random states",
    ("GRA109", "GRA110"): "the random states, and rows that no graph can follow",
    ("GRA105", "GRA110"): "a spelling, and rows that no graph can follow",
    ("CPL105", "CPL107"): "sizes that are missing, and packed rows in two levels of ranks",
    ("CPL104", "CPL106"): "the number of entries, and heads that one of them cannot split",
    ("TOP102", "TOP105"): "experts over ranks, and ranks over the world",
    ("MOE105", "TOP107"): "query groups over ranks, and experts without sequence parallelism",
    ("GBP105", "TOP104"): "what the packing excludes, and layers over stages",
    ("PPL101", "TOP104"): "boundaries of middle stages, and layers over stages",
    ("PPL101", "PPL103"): "boundaries of middle stages, and rows packed in the batch",
    ("SEQ102", "SSM101"): "the pack size, and the state of Mamba layers",
    ("SEQ101", "SEQ102"): "lengths of model and data, and the pack size",
    ("ALN106", "SEQ101"): "a multiple, and lengths of model and data",
}
#: Rules about how a value is written: what it means is another matter.
SPELLING = "CFG"
#: Keys that many rules speak of: context and pipeline parallelism have as many consequences as things that run under them.
SHARED = ("model.context_parallel_size", "model.pipeline_model_parallel_size", "model.tensor_model_parallel_size")
A_CORPUS = 30


def results(corpus: str) -> Iterator[tuple[str, Result]]:
    for name, row in itertools.islice(rows(corpus).items(), A_CORPUS):
        yield name, judge(Request([parse(text_of(row))], environ={}))


def grave(result: Result) -> list[Finding]:
    return [one for one in result.findings if one.outcome.severity != "info" and not one.rule.code.startswith(SPELLING)]


@pytest.mark.parametrize("corpus", sorted(name for name in CORPORA if not name.startswith("fields")))
def test_one_cause_has_one_consequence(corpus: str) -> None:
    found = []
    for name, result in results(corpus):
        for one, other in itertools.combinations(grave(result), 2):
            codes = tuple(sorted((one.rule.code, other.rule.code)))
            kinds = {one.outcome.consequence, other.outcome.consequence}
            same = one.setting.key == other.setting.key and one.setting.key not in SHARED
            if same and len(kinds) == 2 and "note" not in kinds and codes not in TWO_CAUSES:
                found.append((name, one.setting.key, codes, kinds))
    assert found == []
