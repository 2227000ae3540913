"""Files and rows of packed data, as they were found on disk."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.evidence import Packs, RowStatistics
from mbpack.config.in_effect import PACK_SIZE, TRAIN_PACKS, pack_size
from mbpack.config.run import Run
from mbpack.facts.artifacts import COLUMNS, NPY_SUFFIX, PARQUET_SUFFIXES, glob_characters
from mbpack.facts.releases import NIGHTLY, R04, R06
from mbpack.rules.base import CRASH_DATA, CRASH_STEP, NOTE, SILENT, Finding, Fix, Rule, words
from mbpack.rules.packs.lookup import PATHS, WARN_CRASH_DATA, WARN_SILENT, given, is_npy, prepares, splits

REBUILD = Fix("rebuild the packs")


def seen_splits(run: Run) -> Iterator[Packs]:
    """Packs that were found on disk. Raises Unknown when nobody looked."""
    for split in splits(run):
        seen = run.evidence.split(split) if split == "training" else run.evidence.packs.get(split)
        if seen is not None and not seen.missing:
            yield seen


def scanned(run: Run) -> Iterator[tuple[Packs, RowStatistics]]:
    """Packs whose rows were read. Raises Unknown, after those, when the training packs are there and were not."""
    for split in splits(run):
        seen = run.evidence.packs.get(split)
        if seen is not None and seen.statistics is not None:
            yield seen, seen.statistics
    if not run.evidence.split("training").missing:
        run.evidence.statistics("training")


def plural(number: int, word: str) -> str:
    """A number with its word."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


