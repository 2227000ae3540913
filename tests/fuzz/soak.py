"""Puts inputs to mbpack until time or number is up, and says what it could not take.

    python -m tests.fuzz.soak --minutes 60 --inputs 1000000 --seed 7
    python -m tests.fuzz.soak --inputs 2000 --only script
    python -m tests.fuzz.soak --show 7:12345              one input of a seed: its files, its commands, what is wrong
    python -m tests.fuzz.soak --crash tests/data/crashes/x.json

The inputs are put by a second process: one that dies or hangs is noticed and the run goes on with the next input. Each class of
defect is written, with its smallest input, to a JSON file in the folder that --out names.
"""

from __future__ import annotations

import argparse
import collections
import gc
import multiprocessing
import os
import re
import resource
import sys
import tempfile
import time
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import Any

from .checks import problem, workshop
from .keep import dump, load, smallest
from .samples import TARGETS, Sample, sample

HANG = 30.0
"""Seconds after which an input counts as hanging and its process is ended."""
MEMORY = 4 << 30
"""Address space of the process that puts the inputs, bytes."""
JUMP = 300 << 10
"""Growth of the peak memory by one input that is worth reporting, KiB."""


def put(
    seed: int, first: int, last: int, until: float, only: str | None, place: Synchronized[int], since: Any, back: Any
) -> None:
    """Inputs ``first`` to ``last``, until the time is up; answers go back through a queue. Runs in a process of its own."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    gc.set_threshold(50_000)
    seen: collections.Counter[str] = collections.Counter()
    peak = 0
    with workshop() as folder:
        for number in range(first, last):
            if time.monotonic() > until:
                break
            made = sample(seed, number, only)
            place.value, since.value = number, time.monotonic()
            found = problem(made, folder)
            seconds = time.monotonic() - since.value
            grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            if found is None and number - first > 2000 and grown - peak > JUMP:
                found = f"memory: {made.target} needed {(grown - peak) >> 10} MB more"
            peak = max(peak, grown)
            if found is not None:
                kept, since.value = made, float("inf")
                if not seen[group(found)] and not found.startswith(("slow", "memory")):
                    kept = smallest(made, lambda other, found=found: problem(other, folder) == found)  # type: ignore[misc]
                seen[group(found)] += 1
                back.put((number, made.target, seconds, found, dump(kept, f"{seed}:{number} {found}")))
            else:
                back.put((number, made.target, seconds, None, None))
    back.put((-1, "", float(peak), None, None))


def group(found: str) -> str:
    """The class of a defect: numbers make no difference."""
    return re.sub(r"\d+(\.\d+)?", "#", found)[:100]


class Run:
    """Numbers of a soak run, and its process."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.inputs: collections.Counter[str] = collections.Counter()
        self.defects: collections.Counter[str] = collections.Counter()
        self.slowest: dict[str, float] = collections.defaultdict(float)
        self.peak = 0.0
        self.started = time.monotonic()
        self.said = self.started
        self.place: Synchronized[int] = multiprocessing.Value("q", 0)
        self.since = multiprocessing.Value("d", 0.0)

    def go(self) -> None:
        first, last = self.args.start, self.args.start + self.args.inputs
        until = self.started + 60 * self.args.minutes
        while first < last and time.monotonic() < until:
            reader, writer = multiprocessing.Pipe(duplex=False)
            place = (self.args.seed, first, last, until, self.args.only, self.place, self.since, _Sender(writer))
            process = multiprocessing.Process(target=put, args=place)
            process.start()
            writer.close()
            reached, ended = self._listen(reader, process)
            if ended:
                return
            first = max(first, reached) + 1

    def _listen(self, reader: Any, process: multiprocessing.Process) -> tuple[int, bool]:
        """Answers of one process, to its end: the last input it began, and whether it got through."""
        while True:
            try:
                if reader.poll(1.0):
                    number, target, seconds, found, kept = reader.recv()
                    if number < 0:
                        self.peak = max(self.peak, seconds)
                        process.join()
                        return number, True
                    self._count(target, seconds, found, kept)
                    continue
            except EOFError:
                process.join()
                self._lost(f"died: exit code {process.exitcode}")
                return self.place.value, False
            if time.monotonic() - self.since.value > HANG and self.since.value:
                process.kill()
                process.join()
                self._lost(f"hangs: more than {HANG:.0f} s")
                return self.place.value, False

    def _count(self, target: str, seconds: float, found: str | None, kept: str | None) -> None:
        self.inputs[target] += 1
        self.slowest[target] = max(self.slowest[target], seconds if found is None else 0.0)
        if found is not None and kept is not None:
            self._defect(found, kept)
        if time.monotonic() - self.said > 60:
            self.said = time.monotonic()
            print(f"{self.inputs.total():,} inputs, {self.defects.total()} defects", file=sys.stderr, flush=True)

    def _lost(self, what: str) -> None:
        made = sample(self.args.seed, self.place.value, self.args.only)
        self.inputs[made.target] += 1
        self._defect(f"{what} ({made.target})", dump(made, f"{self.args.seed}:{self.place.value} {what}"))

    def _defect(self, found: str, kept: str) -> None:
        self.defects[group(found)] += 1
        if self.defects[group(found)] > 3:
            return
        self.args.out.mkdir(parents=True, exist_ok=True)
        name = re.sub(r"\W+", "-", group(found)).strip("-")[:60]
        path = self.args.out / f"{name}-{self.defects[group(found)]}.json"
        path.write_text(kept)
        print(f"{found}\n  {path}", flush=True)

    def report(self) -> str:
        minutes = (time.monotonic() - self.started) / 60
        lines = [f"{'input':<12}{'inputs':>10}{'slowest, s':>12}"]
        lines += [f"{name:<12}{self.inputs[name]:>10,}{self.slowest[name]:>12.2f}" for name in TARGETS if self.inputs[name]]
        total = self.inputs.total()
        lines.append(f"{'all':<12}{total:>10,}{max(self.slowest.values(), default=0.0):>12.2f}")
        lines.append(
            f"seed {self.args.seed}: {total:,} inputs in {minutes:.1f} minutes, {self.defects.total()} defects of "
            f"{len(self.defects)} classes, peak memory {self.peak / 1024:.0f} MB"
        )
        return "\n".join([*lines, *(f"{count:>6} {name}" for name, count in self.defects.most_common())])


class _Sender:
    """A pipe's end with the method of a queue: what is put is there before the next input begins."""

    def __init__(self, writer: Any) -> None:
        self.writer = writer

    def put(self, message: Any) -> None:
        self.writer.send(message)


def one(made: Sample) -> int:
    """Run one sample in this process and print what it is and what is wrong with it."""
    with workshop() as folder:
        started = time.monotonic()
        found = problem(made, folder)
        print(dump(made, found or "answered"), end="")
        print(f"{found or 'answered'} ({time.monotonic() - started:.2f} s)")
    return int(found is not None)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--start", type=int, default=0, help="number of the first input")
    parser.add_argument("--only", choices=TARGETS)
    parser.add_argument("--out", type=Path, default=Path(tempfile.gettempdir(), f"mbpack-fuzz-{os.getpid()}"))
    parser.add_argument("--show", metavar="SEED:NUMBER")
    parser.add_argument("--crash", type=Path)
    args = parser.parse_args()
    if args.crash:
        return one(load(args.crash))
    if args.show:
        seed, _, number = args.show.partition(":")
        return one(sample(int(seed), int(number), args.only))
    run = Run(args)
    run.go()
    print(run.report())
    return int(bool(run.defects))


if __name__ == "__main__":
    sys.exit(main())
