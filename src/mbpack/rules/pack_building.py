"""Packing inside the job: who waits, who sees the result, how long it takes, when it happens again."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.in_effect import PAD_MULT
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
from mbpack.facts.releases import NIGHTLY, R03, R04, R05, R06
from mbpack.rules.base import Finding, Fix, Outcome, Rule, set_to, words
from mbpack.rules.pack_lookup import (
    DO_VALIDATION,
    HF_ROOT,
    HF_SOURCE,
    KWARGS,
    ROOT,
    TOKENIZER_NAME,
    TOKENIZER_TYPE,
    WARN_CRASH_DATA,
    WARN_SILENT,
    WORKERS,
    all_given,
    downloads,
    given,
    prepares,
    ready,
)

PACK_FIRST = "pack before the run, in a job of its own"


def nodes(run: Run) -> int:
    """Number of nodes; one GPU is one node. Raises Unknown without ``--nodes``."""
    if run.context.nodes is not None:
        return run.context.nodes
    if run.context.gpus == 1:
        return 1
    raise Unknown("nodes", ("nodes",))


class StalePacks(Rule):
    """Packs that exist are used again, also when what they were made from has changed.

    The builder looks for a directory and a file name. Up to 0.5 these carry only the tokenizer's name, the padding
    multiple and the pack size: another seq_length, chat template or seed is not seen. From 0.6 on a fingerprint covers
    the settings, but never the raw data: a changed JSONL file still gives the old packs.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    # found: {training: {rows: 100, explicit: false, modified: 1000}, raw: {modified: 2000}}
    dataset: {dataset_root: data/sft, hf_dataset: null, hf_validation_proportion: null}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    # found: {training: {rows: 100, explicit: false, modified: 2000}, raw: {modified: 1000}}
    dataset: {dataset_root: data/sft, hf_dataset: null, hf_validation_proportion: null}
    ```

    ## Upstream
    - 0.3 to 0.5: `data/builders/finetuning_dataset.py`, `prepare_packed_data`
    - 0.6, 0.7: `data/builders/gpt_sft.py`, `_packing_fingerprint`, `_prepare_packed_split`
    """

    code, slug = "DAT115", "data/stale-packs"

    def check(self, run: Run) -> Iterator[Finding]:
        if not prepares(run) or given(run, "training") is not None or run.is_true("dataset.hf_rewrite"):
            return
        seen = run.evidence.files()
        times = [shard.modified for shard in seen.shards if shard.modified is not None]
        raw = run.evidence.raw
        if raw.modified is not None and times and min(times) < raw.modified:
            yield self.finding(
                run,
                WARN_SILENT,
                ROOT if run.is_set(ROOT) else SPECS,
                f"the packs are older than the raw data in {raw.root}: they are used as they are",
                why="Nothing compares the two; training goes on with the data of before.",
                fix=Fix("delete the packed directory (packs and metadata)"),
            )
        length = run.number("dataset.seq_length")
        if run.release > R05 or length is None:
            return
        longest = max(run.evidence.statistics().lengths, default=0)
        if longest > length:
            yield self.finding(
                run,
                WARN_SILENT,
                "dataset.seq_length",
                f"the packs hold a sample of {longest:,} tokens, dataset.seq_length is {length:,}",
                why=f"They were built with another seq_length, which the names of {run.release} do not carry.",
                fix=Fix("delete the packed directory (packs and metadata)"),
            )


class FingerprintRepack(Rule):
    """Any change of the data settings packs again, silently and on one rank.

    The fingerprint in the builder's directory name covers seq_length, seed, preprocessing and all of `dataset_kwargs`,
    also keys that packing does not depend on. Where it changes, rank 0 packs anew while the others wait.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    # found:
    #   training: {missing: true, explicit: false}
    #   own_directory: m_pad_seq_to_mult1_sft_000000000001
    #   other_directories: [m_pad_seq_to_mult1_sft_000000000002]
    dataset: {dataset_root: data/sft, hf_dataset: null, hf_validation_proportion: null}
    ```

    ## Upstream
    - 0.6, 0.7: `data/builders/gpt_sft.py`, `_packing_fingerprint`
    """

    code, slug = "DAT117", "data/fingerprint-repack"
    releases = (R06, NIGHTLY)
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        if not prepares(run) or given(run, "training") is not None:
            return
        own = run.evidence.own_directory
        if own is None or not run.evidence.split("training").missing:
            return
        stem = own.rpartition("_sft_")[0]
        others = [name for name in run.evidence.other_directories if name.rpartition("_sft_")[0] == stem]
        if others:
            yield self.finding(
                run,
                Outcome("info", "waste", "data"),
                KWARGS if run.wrote(KWARGS) else SPECS,
                f"this run will pack again: its packs belong into {own}, which is not there; {others[-1]} is",
                why="Settings that the fingerprint covers differ (seq_length, seed, preprocessing or dataset_kwargs).",
                fix=Fix(f"the settings the packs were made with, or {PACK_FIRST}"),
            )


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
        seconds = (lines or 0) / PACKED_ROWS_PER_SECOND
        if lines is None or seconds <= COLLECTIVE_TIMEOUT:
            return
        yield self.finding(
            run,
            WARN_CRASH_DATA,
            ROOT if run.is_set(ROOT) else SPECS,
            f"packing about {lines:,} rows inside the job likely outlasts the ranks that wait for it",
            why=f"Reported speed: some {PACKED_ROWS_PER_SECOND} rows a second, so about {seconds / 60:.0f} minutes on rank 0;"
            f" a collective gives up after {COLLECTIVE_TIMEOUT // 60} where dist.distributed_timeout_minutes does not reach.",
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
    # found: {training: {missing: true}, raw: {lines: 700000, mean_tokens: 32000}}
    dataset: {dataset_root: data/sft, hf_dataset: null, hf_validation_proportion: null}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    # found: {training: {missing: true}, raw: {lines: 700000, mean_tokens: 300}}
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
        raw = run.evidence.raw
        if raw.mean_tokens is not None and raw.lines is not None:
            tokens, how = raw.lines * raw.mean_tokens, f"{raw.lines:,} rows x {raw.mean_tokens:,.0f} tokens"
        elif raw.bytes is not None:
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


class MissingValidationJsonl(Rule):
    """Offline packing wants a validation file; an unpacked run only warns.

    With `do_validation` (the default) the validation split is packed too. Without `validation.jsonl` that stops the
    run, unless its packs exist already.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    # found: {validation: {missing: true}, raw: {training: true, validation: false}}
    dataset: {dataset_root: data/sft, hf_dataset: null, hf_validation_proportion: null}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    # found: {validation: {missing: true}, raw: {training: true, validation: false}}
    dataset: {dataset_root: data/sft, hf_dataset: null, hf_validation_proportion: null, do_validation: false}
    ```

    ## Upstream
    - 0.3 to 0.5: `data/datasets/packed_sequence.py`, `tokenize_dataset`
    - 0.6, 0.7: `data/packing/offline.py`, `tokenize_dataset`
    """

    code, slug = "DAT124", "data/missing-validation-jsonl"

    def check(self, run: Run) -> Iterator[Finding]:
        if not prepares(run) or not run.flag(DO_VALIDATION) or not run.is_set(ROOT):
            return
        if given(run, "validation") is not None:
            return
        raw, packs = run.evidence.raw, run.evidence.packs.get("validation")
        if raw.validation or not raw.training or (packs is not None and not packs.missing):
            return
        yield self.finding(
            run,
            WARN_CRASH_DATA,
            ROOT,
            f"{raw.root} has no validation.jsonl, and the validation split is to be packed",
            why="Packing it fails: FileNotFoundError." if run.release >= R06 else "Packing it fails: there is no dataset.",
            related=(DO_VALIDATION,),
            fix=Fix("do_validation: false, or a validation.jsonl", set_to(run, (DO_VALIDATION, False))),
        )


class TokenizerName(Rule):
    """Up to 0.5 the packs of a tokenizer that is not from Hugging Face have no stable place.

    Their directory is named after a hash that differs in every process: rank 0 packs into one directory, the others
    look into another, and the next run packs again. A name of your own settles it.

    ## Bad
    ```yaml
    # mbpack: bridge=0.5 recipe=llama3_8b_sft_config gpus=8 launcher=script
    tokenizer: {tokenizer_type: SentencePieceTokenizer}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.5 recipe=llama3_8b_sft_config gpus=8 launcher=script
    tokenizer: {tokenizer_type: SentencePieceTokenizer}
    dataset: {packed_sequence_specs: {tokenizer_model_name: my-tokenizer}}
    ```

    ## Upstream
    - 0.3 to 0.5: `data/builders/finetuning_dataset.py`, `_extract_tokenizer_model_name`
    """

    code, slug = "DAT132", "data/tokenizer-name"
    releases = (R03, R05)
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        if not prepares(run) or all_given(run) or run.is_set(TOKENIZER_NAME):
            return
        kind = run.value(TOKENIZER_TYPE)
        if not isinstance(kind, str) or kind == "HuggingFaceTokenizer":
            return
        yield self.finding(
            run,
            WARN_CRASH_DATA,
            TOKENIZER_TYPE,
            f"packs of a {kind} get a directory name that differs in every process",
            why="Rank 0 packs into a directory that the other ranks do not look into, and every run packs again.",
            related=(PAD_MULT,),
            fix=Fix("tokenizer_model_name: a name for this tokenizer, in the packing specs"),
        )


class NumTokenizerWorkers(Rule):
    """num_tokenizer_workers -1 means every CPU in 0.5 and a single process from 0.6 on.

    0.4 takes the key and does not use it. After an upgrade to 0.6 the default packs about ten times slower.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    dataset: {offline_packing_specs: {num_tokenizer_workers: -1}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    dataset: {offline_packing_specs: {num_tokenizer_workers: 16}}
    ```

    ## Upstream
    - 0.4: `data/builders/finetuning_dataset.py`, `_prepare_packed_split`
    - 0.6, 0.7: `data/packing/offline.py`, `_materialize_dataset_items`
    """

    code, slug = "DAT133", "data/num-tokenizer-workers"
    releases = (R04, NIGHTLY)
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        if run.release is R05 or not prepares(run) or ready(run):
            return
        workers = run.number(WORKERS)
        if run.release is R04:
            if run.wrote(WORKERS):
                yield self.finding(
                    run,
                    Outcome("info", "ignored", "data"),
                    WORKERS,
                    "0.4 does not use num_tokenizer_workers: packing takes every CPU",
                    fix=Fix("0.5 or later, which use it"),
                )
        elif workers is not None and workers <= 1:
            yield self.finding(
                run,
                Outcome("info", "waste", "data"),
                WORKERS,
                f"num_tokenizer_workers {workers} tokenises in a single process",
                why="Up to 0.5 the default -1 meant all CPUs; packing is about ten times slower than with many workers.",
                fix=Fix("num_tokenizer_workers: 16", set_to(run, (WORKERS, 16)), safe=True),
            )


RULES: tuple[Rule, ...] = (
    StalePacks(),
    FingerprintRepack(),
    PackInsideJob(),
    HostMemory(),
    MultinodeVisibility(),
    SharedCache(),
    MissingValidationJsonl(),
    TokenizerName(),
    NumTokenizerWorkers(),
)
