"""Numbers about packed data, as people ask for them: per split, and per optimizer step where the batch is known."""

from __future__ import annotations

from functools import reduce
from math import gcd
from typing import Any

from mbpack.config.evidence import Evidence, Packs, RowStatistics
from mbpack.config.run import Run
from mbpack.config.settings import Unknown, WrongKind
from mbpack.facts.artifacts import packed_batches, steps_per_epoch
from mbpack.facts.formulas import bubble_share
from mbpack.facts.releases import R06


def summarise(evidence: Evidence, run: Run) -> dict[str, Any]:
    """Plain data: ``splits`` (counts, tokens, shares from 0 to 1), ``metadata`` and ``step``; unknown is left out."""
    size = _number(run, "dataset.offline_packing_specs.packed_sequence_size")
    summary: dict[str, Any] = {"splits": {name: _split(packs, size) for name, packs in evidence.packs.items()}}
    found = evidence.metadata_file
    if found is not None:
        summary["metadata"] = {"path": found.path, "exists": found.exists}
        if found.entries is not None:
            summary["metadata"]["entries"] = [dict(entry) for entry in found.entries]
        if found.problem:
            summary["metadata"]["problem"] = found.problem
    step = _step(evidence, run)
    if step:
        summary["step"] = step
    return summary


def _split(packs: Packs, size: int | None) -> dict[str, Any]:
    split: dict[str, Any] = {"path": packs.path, "files": len(packs.shards)}
    if packs.rows is not None:
        split["rows"] = packs.rows
    found = packs.statistics
    if found is not None and found.samples:
        split.update(_rows(found, size))
    return split


def _rows(found: RowStatistics, size: int | None) -> dict[str, Any]:
    numbers: dict[str, Any] = {
        "samples": found.samples,
        "tokens": found.tokens,
        "samples_per_row": round(found.samples / found.rows, 2),
        "most_samples": found.most_samples,
        "longest_sample": max(found.lengths),
        "longest_row": found.longest_row,
        "shortest_row": found.shortest_row,
        "aligned_to": reduce(gcd, found.lengths),
        "supervised": round(found.density or 0.0, 4),
        "rows_without_loss": found.rows_without_loss,
        "broken_rows": found.broken_rows,
        "largest_token": found.largest_token,
    }
    if size is not None and size > 0:
        numbers["efficiency"] = round(found.tokens / found.rows / size, 4)
    return numbers


def _step(evidence: Evidence, run: Run) -> dict[str, Any]:
    """What one optimizer step and one epoch hold, as far as the global batch is known."""
    gbs, packs = _number(run, "train.global_batch_size"), evidence.packs.get("training")
    rows = packs.rows if packs is not None else None
    if gbs is None or gbs <= 0 or rows is None or packs is None:
        return {}
    keeps = run.release >= R06 and run.maybe("train.num_epochs") is not None
    step: dict[str, Any] = {"global_batch_size": gbs, "steps_per_epoch": steps_per_epoch(rows, gbs, keeps)}
    iterations = _number(run, "train.train_iters")
    if iterations and step["steps_per_epoch"]:
        step["epochs"] = round(iterations / step["steps_per_epoch"], 2)
    found = packs.statistics
    if found is not None and found.samples:
        step["tokens"] = round(gbs * found.tokens / found.rows)
        step["samples"] = round(gbs * found.samples / found.rows)
    try:
        if found is not None and found.packing_factor:
            step["packs_for_as_many_samples"] = packed_batches(gbs, found.packing_factor, run.dp)
        if run.pp > 1:
            step["pipeline_bubble"] = round(bubble_share(run.pp, run.microbatches.value, run.vpp or 1).value, 4)
    except (Unknown, WrongKind):
        pass
    return step


def _number(run: Run, key: str) -> int | None:
    value = run.maybe(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
