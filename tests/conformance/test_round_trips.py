"""Overrides about data keep their data on the way to another release and back, judged by mbpack and by the real packages."""

from __future__ import annotations

import os

import pytest

from mbpack.config.assemble import build_run
from mbpack.config.context import Given, resolve_context
from mbpack.config.document import parse
from mbpack.config.run import Run
from mbpack.engine.doctor import examine

from .judge import Judge
from .real import environments
from .round_trips import ROUTES, Trip, rows, trips

EVERY = int(os.environ.get("MBPACK_CONFORMANCE_EVERY", "2"))
SAMPLE = 9
DATA = ("dataset.dataset_root", "dataset.dataset_name", "dataset.hf_dataset.dataset_name", "dataset.hf_dataset.path_or_dataset")


def read(text: str) -> Run:
    document = parse(text)
    return build_run(resolve_context(Given(), Given(), [document]), [document], [])


def data_of(text: str) -> tuple[object, ...]:
    run = read(text)
    return (run.settings.class_at("dataset"), *(run.maybe(key) for key in DATA))


@pytest.mark.parametrize(("source", "target"), ROUTES)
def test_a_sample_comes_back_to_its_data(source: str, target: str) -> None:
    found = list(trips(source, target, SAMPLE))
    assert found
    for trip in found:
        if examine([parse(trip.start)]).verdict == "rejected":
            continue
        assert examine([parse(trip.there)]).verdict != "rejected", trip.name
        assert examine([parse(trip.back)]).verdict != "rejected", trip.name
        assert data_of(trip.back) == data_of(trip.start), trip.name


def _judged(found: list[Trip], release: str) -> dict[str, bool]:
    wanted = [row for trip in found for at, row in rows(trip) if at == release]
    with Judge(release, 2) as judge:
        verdicts = judge.judge(wanted)  # type: ignore[arg-type]
    return {row["id"]: verdict["accepted"] for row, verdict in zip(wanted, verdicts, strict=True)}


@pytest.mark.conformance
@pytest.mark.parametrize(("source", "target"), ROUTES)
def test_the_packages_accept_both_ends(source: str, target: str) -> None:
    if not {source, target} <= set(environments.available()):
        raise AssertionError(f"set up {source} and {target} first (tests/conformance/README.md)")
    found = list(trips(source, target, EVERY))
    ok = {**_judged(found, source), **_judged(found, target)}
    started = [trip.name for trip in found if ok[f"{trip.name}-start"]]
    assert len(started) > len(found) / 2
    assert [name for name in started if not (ok[f"{name}-there"] and ok[f"{name}-back"])] == []
