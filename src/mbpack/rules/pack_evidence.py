"""What packs on disk add to rules that also judge the configuration alone.

Each function is called by the rule it belongs to, after that rule's own checks, and raises
:class:`~mbpack.config.settings.Unknown` where nobody looked at the disk.
"""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.in_effect import PACK_SIZE, PAD_MULT, count, likely_multiple
from mbpack.config.run import Run
from mbpack.facts.artifacts import MANY_SAMPLES
from mbpack.facts.releases import R05, R06
from mbpack.rules.base import CRASH_DATA, SILENT, Finding, Fix, Rule
from mbpack.rules.pack_lookup import PATHS, WARN_NOTE, pieces, prepares
from mbpack.rules.packed_shards import plural, seen_splits

GBS = "train.global_batch_size"


def misaligned_rows(rule: Rule, run: Run) -> Iterator[Finding]:
    """Samples in the packs that context parallelism would cut in the middle (``align/pad-seq-to-mult-cp``)."""
    if not prepares(run):
        return
    cut = pieces(run)
    if cut == 1:
        return
    needed = likely_multiple(run)
    for seen in seen_splits(run):
        found = run.evidence.statistics(seen.split)
        wrong = found.misaligned(cut)
        if wrong:
            examples = ", ".join(str(length) for length in found.misaligned_examples(cut))
            yield rule.finding(
                run,
                SILENT,
                PATHS[seen.split],
                f"{plural(wrong, 'sample')} of {found.samples:,} in the {seen.split} packs are not a multiple of {cut}"
                f" (lengths {examples})",
                why=f"Context parallelism cuts every sample into {cut} pieces; what is left over is dropped or lands on"
                " another rank, whatever pad_seq_to_mult and the directory's name say.",
                related=(PAD_MULT, "model.context_parallel_size"),
                fix=Fix(f"rebuild the packs with pad_seq_to_mult: {needed.value} ({needed.because})"),
            )


def too_few_rows(rule: Rule, run: Run) -> Iterator[Finding]:
    """Fewer packed rows than one global batch (``gbs/not-enough-rows``)."""
    if not prepares(run) or run.value("dataset.drop_last", True) is False:
        return
    if run.value("dataset.dataloader_type") == "external" or (run.release >= R06 and run.is_set("train.num_epochs")):
        return
    gbs = count(run, GBS)
    if gbs is None:
        return
    rows = run.evidence.rows()
    if rows < gbs:
        yield rule.finding(
            run,
            CRASH_DATA,
            GBS,
            f"the training packs hold {plural(rows, 'row')}, fewer than one global batch of {gbs}",
            why="The incomplete batch is dropped, which leaves none: "
            + ("the loader is likely empty." if run.release < R05 else "the start of training stops with an error."),
            related=(PACK_SIZE, PATHS["training"]),
            fix=Fix(f"global_batch_size of at most {rows}, or smaller packs"),
        )


def samples_per_step(rule: Rule, run: Run) -> Iterator[Finding]:
    """A global batch of packs that holds very many samples (``gbs/tokens-per-step``)."""
    if not prepares(run):
        return
    gbs = count(run, GBS)
    factors = run.evidence.metadata.numbers("packing_factor")
    if not factors or gbs is None or gbs <= 0:
        return
    factor = factors[0]  # entries are in the order train, validation
    samples = gbs * factor
    if factor < 2 or samples < MANY_SAMPLES:
        return
    unit = run.dp
    near = gbs / factor
    sizes = sorted({max(unit, int(near // unit) * unit), max(unit, -(-int(near) // unit) * unit)})
    yield rule.finding(
        run,
        WARN_NOTE,
        GBS,
        f"one step averages about {samples:,.0f} samples: global_batch_size {gbs} packs of {factor:g} samples",
        why=f"If {gbs} was chosen for single samples, the same step is about {near:.0f} packs; an epoch now has fewer"
        " optimizer steps at the same learning rate.",
        related=(PACK_SIZE,),
        fix=Fix(f"global_batch_size: {' or '.join(map(str, sizes))} (a multiple of DP {unit})"),
    )