class ParquetColumns(Rule):
    """Parquet packs need three list columns and at least one row.

    Every file behind the path is opened before training: `input_ids`, `loss_mask` and `seq_start_id` must be there, as
    lists of whole numbers, and the rows must not be none.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    # found: {training: {rows: 100, columns: [input_ids, loss_mask]}}
    dataset: {offline_packing_specs: {packed_train_data_path: packs/train.parquet}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    # found: {training: {rows: 100, columns: [input_ids, loss_mask, seq_start_id]}}
    dataset: {offline_packing_specs: {packed_train_data_path: packs/train.parquet}}
    ```

    ## Upstream
    - 0.4, 0.5: `data/datasets/packed_parquet.py`, `GPTSFTPackedParquetDataset._load_dataset`
    - 0.6, 0.7: `data/packing/parquet.py`, `GPTSFTPackedParquetDataset._load_dataset`
    """

    code, slug = "DAT111", "data/parquet-columns"
    releases = (R04, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        if not prepares(run):
            return
        for seen in seen_splits(run):
            problem = self._problem(seen)
            if problem:
                yield self.finding(
                    run,
                    CRASH_DATA,
                    PATHS[seen.split],
                    problem,
                    why="The dataset refuses to open such packs, on every rank.",
                    fix=REBUILD,
                )

    @staticmethod
    def _problem(seen: Packs) -> str | None:
        shards = [shard for shard in seen.shards if not is_npy(shard.path)]
        for shard in shards:
            if shard.problem:
                return f"{shard.path} cannot be used as packed rows: {shard.problem}"
            lacking = [name for name in COLUMNS if shard.columns is not None and name not in shard.columns]
            if lacking:
                return f"{shard.path} lacks {words(lacking)}"
        return f"{seen.path} holds no rows" if shards and seen.rows == 0 else None


class RowInvariants(Rule):
    """Training does not check packed rows; a broken one trains on nonsense.

    A row's `loss_mask` has the length of its `input_ids` and holds 0 and 1; `seq_start_id` starts with 0, rises, and
    leaves every sample at least one token. Upstream has such a check, but training does not call it.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    # found: {training: {rows: 100, broken: ["train.parquet row 7: seq_start_id does not start with 0"]}}
    dataset: {offline_packing_specs: {packed_train_data_path: packs/train.parquet}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    # found: {training: {rows: 100, lengths: {512: 100}}}
    dataset: {offline_packing_specs: {packed_train_data_path: packs/train.parquet}}
    ```

    ## Upstream
    - 0.4, 0.5: `data/datasets/packed_parquet.py`, `GPTSFTPackedParquetDataset.validate_row`
    - 0.6, 0.7: `data/packing/parquet.py`, `GPTSFTPackedParquetDataset.validate_row`
    """

    code, slug = "DAT112", "data/row-invariants-not-checked"
    releases = (R04, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        if not prepares(run):
            return
        for seen, found in scanned(run):
            if found.broken_rows:
                yield self.finding(
                    run,
                    SILENT,
                    PATHS[seen.split],
                    f"{plural(found.broken_rows, 'row')} of the {seen.split} packs broken: {''.join(found.broken[:1])}",
                    why="Rows are not checked in training: boundaries or masks are then taken from the wrong tokens.",
                    fix=REBUILD,
                )
            vocabulary = run.maybe("model.vocab_size")
            if isinstance(vocabulary, int) and 0 < vocabulary <= found.largest_token:
                yield self.finding(
                    run,
                    CRASH_STEP,
                    PATHS[seen.split],
                    f"the {seen.split} packs hold token {found.largest_token:,}, the vocabulary ends at {vocabulary:,}",
                    why="They were made with another tokenizer; looking the token up fails.",
                    related=("model.vocab_size",),
                    fix=Fix("rebuild the packs with the tokenizer of the model"),
                )


class RowLongerThanPack(Rule):
    """A packed row must fit the pack size of the run.

    What counts are the samples without their last label token. A longer row does not fit the width the run was built
    for: collating it fails.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    # found: {training: {rows: 100, longest_row: 4200}}
    dataset: {offline_packing_specs: {packed_train_data_path: packs/train.parquet}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    # found: {training: {rows: 100, longest_row: 4096}}
    dataset: {offline_packing_specs: {packed_train_data_path: packs/train.parquet}}
    ```

    ## Upstream
    - 0.3 to 0.5: `data/datasets/sft.py`, `GPTSFTPackedDataset.collate_fn`
    - 0.6, 0.7: `data/packing/gpt_sft.py`, `GPTSFTPackedDataset.collate_fn`
    """

    code, slug = "DAT113", "data/row-longer-than-pack"

    def check(self, run: Run) -> Iterator[Finding]:
        if not prepares(run):
            return
        size = pack_size(run)
        if size is None:
            return
        for seen, found in scanned(run):
            if found.longest_row > size:
                where = f" ({found.longest_at})" if found.longest_at else ""
                yield self.finding(
                    run,
                    CRASH_STEP,
                    PATHS[seen.split],
                    f"a row of {found.longest_row:,} tokens{where} does not fit packed_sequence_size {size:,}",
                    why="The row is wider than the run's buffers; collating it fails when its turn comes.",
                    related=(PACK_SIZE,),
                    fix=Fix(f"packed_sequence_size and seq_length of at least {found.longest_row}, or smaller packs"),
                )


class PackLoadExit(Rule):
    """An unreadable `.npy` pack ends the process without an exception.

    The loader logs an error and exits with code 1, on every rank. From 0.4 on the restricted unpickler also refuses a
    file that holds anything but plain containers and numbers.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    # found: {training: {path: packs/train.npy, problem: the magic string is not correct}}
    dataset: {offline_packing_specs: {packed_train_data_path: packs/train.npy}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    # found: {training: {path: packs/train.npy, rows: 100}}
    dataset: {offline_packing_specs: {packed_train_data_path: packs/train.npy}}
    ```

    ## Upstream
    - 0.3 to 0.5: `data/datasets/sft.py`, `GPTSFTPackedDataset._load_dataset`
    - 0.6, 0.7: `data/packing/gpt_sft.py`, `GPTSFTPackedDataset._load_dataset`
    """

    code, slug = "DAT136", "data/pack-load-exit"

    def check(self, run: Run) -> Iterator[Finding]:
        if not prepares(run):
            return
        for split in splits(run):
            if not is_npy(given(run, split)):
                continue
            for shard in run.evidence.split(split).shards:
                if shard.problem:
                    yield self.finding(
                        run,
                        CRASH_DATA,
                        PATHS[split],
                        f"this .npy pack cannot be read: {shard.problem}",
                        why="The loader prints an error and ends the process with code 1; there is no traceback.",
                        fix=REBUILD,
                    )


class PyarrowInt8(Rule):
    """Packs of 0.4 and 0.5 hold the loss mask as true and false, later ones as 0 and 1.

    Both are read by both. The kind only tells which release wrote the packs.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    # found: {training: {rows: 100, mask_type: bool}}
    dataset: {offline_packing_specs: {packed_train_data_path: packs/train.parquet}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    # found: {training: {rows: 100, mask_type: int8}}
    dataset: {offline_packing_specs: {packed_train_data_path: packs/train.parquet}}
    ```

    ## Upstream
    - 0.4, 0.5: `data/datasets/packed_parquet.py`, `write_packed_parquet`
    - 0.6, 0.7: `data/packing/parquet.py`, `write_packed_parquet`
    """

    code, slug = "DAT137", "data/pyarrow-int8"
    notes_only = True
    releases = (R04, NIGHTLY)
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        if not prepares(run):
            return
        for seen in seen_splits(run):
            kinds = {shard.mask_type for shard in seen.shards if shard.mask_type}
            old = kinds == {"bool"}
            if len(kinds) == 1 and old == (run.release >= R06):
                yield self.finding(
                    run,
                    NOTE,
                    PATHS[seen.split],
                    f"written by {'0.4 or 0.5' if old else '0.6 or later'}: loss_mask is a list of {kinds.pop()}",
                    why="They are read all the same.",
                )


class BlendGlob(Rule):
    """One pattern over several packed sources: rows must add up, names must not collide.

    A pattern mixes its files by their sizes, there are no weights. Where links collide, only the last source is
    trained on; where a link leads nowhere, opening the packs fails.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    # found: {training: {rows: 300}, metadata: [{packing_factor: 2.0, rows: 900}]}
    dataset: {offline_packing_specs: {packed_train_data_path: "splits/train/*.parquet"}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    # found: {training: {rows: 900}, metadata: [{packing_factor: 2.0, rows: 900}]}
    dataset: {offline_packing_specs: {packed_train_data_path: "splits/train/*.parquet"}}
    ```

    ## Upstream
    - 0.4, 0.5: `data/datasets/packed_parquet.py`, `_resolve_parquet_paths`
    - 0.6, 0.7: `data/packing/paths.py`, `_resolve_parquet_paths`
    """

    code, slug = "DAT138", "data/blend-glob"
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        path = given(run, "training") if prepares(run) else None
        if path is None or not _is_many(run, path):
            return
        seen = run.evidence.files()
        yield from self._links(run, seen)
        rows, spoken_of = seen.rows, run.evidence.metadata.rows
        if rows is not None and spoken_of is not None and rows != spoken_of:
            yield self.finding(
                run,
                WARN_SILENT,
                TRAIN_PACKS,
                f"the path resolves to {rows:,} rows in {len(seen.shards)} files, the metadata speak of {spoken_of:,}",
                why="A source whose files or links are missing, or overwrote each other, is not trained on.",
                fix=Fix("one name per source, and every source behind the path"),
            )

    def _links(self, run: Run, seen: Packs) -> Iterator[Finding]:
        if seen.dangling:
            yield self.finding(
                run,
                WARN_CRASH_DATA,
                TRAIN_PACKS,
                f"{len(seen.dangling)} of the links behind this path lead nowhere, first {seen.dangling[0]}",
                fix=Fix("remove or mend the links"),
            )
        if seen.duplicates:
            yield self.finding(
                run,
                WARN_SILENT,
                TRAIN_PACKS,
                f"{len(seen.duplicates)} names behind this path lead to a file that is already there",
                why="Its rows are trained on more than once.",
                fix=Fix("one name for each file"),
            )


def _is_many(run: Run, path: str) -> bool:
    """Whether a path can stand for several files: a pattern or a directory."""
    if any(sign in path for sign in glob_characters(run.release)):
        return True
    return not path.lower().endswith((*PARQUET_SUFFIXES, NPY_SUFFIX))


RULES: tuple[Rule, ...] = (
    ParquetColumns(),
    RowInvariants(),
    RowLongerThanPack(),
    PackLoadExit(),
    PyarrowInt8(),
    BlendGlob(),
)
