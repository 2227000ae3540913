"""Packs that the builder manages: when they are built again, when they no longer fit, what they are named after."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.in_effect import PAD_MULT
from mbpack.config.run import Run
from mbpack.facts.keys import SPECS
from mbpack.facts.releases import NIGHTLY, R03, R04, R05, R06
from mbpack.rules.base import NOTE, Finding, Fix, Outcome, Rule, set_to
from mbpack.rules.packs.lookup import (
    DO_TEST,
    DO_VALIDATION,
    KWARGS,
    ROOT,
    TOKENIZER_NAME,
    TOKENIZER_TYPE,
    WARN_CRASH_DATA,
    WARN_SILENT,
    WORKERS,
    all_given,
    given,
    prepares,
    ready,
)

PACK_FIRST = "pack before the run, in a job of its own"


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

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    # found:
    #   training: {rows: 100}
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
                fix=Fix("the settings the packs were made with, or pack before the run"),
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
            why=f"Packing it fails: {'FileNotFoundError' if run.release >= R06 else 'there is no dataset'}.",
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
        elif workers is not None and workers <= 1 and run.wrote(WORKERS):
            yield self.finding(
                run,
                Outcome("info", "waste", "data"),
                WORKERS,
                f"num_tokenizer_workers {workers} tokenises in a single process",
                why="Up to 0.5 the default -1 meant all CPUs; packing is about ten times slower than with many.",
                fix=Fix("num_tokenizer_workers: 16", set_to(run, (WORKERS, 16)), safe=True),
            )


class TestSplitUnpacked(Rule):
    """The test split is never packed.

    With `do_test` it runs one sample a row, at micro batch 1, on other code than training and validation.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    dataset: {do_test: true}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    dataset: {do_test: false}
    ```

    ## Upstream
    - 0.3 to 0.5: `data/builders/finetuning_dataset.py`, `_build_datasets`
    - 0.6, 0.7: `data/builders/gpt_sft.py`, `_build_datasets`
    """

    code, slug = "DAT125", "data/test-split-unpacked"
    notes_only = True
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        if prepares(run) and run.wrote(DO_TEST) and run.flag(DO_TEST) and not run.complete:
            yield self.finding(
                run,
                NOTE,
                DO_TEST,
                "the test split is not packed: it runs one sample a row",
                why="Only training and validation are packed offline.",
                fix=Fix("do_test: false, if the test split is not wanted", set_to(run, (DO_TEST, False))),
            )


class ValidationIsPacked(Rule):
    """Validation runs over packs too.

    `eval_iters` counts steps of `eval_global_batch_size` packs, each of them many samples.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    validation: {eval_iters: 50}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    validation: {eval_iters: 0}
    ```

    ## Upstream
    - 0.3 to 0.5: `data/builders/finetuning_dataset.py`, `_build_datasets`
    - 0.6, 0.7: `data/builders/gpt_sft.py`, `_build_datasets`
    """

    code, slug = "DAT126", "data/validation-is-packed"
    notes_only = True
    reports_unknown = False

    KEY = "validation.eval_iters"

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.wrote(self.KEY) or run.complete or not prepares(run) or not run.flag(DO_VALIDATION):
            return
        steps = run.number(self.KEY)
        if not steps or steps < 0:
            return
        batch = run.eval_gbs
        yield self.finding(
            run,
            NOTE,
            self.KEY,
            "evaluation runs over packs" + (f": {steps} x {batch} = {steps * batch:,} of them" if isinstance(batch, int) else ""),
            why="The validation split is packed like the training split, and the loss is that over packs.",
        )


RULES: tuple[Rule, ...] = (
    StalePacks(),
    FingerprintRepack(),
    MissingValidationJsonl(),
    TokenizerName(),
    NumTokenizerWorkers(),
    TestSplitUnpacked(),
    ValidationIsPacked(),
)
