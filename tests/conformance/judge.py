"""Batches of rows to the real packages, verdicts back, and the slug of the check that fired first."""

from __future__ import annotations

import json
import subprocess
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any

from . import classify
from .engine import trees
from .real import environments

Row = dict[str, Any]
Verdict = dict[str, Any]


class WorkerFailed(Exception):
    """A worker process ended early; the message ends with what it wrote to stderr."""


class Judge:
    """Worker processes of one release (or tree), kept open: start-up takes seconds, a row about 20 ms."""

    def __init__(self, release: str, jobs: int = 1, gpu: str = "H100") -> None:
        self.release, self.jobs, self.gpu = release, jobs, gpu
        self._idle: list[subprocess.Popen[str]] = []
        self._complaints: dict[int, IO[str]] = {}  # what each worker wrote to stderr
        self._lock = threading.Lock()

    def judge(self, rows: list[Row]) -> list[Verdict]:
        """One verdict per row, in order, with `expect` (accepted, rejected) and `check` (a slug, or null) filled in."""
        jobs = max(1, min(self.jobs, len(rows)))
        parts = [rows[i::jobs] for i in range(jobs)]
        with ThreadPoolExecutor(jobs) as pool:
            answers = list(pool.map(self._part, parts))
        verdicts = [answers[i % jobs][i // jobs] for i in range(len(rows))]
        for verdict in verdicts:
            verdict["expect"] = "accepted" if verdict["accepted"] else "rejected"
            verdict["check"] = None if verdict["accepted"] else classify.slug_of(verdict)
        return verdicts

    def close(self) -> None:
        while self._idle:
            worker = self._idle.pop()
            assert worker.stdin is not None
            worker.stdin.close()
            worker.wait(timeout=60)

    def __enter__(self) -> Judge:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _part(self, rows: list[Row]) -> list[Verdict]:
        worker = self._take()
        assert worker.stdin is not None
        assert worker.stdout is not None
        verdicts = []
        for row in rows:
            worker.stdin.write(json.dumps(row) + "\n")
            worker.stdin.flush()
            line = worker.stdout.readline()
            if not line:
                code, complaints = worker.wait(), self._complaints[worker.pid]
                complaints.seek(0)
                last = complaints.read().strip().rpartition("\n")[2]
                raise WorkerFailed(f"the worker of {self.release} ended at row {row['id']} (exit code {code}): {last}")
            verdicts.append(json.loads(line))
        with self._lock:
            self._idle.append(worker)
        return verdicts

    def _take(self) -> subprocess.Popen[str]:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        arguments, env = environments.command(self.release, "judge", self.gpu, trees.find(self.release))
        errors = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 - it lives as long as the worker
        worker = subprocess.Popen(arguments, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, stderr=errors)
        self._complaints[worker.pid] = errors
        return worker


def load_recipes(release: str) -> dict[str, Any]:
    """Recipe name -> main values, of the recipes that build without a network.

    Left out are those that are refused unchanged for a reason without a rule: the shapes are then too far from the real model's.
    Building them all takes a minute or two, so the list is kept beside the packages until these tools change.
    """
    arguments, env = environments.command(release, "recipes", place=trees.find(release))
    kept = environments.folder() / f"recipes-{release}-{environments.digest()}.json"
    if not kept.exists():
        done = subprocess.run(arguments, env=env, capture_output=True, text=True)
        if done.returncode:
            raise WorkerFailed(f"listing the recipes of {release} failed: {done.stderr[-800:]}")
        kept.write_text(done.stdout)
    return {name: values for name, values in json.loads(kept.read_text()).items() if _usable(values)}


def _usable(values: dict[str, Any]) -> bool:
    alone = values.get("alone")
    return alone is not None and (alone["accepted"] or classify.claimed(classify.slug_of(alone)))
