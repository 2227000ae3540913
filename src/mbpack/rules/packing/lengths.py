"""Sequence lengths and the multiples they must divide by, as the start-up checks them."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.run import COLLATING, Run
from mbpack.facts import formulas
from mbpack.facts.classes import DatasetKind
from mbpack.facts.keys import CP, SPECS
from mbpack.facts.releases import NIGHTLY, R04, R06, R07
from mbpack.rules.base import (
    CRASH_DATA,
    LAUNCHER_OVERRIDES,
    LAUNCHER_SETS,
    REJECTED,
    REJECTED_LOAD,
    SILENT,
    Finding,
    Fix,
    RejectingRule,
    Rule,
    built_at,
    in_yaml,
    is_number,
    set_to,
    words,
)
from mbpack.rules.lookup import packs_online
from mbpack.rules.packing.alignment import another_multiple

MODEL_SEQ, DATA_SEQ = "model.seq_length", "dataset.seq_length"
#: Dataset classes whose length is compared with the model's, up to 0.5 and from 0.6 on.
_COMPARED = {
    False: (DatasetKind.PRETRAIN, DatasetKind.GPT_SFT),
    True: (DatasetKind.PRETRAIN, DatasetKind.GPT_SFT, *COLLATING),
}


class ModelDatasetEqual(RejectingRule):
    """model.seq_length and dataset.seq_length must be equal.

    The recipe gives both; overriding one leaves the other at the recipe's value. Up to 0.5 multimodal datasets are not
    compared and longer samples are cut or padded silently. `run_recipe.py` (0.4 and later) copies the dataset's value.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {seq_length: 8192}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {seq_length: 8192}
    dataset:
      seq_length: 8192
      offline_packing_specs: {packed_sequence_size: 8192}
    ```

    ## Upstream
    - 0.3 to 0.7: `training/config.py`, `ConfigContainer.validate`
    - 0.4 to 0.7: `scripts/training/run_recipe.py` copies the dataset's length to the model
    """

    code, slug = "SEQ101", "seq/model-dataset-equal"

    def check(self, run: Run) -> Iterator[Finding]:
        kind = run.dataset
        compared = kind in _COMPARED[run.release >= R06]
        if not compared and kind not in (DatasetKind.CONVERSATION, DatasetKind.ENERGON, DatasetKind.MOCK_VLM):
            return
        data_key = DATA_SEQ
        given = run.wrote(data_key) and not (run.complete and run.value(data_key) is None)
        if kind is DatasetKind.PRETRAIN and not given:
            core_key = run.wrote("dataset.sequence_length")  # from 0.6 on the constructor takes it, an override does not
            if (run.complete and core_key) if run.release >= R06 else (run.complete or core_key):
                data_key = "dataset.sequence_length"
        model, data = run.value(MODEL_SEQ), run.value(data_key)
        if model == data:
            return
        if run.release >= R04 and run.context.launcher == "run_recipe":
            wrote = run.wrote(MODEL_SEQ)
            yield self.finding(
                run,
                LAUNCHER_OVERRIDES if wrote else LAUNCHER_SETS,
                MODEL_SEQ,
                f"run_recipe.py sets model.seq_length to the dataset's {data}"
                + (f"; the {model} written here is not used" if wrote else ""),
                related=(data_key,),
                fix=Fix(f"model.seq_length: {data}", set_to(run, (MODEL_SEQ, data)), safe=True)
                if is_number(data)
                else Fix(f"{data_key}: a number of tokens"),
            )
            return
        shorter = MODEL_SEQ if run.wrote(data_key) and not run.wrote(MODEL_SEQ) else data_key
        if shorter == MODEL_SEQ and not is_number(data) and is_number(model):
            shorter = data_key  # text or `???` is no length
        value = data if shorter == MODEL_SEQ else model
        place = data_key if run.wrote(data_key) and not run.wrote(MODEL_SEQ) else MODEL_SEQ
        edits = [(shorter, value)]
        size = run.maybe(f"{SPECS}.packed_sequence_size")
        title = f"{shorter}: {value}"
        if shorter == data_key and kind is DatasetKind.GPT_SFT and isinstance(size, int) and size not in (-1, value):
            edits.append((f"{SPECS}.packed_sequence_size", value))
            title += f" and packed_sequence_size: {value} (packs are rebuilt)"
        yield self.finding(
            run,
            REJECTED if compared else SILENT.as_warning(),
            place,
            f"model.seq_length {model} and {data_key} {data} must be equal",
            why="Both must describe the same row; the model's length sizes buffers and positions, the dataset's cuts samples.",
            related=(MODEL_SEQ, data_key),
            fix=Fix(title, set_to(run, *edits)) if is_number(value) else Fix(f"{place}: a number of tokens"),
        )


class MaxSingleSequenceLength(RejectingRule):
    """max_single_sequence_length must be positive and fit the pack.

    It limits single samples separately from the pack. A complete file is refused at load; an override by-passes the
    check and fails when a sample does not fit its pack.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    dataset: {offline_packing_specs: {max_single_sequence_length: 8192}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    dataset: {offline_packing_specs: {max_single_sequence_length: 2048}}
    ```

    ## Upstream
    - 0.6, 0.7: `data/packing/config.py`, `PackedSequenceSpecs.__post_init__`
    """

    code, slug = "SEQ103", "seq/max-single-sequence-length"
    releases = (R06, NIGHTLY)

    def stops_at(self, run: Run) -> str:
        return "load" if run.complete else ""

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.has_specs:
            return
        key = f"{SPECS}.max_single_sequence_length"
        limit = run.number(key)
        if limit is None:
            return
        size = run.pack_size
        if limit <= 0 or (size is not None and 0 < size < limit):
            yield self.finding(
                run,
                REJECTED_LOAD if run.complete else CRASH_DATA,
                key,
                f"max_single_sequence_length {limit} must be between 1 and the pack size {size}",
                why="" if run.complete else "An override skips the check, and packing fails at the first sample that is longer.",
                related=(f"{SPECS}.packed_sequence_size",),
                fix=Fix(f"max_single_sequence_length: {size}, or null", set_to(run, (key, None))),
                station="load",
                offset=built_at(run, SPECS),
            )


class ModelSeq2Cp(RejectingRule):
    """With context parallelism model.seq_length must be a multiple of 2 x CP.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {context_parallel_size: 2, seq_length: 4098, calculate_per_token_loss: true}
    dataset: {seq_length: 4098}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {context_parallel_size: 2, seq_length: 4096, calculate_per_token_loss: true}
    dataset: {seq_length: 4096, offline_packing_specs: {pad_seq_to_mult: 4}}
    ```

    ## Upstream
    - 0.3 to 0.7: `training/config.py`, `ConfigContainer.validate`
    """

    code, slug = "ALN106", "align/model-seq-2cp"

    def check(self, run: Run) -> Iterator[Finding]:
        cp = run.given_size(CP)
        if cp <= 1:
            return
        length = run.number(MODEL_SEQ)
        if length is None or length % (2 * cp) == 0:
            return
        near = formulas.nearest_multiples(int(length), int(2 * cp))
        yield self.finding(
            run,
            REJECTED,
            MODEL_SEQ,
            f"model.seq_length {length} is not a multiple of 2*CP = {2 * cp}",
            why="Context parallelism cuts every row into 2*CP pieces.",
            related=(CP,),
            fix=Fix(
                f"seq_length: {words(near, 'or')} in model and dataset",
                set_to(run, (MODEL_SEQ, near[-1]), (DATA_SEQ, near[-1])),
            ),
        )


class SeqMultCollate(RejectingRule):
    """dataset.seq_length must be a multiple of the collate padding multiple.

    Checked for Direct-HF, Energon and mock-VLM datasets, packed or not; from 0.7 on also for GPT-SFT in-batch packing and for
    whatever is packed per global batch.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen25_vl_7b_sft_config gpus=8 launcher=script
    model: {context_parallel_size: 2, seq_length: 4098, calculate_per_token_loss: true}
    dataset: {seq_length: 4098}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen25_vl_7b_sft_config gpus=8 launcher=script
    model: {context_parallel_size: 2, seq_length: 4096, calculate_per_token_loss: true}
    ddp: {average_in_collective: false}
    dataset: {seq_length: 4096}
    ```

    ## Upstream
    - 0.6, 0.7: `training/config.py`, `ConfigContainer.validate`
    """

    code, slug = "ALN107", "align/seq-mult-collate"
    releases = (R06, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        kind = run.dataset
        text = run.release >= R07 and kind is DatasetKind.GPT_SFT and run.in_batch
        online = kind not in COLLATING and packs_online(run)
        if kind not in COLLATING and not text and not online:
            return
        multiple = run.online_multiple if online else run.mult
        length = run.number(DATA_SEQ)
        if length is None or multiple.value <= 0 or length % multiple.value == 0:
            return  # a size of zero is refused by the rules about world sizes
        near = formulas.nearest_multiples(int(length), multiple.value)
        yield self.finding(
            run,
            REJECTED,
            DATA_SEQ,
            f"dataset.seq_length {length} is not a multiple of {multiple.value}",
            why=f"{multiple}: what one row is split into for context and sequence parallelism.",
            related=(CP, "model.tensor_model_parallel_size"),
            fix=Fix(
                f"seq_length: {words(near, 'or')} in dataset and model",
                set_to(run, (DATA_SEQ, near[-1]), (MODEL_SEQ, near[-1])),
            ),
        )


class PadMultNonPositive(RejectingRule):
    """pad_seq_to_mult must be positive.

    A complete file is refused at load. An override is accepted, and tokenisation fails; with packs already on disk the
    value is never looked at again.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    dataset: {offline_packing_specs: {pad_seq_to_mult: 0}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    dataset: {offline_packing_specs: {pad_seq_to_mult: 1}}
    ```

    ## Upstream
    - 0.3 to 0.5: `data/datasets/packed_sequence.py`, 0.6 and 0.7: `data/packing/config.py`, `PackedSequenceSpecs.__post_init__`
    """

    code, slug = "ALN110", "align/pad-mult-nonpositive"

    def stops_at(self, run: Run) -> str:
        return "load" if run.complete else ""

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.has_specs:
            return
        key = f"{SPECS}.pad_seq_to_mult"
        multiple = run.number(key)
        if multiple is None or multiple > 0:
            return
        needed = run.mult
        yield self.finding(
            run,
            REJECTED_LOAD if run.complete else CRASH_DATA,
            key,
            f"pad_seq_to_mult must be positive, found {multiple}",
            why="" if run.complete else "An override skips the check; tokenisation fails, or packs on disk are used as they are.",
            fix=another_multiple(run, needed, f"pad_seq_to_mult: {needed.value}", any_number=True),
            station="load",
            offset=built_at(run, SPECS),
        )


class PadMultiplePositive(RejectingRule):
    """pad_to_multiple_of, in_batch_packing_pad_to_multiple_of and (0.7) global_batch_packing_pad_to_multiple_of must be positive.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen25_vl_7b_sft_config gpus=8 launcher=script
    dataset: {pad_to_multiple_of: 0}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen25_vl_7b_sft_config gpus=8 launcher=script
    dataset: {pad_to_multiple_of: 128}
    ```

    ## Upstream
    - 0.6, 0.7: the dataset `validate` methods in `data/builders/direct_hf_sft.py`, `energon.py`, `mock_vlm_sft.py`
      (0.7 also `gpt_sft.py`)
    """

    code, slug = "ALN120", "align/pad-multiple-positive"
    releases = (R06, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        kind = run.dataset
        keys = [("dataset.pad_to_multiple_of", ""), ("dataset.in_batch_packing_pad_to_multiple_of", "")]
        if kind is DatasetKind.GPT_SFT and run.release >= R07:
            keys = [(f"dataset.{name}_packing_pad_to_multiple_of", name) for name in ("in_batch", "global_batch")]
        elif kind not in COLLATING:
            return
        for key, mode in keys:
            multiple = run.number(key)
            if (multiple is None and run.wrote(key)) or (multiple is not None and multiple <= 0):
                yield self.finding(
                    run,
                    REJECTED,
                    key,
                    f"{key.rpartition('.')[2]} must be positive, found {in_yaml(multiple)}",
                    fix=Fix("remove the key: it is derived from the topology", set_to(run, (key, 1))),
                    station=f"{self.slug}@{mode.replace('_', '-')}" if mode else "",
                )


RULES: tuple[Rule, ...] = (
    ModelDatasetEqual(),
    PadMultNonPositive(),  # before the next: the specs check it first
    MaxSingleSequenceLength(),
    ModelSeq2Cp(),
    SeqMultCollate(),
    PadMultiplePositive(),
)
