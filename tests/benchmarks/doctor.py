"""Doctor against yamllint, as ratios of one run on the same files: ``python tests/benchmarks/doctor.py [--smoke]``.

A file that names no recipe is judged over all it may stand on; recorded overrides without theirs are compared with the
same overrides beside it.

Whole processes are timed, alternately, and the medians compared. The corpus is made of recorded configurations, each
written out to a hundred lines. ``--smoke`` runs everything once on few files and fails when a ratio is far off; it does
not measure.

``--version`` is a matter of the console script too: the one that pip makes before 25 imports ``re``, which takes 1.6
times as long as ``python -c pass`` on its own.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from mbpack.facts.schema import Schema, schema

DATA = Path(__file__).resolve().parents[1] / "data"
BIN = Path(sys.executable).parent
#: What is compared, and the ratio that must not be exceeded: doctor over yamllint, over an empty interpreter, and over itself
#: with the recipe named.
LIMITS = {"one file": 1.2, "many files": 0.25, "--version": 1.5, "one bare file": 2.0, "many bare files": 2.5}
#: Both keep the bytecode of their modules, as an installed program does.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
#: Lines of a configuration of the corpus, and defaults added to one section at most.
LINES, MOST_ADDED = 100, 20


def main() -> int:
    """Print the ratios; exit 1 when one is over its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=1000, help="files of the large corpus")
    parser.add_argument("--rounds", type=int, default=11, help="timed rounds of the small comparisons")
    parser.add_argument("--smoke", action="store_true", help="few files, one round, generous limits")
    options = parser.parse_args()
    files, rounds = (60, 1) if options.smoke else (options.files, options.rounds)
    slack = 6.0 if options.smoke else 1.0  # of a few files the start takes most of the time, and one round is no median
    with tempfile.TemporaryDirectory() as folder:
        corpus = write_corpus(Path(folder), files)
        one, many = str(corpus[0]), [str(path) for path in corpus]
        doctor, yamllint = [str(BIN / "mbpack"), "doctor"], [str(BIN / "yamllint"), "-d", "relaxed"]
        bare, named = write_overrides(Path(folder), max(2, files // 10 if options.smoke else files))
        pairs = {
            "one file": ([*doctor, one], [*yamllint, one], rounds),
            "many files": ([*doctor, *many], [*yamllint, *many], max(1, rounds // 4)),
            "--version": ([str(BIN / "mbpack"), "--version"], [sys.executable, "-c", "pass"], rounds),
            "one bare file": ([*doctor, bare[0]], [*doctor, named[0]], rounds),
            "many bare files": ([*doctor, *bare], [*doctor, *named], max(1, rounds // 4)),
        }
        failed = False
        for name, (ours, theirs, times) in pairs.items():
            ratio, mine, other = compare(ours, theirs, times)
            limit = LIMITS[name] * slack
            failed |= ratio > limit
            count = f" ({files if name == 'many files' else len(bare)})" if name.startswith("many") else ""
            print(f"{name + count:23} {mine:7.3f} s / {other:7.3f} s = {ratio:.2f}   limit {limit:g}")
    return 1 if failed else 0


def write_corpus(folder: Path, number: int) -> list[Path]:
    """Recorded configurations of all releases, each written out to `LINES` lines as a run saves it."""
    rows = [
        json.loads(line)
        for path in sorted((DATA / "verdicts").glob("*.jsonl.gz"))
        for line in gzip.decompress(path.read_bytes()).splitlines()
    ]
    paths = []
    for index in range(number):
        row = rows[index * 7 % len(rows)]
        _write_out(row["config"], schema(row["release"]))
        body = yaml.safe_dump(row["config"], sort_keys=False)
        path = folder / f"{index:04}.yaml"
        path.write_text(f"# mbpack: bridge={row['release']} gpus={row['gpus']} launcher=script\n{body}", encoding="utf-8")
        paths.append(path)
    return paths


def write_overrides(folder: Path, number: int) -> tuple[list[str], list[str]]:
    """Recorded overrides of all releases, without their recipe and with it."""
    rows = [
        row
        for path in sorted((DATA / "overrides").glob("*.jsonl.gz"))
        for row in map(json.loads, gzip.decompress(path.read_bytes()).splitlines())
        if row.get("yaml") and not row.get("overrides")
    ]
    paths: tuple[list[str], list[str]] = ([], [])
    for index in range(number):
        row = rows[index * 7 % len(rows)]
        line = f"# mbpack: bridge={row['release']} gpus={row['gpus']} launcher={row.get('launcher', 'script')}"
        for name, words, group in (("bare", line, paths[0]), ("named", f"{line} recipe={row['recipe']}", paths[1])):
            path = folder / f"{name}-{index:04}.yaml"
            path.write_text(f"{words}\n{row['yaml']}", encoding="utf-8")
            group.append(str(path))
    return paths


def _write_out(config: dict[str, Any], fields: Schema) -> None:
    """Adds class defaults, which change nothing, until the configuration has `LINES` lines."""
    for name, section in config.items():
        missing = LINES - yaml.safe_dump(config, sort_keys=False).count("\n")
        if missing <= 0:
            return
        if not isinstance(section, dict):
            continue
        cls = fields.class_of(section["_target_"]) if "_target_" in section else fields.section_class(name)
        plain = {
            key: field.default
            for key, field in (fields.fields(cls) or {}).items()
            if key not in section and field.init and isinstance(field.default, (bool, int, float, str, type(None)))
        }
        section.update(dict(list(plain.items())[: min(missing, MOST_ADDED)]))


def compare(ours: Sequence[str], theirs: Sequence[str], rounds: int) -> tuple[float, float, float]:
    """(median of the paired ratios, our median in seconds, the other median); a first run of each, which compiles, is not counted."""
    run(ours), run(theirs)
    timed = [(run(ours), run(theirs)) for _ in range(rounds)]
    ratio = statistics.median(mine / other for mine, other in timed)
    return ratio, statistics.median(mine for mine, _ in timed), statistics.median(other for _, other in timed)


def run(command: Sequence[str]) -> float:
    """Seconds of one process; both programs may find something (exit 1)."""
    start = time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False, env=ENVIRONMENT)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{command[0]} failed: {done.stderr.decode(errors='replace')[-500:]}")
    return time.perf_counter() - start


if __name__ == "__main__":
    sys.exit(main())
