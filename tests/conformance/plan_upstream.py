"""Compare planning with the real packing code of the installed releases, on random inputs.

    python -m pytest tests/conformance/plan_upstream.py -m conformance
    python -m tests.conformance.plan_upstream --record tests/data/lengths/upstream.jsonl.gz

Needs the releases (`python -m tests.conformance.real setup DIR`, then MBPACK_REAL_DIR=DIR) and is not part of the
default run: the file name keeps pytest from collecting it. `--record` writes cases and answers for
tests/plan/test_upstream_record.py, which replays them without the real packages.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

from mbpack.facts.releases import parse_version
from mbpack.plan.histogram import Histogram
from mbpack.plan.packing import Packs, Shuffler, first_fit_decreasing, shuffled_first_fit
from mbpack.plan.rows import map_rows

from .real import environments

RELEASES = ("0.3", "0.4", "0.5", "0.6")
PACK_CASES, PREPARE_CASES = 150, 110  # for each release

pytestmark = pytest.mark.conformance


def pack_cases(release: str, number: int, seed: int = 0) -> list[dict[str, Any]]:
    """Random histograms of runtime lengths: shapes from flat to heavy-tailed, empty samples included."""
    draw = random.Random(f"pack {release} {seed}")
    cases = []
    for place in range(number):
        size = draw.choice((8, 37, 64, 100, 256, 512, 1000, 2048, 8192))
        lengths = [_length(draw, size, draw.choice("flat log half third tiny".split())) for _ in range(draw.randint(1, 800))]
        histogram = [0] * (size + 1)
        for length in lengths:
            histogram[length] += 1
        cases.append(
            {
                "id": f"{release}-pack-{place}",
                "kind": "pack",
                "release": release,
                "pack_size": size,
                "seed": draw.randint(0, 2**32 - 1),
                "histogram": histogram,
            }
        )
    return cases


def prepare_cases(release: str, number: int, seed: int = 0) -> list[dict[str, Any]]:
    """Random stored rows with caps and multiples around them: truncated, dropped, crashing, misaligned."""
    draw = random.Random(f"prepare {release} {seed}")
    cases = []
    for place in range(number):
        size = draw.choice((16, 64, 100, 128, 256))
        cap = draw.choice((size, size, size, size // 2, size - 3, size + 8))
        reach = draw.choice((cap, cap, cap + 1, 2 * cap))
        schema = draw.choice(("chat", "prompt-completion"))
        cases.append(
            {
                "id": f"{release}-prepare-{place}",
                "kind": "prepare",
                "release": release,
                "schema": schema,
                "row_cap": cap,
                "multiple": draw.choice((1, 1, 1, 2, 8, 12)),
                "pack_size": size,
                "seed": draw.randint(0, 2**32 - 1),
                "lengths": [max(1, _length(draw, reach, draw.choice(("flat", "log")))) for _ in range(draw.randint(1, 60))],
            }
        )
    return cases


def _length(draw: random.Random, most: int, shape: str) -> int:
    if shape == "flat":
        return draw.randint(0, most)
    if shape == "log":
        return min(most, int(draw.lognormvariate(0, 1) * max(1, most / 8)))
    if shape == "half":
        return draw.randint(most // 4, most // 2)
    if shape == "third":
        return draw.choice((most // 2, most // 3, most // 3 + 1, most // 7, 1, 0))
    return draw.randint(0, max(1, most // 20))


def upstream(release: str, cases: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The answers of a release's own code, by case."""
    python, packages, engine = environments.find(release)
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    env["PYTHONPATH"] = os.pathsep.join(map(str, packages))
    worker = [str(python), str(Path(__file__).with_name("plan_worker.py"))]
    worker += ["--release", release, "--transformer-engine", engine]
    text = "".join(json.dumps(case) + "\n" for case in cases)
    done = subprocess.run(worker, input=text, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the worker of {release} failed: {done.stderr[-2000:]}")
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"id"')]
    return {answer.pop("id"): answer for answer in answers}


def ours(case: dict[str, Any]) -> dict[str, Any]:
    """The same answers from mbpack."""
    if case["kind"] == "pack":
        rows = Histogram.of_counts(range(len(case["histogram"])), case["histogram"], "runtime")
        made = {
            "first_fit_shuffle": shuffled_first_fit(rows.lengths, rows.counts, case["pack_size"], Shuffler(case["seed"])),
            "first_fit_decreasing": first_fit_decreasing(rows.lengths, rows.counts, case["pack_size"]),
        }
        return {name: _answer(packs, rows.longest) for name, packs in made.items()}
    mapped = map_rows(
        Histogram.of_lengths(case["lengths"]),
        parse_version(case["release"]).release,
        case["schema"],
        case["row_cap"],
        case["multiple"],
        case["pack_size"],
    )
    if mapped.crash is not None:
        return {"error": ERRORS[mapped.crash.slug]}
    packs = shuffled_first_fit(mapped.lengths, mapped.counts, case["pack_size"], Shuffler(case["seed"]))
    return _answer(packs, mapped.longest)


#: What upstream raises for each crash that planning foresees; nothing left to pack has no error of its own.
ERRORS = {
    "align/mult-larger-than-seq": "ValueError",
    "data/chat-pad-type-error": "TypeError",
    "data/chat-overlong-index-error": "IndexError",
    "seq/pack-size-equals-seq": "KeyError",
    "gbs/not-enough-rows": "ZeroDivisionError",
}


def _answer(packs: Packs, longest: int) -> dict[str, Any]:
    return {"packs": packs.count, "metadata": packs.metadata(longest)}


@pytest.mark.parametrize("release", RELEASES)
def test_packing_and_preparation_equal_upstream(release: str) -> None:
    cases = pack_cases(release, PACK_CASES) + prepare_cases(release, PREPARE_CASES)
    answers = upstream(release, cases)
    assert len(answers) == len(cases)
    different = [(case["id"], answers[case["id"]], ours(case)) for case in cases if answers[case["id"]] != ours(case)]
    assert different == []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", type=Path, required=True)
    target = parser.parse_args().record
    with gzip.GzipFile(target, "wb", mtime=0) as stream:
        for release in RELEASES:
            cases = pack_cases(release, 40, seed=1) + prepare_cases(release, PREPARE_CASES, seed=1)
            answers = upstream(release, cases)
            for case in cases:
                if case["kind"] == "pack":  # sparse, to keep the file small
                    case["histogram"] = [[length, rows] for length, rows in enumerate(case["histogram"]) if rows]
                stream.write((json.dumps({**case, "expect": answers[case["id"]]}, separators=(",", ":")) + "\n").encode())


if __name__ == "__main__":
    main()
