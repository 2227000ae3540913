"""Packing inside the job: who waits, how long it takes, and who sees the result."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.run import Run
from mbpack.config.settings import Unknown
from mbpack.facts.artifacts import (
    CACHE_VARIABLES,
    COLLECTIVE_TIMEOUT,
    LARGE_HOST_MEMORY,
    PACKED_ROWS_PER_SECOND,
    PACKING_BYTES_PER_TOKEN,
)
from mbpack.facts.classes import DatasetKind
from mbpack.facts.keys import SPECS
from mbpack.facts.releases import R03, R05, R06
from mbpack.rules.base import Finding, Fix, Rule, words
from mbpack.rules.packs.lookup import HF_ROOT, HF_SOURCE, ROOT, WARN_CRASH_DATA, WORKERS, downloads, prepares, ready

PACK_FIRST = "pack before the run, in a job of its own"


def nodes(run: Run) -> int:
    """Number of nodes; one GPU is one node. Raises Unknown without ``--nodes``."""
    if run.context.nodes is not None:
        return run.context.nodes
    if run.context.gpus == 1:
        return 1
    raise Unknown("nodes", ("nodes",))


class PackInsideJob(Rule):
    """Packing a large data set inside the job outlasts the other ranks' patience.

    Rank 0 packs alone while all others wait in a collective, which gives up after ten minutes in groups that keep the
    default. Reported: 1.4 million rows take about 25 minutes, and one million have timed out.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    # found: {training: {missing: true}, raw: {lines: 1400000}}
    dataset: {dataset_root: data/sft, hf_dataset: null, hf_validation_proportion: null}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    # found: {training: {missing: true}, raw: {lines: 20000}}
    dataset: {dataset_root: data/sft, hf_dataset: null, hf_validation_proportion: null}
    ```

    ## Upstream
    - 0.3 to 0.5: `data/builders/finetuning_dataset.py`, `build`
    - 0.6, 0.7: `data/builders/gpt_sft.py`, `GPTSFTDatasetBuilder.build`
    """

    code, slug = "DAT118", "data/pack-inside-job"

    def check(self, run: Run) -> Iterator[Finding]:
        if not prepares(run) or ready(run) or not run.evidence.split("training").missing or run.context.gpus == 1:
            return
        lines = run.evidence.raw.lines
        if lines is None:
            return
        seconds = lines / PACKED_ROWS_PER_SECOND
        if seconds <= COLLECTIVE_TIMEOUT:
            return
        yield self.finding(
            run,
            WARN_CRASH_DATA,
            ROOT if run.is_set(ROOT) else SPECS,
            f"packing about {lines:,} rows inside the job likely outlasts the ranks that wait for it",
            why=f"Reported speed: {PACKED_ROWS_PER_SECOND} rows a second, about {seconds / 60:.0f} minutes on rank 0;"
            f" groups that dist.distributed_timeout_minutes does not reach give up after {COLLECTIVE_TIMEOUT // 60}.",
            related=("dist.distributed_timeout_minutes", WORKERS),
            fix=Fix(PACK_FIRST),
        )


class HostMemory(Rule):
    """Packing holds all rows in memory at once.

    Tokens are kept as Python objects until the last row is packed. Reported: 700,000 samples at 32k ran out of host
    memory; before 0.6 many tokenizer workers also run out of shared memory.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    # found: {training: {missing: true}, raw: {lines: 700000}, lengths: {32000: 700000}}
    dataset: {dataset_root: data/sft, hf_dataset: null, hf_validation_proportion: null}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    # found: {training: {missing: true}, raw: {lines: 700000}, lengths: {300: 700000}}
    dataset: {dataset_root: data/sft, hf_dataset: null, hf_validation_proportion: null}
    ```

    ## Upstream
    - 0.3 to 0.5: `data/datasets/packed_sequence.py`, `tokenize_dataset`
    - 0.6, 0.7: `data/packing/offline.py`, `tokenize_dataset`
    """

    code, slug = "DAT119", "data/host-memory"
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        if not prepares(run) or ready(run) or not run.evidence.split("training").missing:
            return
        lengths, raw = run.evidence.raw_lengths, run.evidence.raw_data
        if lengths is not None:
            tokens: float = sum(length * rows for length, rows in lengths.items())
            how = f"{sum(lengths.values()):,} rows with {tokens:,} tokens"
        elif raw is not None and raw.bytes is not None:
            tokens, how = raw.bytes / 4, f"{raw.bytes / 1e9:,.0f} GB of text, about four bytes a token"
        else:
            return
        memory = tokens * PACKING_BYTES_PER_TOKEN
        if memory < LARGE_HOST_MEMORY:
            return
        yield self.finding(
            run,
            WARN_CRASH_DATA,
            WORKERS if run.wrote(WORKERS) else ROOT if run.is_set(ROOT) else SPECS,
            f"packing holds all data in memory: likely {memory / 1e9:,.0f} GB on one node",
            why=f"{how}, about {PACKING_BYTES_PER_TOKEN} bytes a token while they are Python objects.",
            fix=Fix("shards that are packed one by one on a host with much memory, with one tokenizer worker"),
        )


class MultinodeVisibility(Rule):
    """Up to 0.5 other nodes may not see packs that rank 0 has just written.

    On a network file system a client keeps what it knows of a directory for a while. The barrier after packing does not
    change that: a node that finds nothing goes on without a dataset and fails at the first batch. 0.6 looks again.

    ## Bad
    ```yaml
    # mbpack: bridge=0.5 recipe=llama3_8b_sft_config gpus=16 nodes=2 launcher=script
    dataset: {dataset_root: shared/data}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.5 recipe=llama3_8b_sft_config gpus=16 nodes=2 launcher=script
    # found: {training: {rows: 100}, validation: {rows: 10}}
    dataset: {dataset_root: shared/data}
    ```

    ## Upstream
    - 0.3 to 0.5: `data/builders/finetuning_dataset.py`, `build`
    - 0.6, 0.7: `data/packing/paths.py`, `resolve_packed_parquet_paths_with_retry`
    """

    code, slug = "DAT120", "data/multinode-visibility"
    releases = (R03, R05)

    def check(self, run: Run) -> Iterator[Finding]:
        if not prepares(run) or ready(run) or nodes(run) < 2:
            return
        yield self.finding(
            run,
            WARN_CRASH_DATA,
            ROOT if run.is_set(ROOT) else SPECS,
            f"packs built inside the job may stay invisible to the other nodes ({nodes(run)} nodes)",
            why="A network file system caches directories; a node that finds no packs goes on without a dataset.",
            fix=Fix(PACK_FIRST),
        )


class SharedCache(Rule):
    """Data that rank 0 downloads must be visible to every node.

    Without a folder of its own, a Hugging Face data set is written below the home directory of the first node
    (`~/.cache/nemo`, unless NEMO_DATASETS_CACHE or NEMO_HOME say otherwise). Other nodes do not find it there.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=16 nodes=2 launcher=script
    # found: {environ: {HOME: /root}}
    train: {global_batch_size: 128}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=16 nodes=2 launcher=script
    # found: {environ: {NEMO_HOME: /shared/nemo}}
    train: {global_batch_size: 128}
    ```

    ## Upstream
    - 0.3 to 0.5: `data/datasets/sft.py`, `get_dataset_root`
    - 0.6, 0.7: `data/datasets/gpt_sft.py`, `get_dataset_root`
    """

    code, slug = "DAT121", "data/shared-cache"

    def check(self, run: Run) -> Iterator[Finding]:
        if run.dataset is not DatasetKind.GPT_SFT or not downloads(run) or nodes(run) < 2:
            return
        environment = run.settings.environ
        if environment is None:
            raise Unknown(CACHE_VARIABLES[0], ("environment",))
        if any(environment.get(name) or run.maybe(f"env_vars.{name}") for name in CACHE_VARIABLES):
            return
        key = HF_SOURCE if run.release >= R06 else "dataset.dataset_name"
        yield self.finding(
            run,
            WARN_CRASH_DATA,
            key,
            f"the data cache is local to the first of {nodes(run)} nodes: {words(CACHE_VARIABLES, 'or')} is not set",
            why="Rank 0 downloads and packs below its home directory; the other nodes look into theirs.",
            related=(ROOT,),
            fix=Fix(
                f"export {CACHE_VARIABLES[0]} to a shared folder"
                + (f", or {HF_ROOT.partition('.')[2]} on one" if run.release >= R06 else ", or set dataset_root")
            ),
        )


RULES: tuple[Rule, ...] = (
    PackInsideJob(),
    HostMemory(),
    MultinodeVisibility(),
    SharedCache(),
)
