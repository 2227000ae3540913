"""Paths of packed data: what they say by their names, and which forms a release opens."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.in_effect import (
    EVAL_CP,
    PACK_SIZE,
    PAD_MULT,
    TRAIN_PACKS,
    likely_multiple,
    needed_multiple,
    pack_size,
    pad_multiple,
)
from mbpack.config.run import Run
from mbpack.facts.artifacts import glob_characters, read_location
from mbpack.facts.releases import NIGHTLY, R04, R05, R06
from mbpack.rules.base import CRASH_DATA, NOTE, SILENT, WASTE, Finding, Fix, Rule, set_to
from mbpack.rules.packs.lookup import (
    METADATA_PATH,
    PATHS,
    WARN_CRASH_DATA,
    WARN_NOTE,
    forgets_multiple,
    given,
    is_npy,
    pieces,
    prepares,
    ready,
    splits,
)

CP, TP, SP = "model.context_parallel_size", "model.tensor_model_parallel_size", "model.sequence_parallel"


class PackPathMismatch(Rule):
    """The names of packs on disk say what they were built with; a configuration that says otherwise is wrong.

    The builder writes the padding multiple into the directory name and the pack size into the file name. An explicit
    path goes around that: packs made for another topology or another size are opened without a word. `run_recipe.py`
    changes the values in the configuration, never the packs.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {context_parallel_size: 2, calculate_per_token_loss: true}
    ddp: {average_in_collective: false}
    dataset:
      offline_packing_specs:
        pad_seq_to_mult: 4
        packed_train_data_path: packs/llama_pad_seq_to_mult1/training_4096.idx.parquet
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {context_parallel_size: 2, calculate_per_token_loss: true}
    ddp: {average_in_collective: false}
    dataset:
      offline_packing_specs:
        pad_seq_to_mult: 4
        packed_train_data_path: packs/llama_pad_seq_to_mult4/training_4096.idx.parquet
    ```

    ## Upstream
    - 0.3 to 0.5: `data/builders/finetuning_dataset.py`, `default_pack_path`, `train_path_packed`
    - 0.6, 0.7: `data/builders/gpt_sft.py`, `default_pack_path`, `train_path_packed`
    """

    code, slug = "DAT116", "data/pack-path-mismatch"

    def check(self, run: Run) -> Iterator[Finding]:
        if not prepares(run):
            return
        named = {split: read_location(path) for split in splits(run) if (path := given(run, split))}
        for split, location in named.items():
            size = pack_size(run)
            if location.size is not None and size is not None and location.size != size:
                yield self.finding(
                    run,
                    SILENT,
                    PATHS[split],
                    f"these packs were built with size {location.size:,}, the run uses {size:,}",
                    why="The file name carries the size. Packs of another size are opened all the same: longer ones"
                    " do not fit the row, shorter ones waste it.",
                    related=(PACK_SIZE, "dataset.seq_length") if run.repaired else (PACK_SIZE,),
                    fix=Fix(f"packed_sequence_size: {location.size}, or packs rebuilt with {size}"),
                )
        for split, location in named.items():
            if location.multiple:
                yield from self._multiple(run, split, location.multiple)

    def _multiple(self, run: Run, split: str, built: int) -> Iterator[Finding]:
        needed, cut = likely_multiple(run), pieces(run)
        if built % cut == 0:
            needed = needed_multiple(run)
        own = pad_multiple(run)
        if built % needed.value:
            if built % cut == 0 and built == own:
                return  # the multiple that sequence parallel would like; align/pad-seq-to-mult-sp speaks of it
            yield self.finding(
                run,
                SILENT if built % cut else WARN_NOTE if run.cp > 1 else NOTE,
                PATHS[split],
                f"these packs were built with pad_seq_to_mult {built}; the topology needs a multiple of {needed.value}",
                why=f"{needed.because} = {needed.value}. The directory name carries the multiple; changing the"
                " configuration does not change packs that exist: samples are cut across their boundaries.",
                related=(PAD_MULT, CP, TP, SP, EVAL_CP),
                fix=Fix(f"rebuild the packs with pad_seq_to_mult: {needed.value}"),
            )
        elif own is not None and built != own:
            yield self.finding(
                run,
                NOTE,
                PATHS[split],
                f"these packs were built with pad_seq_to_mult {built}, the configuration says {own}",
                why=f"Both suit this topology (a multiple of {needed.value}).",
                related=(PAD_MULT,),
                fix=Fix(f"pad_seq_to_mult: {built}", set_to(run, (PAD_MULT, built))),
            )


class ParquetMultDropped(Rule):
    """0.4 and 0.5.0 forget the padding multiple of parquet packs.

    The dataset then gives no separate boundaries for real and padded lengths: padding attends, is computed and is routed
    to experts like real tokens. Context parallelism splits the rows all the same, since the boundaries that are left are
    the padded ones. 0.5.1 hands the multiple on; packs in `.npy` form keep it in every release.

    ## Bad
    ```yaml
    # mbpack: bridge=0.5.0 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {context_parallel_size: 2, calculate_per_token_loss: true}
    ddp: {average_in_collective: false}
    dataset: {packed_sequence_specs: {pad_seq_to_mult: 4}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.5.1 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {context_parallel_size: 2, calculate_per_token_loss: true}
    ddp: {average_in_collective: false}
    dataset: {packed_sequence_specs: {pad_seq_to_mult: 4}}
    ```

    ## Upstream
    - 0.4, 0.5.0: `data/datasets/sft.py`, `create_sft_dataset`
    """

    code, slug = "DAT114", "data/parquet-mult-dropped"
    routine = True
    releases = (R04, R05)

    def check(self, run: Run) -> Iterator[Finding]:
        if not forgets_multiple(run):
            return
        multiple = pad_multiple(run)
        if multiple is None or multiple <= 1:
            return
        yield self.finding(
            run,
            WASTE if needed_multiple(run).value == 1 else WASTE.as_info(),
            PAD_MULT,
            f"{run.patch} does not hand pad_seq_to_mult {multiple} to the dataset of parquet packs",
            why="Padding between samples attends, is computed and is routed to experts as if it were text; tokens and"
            " loss stay right.",
            related=(CP, TRAIN_PACKS),
            fix=Fix("Megatron-Bridge 0.5.1 or later, or packs in .npy form, whose dataset gets the multiple"),
        )


class PackedMetadataPathStr(Rule):
    """packed_metadata_path from a YAML file only works with packs that are already there.

    The value arrives as text, and the code that writes the metadata after packing calls a method of a path object. With
    packs on disk nothing is written and the run starts.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    dataset: {offline_packing_specs: {packed_metadata_path: packs/meta.jsonl}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    dataset:
      do_validation: false
      hf_validation_proportion: null
      offline_packing_specs: {packed_train_data_path: packs/train, packed_metadata_path: packs/meta.jsonl}
    ```

    ## Upstream
    - 0.3 to 0.5: `data/datasets/packed_sequence.py`, `prepare_packed_sequence_data`
    - 0.6, 0.7: `data/packing/offline.py`, `prepare_gpt_sft_packed_data`
    """

    code, slug = "DAT106", "data/packed-metadata-path-str"
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        if not prepares(run) or not isinstance(run.value(METADATA_PATH), str):
            return
        there = ready(run)
        if there:
            return
        yield self.finding(
            run,
            WARN_CRASH_DATA if there is None else CRASH_DATA,
            METADATA_PATH,
            f"packed_metadata_path fails when a split must still be packed{'' if there is None else ', and one must'}",
            why="The text from the file is used like a path object when the metadata are written (AttributeError).",
            related=(TRAIN_PACKS,),
            fix=Fix("leave packed_metadata_path out, or pack before the run", set_to(run, (METADATA_PATH, None))),
        )


class NpyDeprecated(Rule):
    """`.npy` packs are the format of 0.3 and on their way out.

    They hold pickled Python objects. From 0.4 on they are read through a restricted unpickler that refuses anything
    else; packs are written as parquet.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    dataset: {offline_packing_specs: {packed_train_data_path: packs/training_4096.npy}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    dataset: {offline_packing_specs: {packed_train_data_path: packs/training_4096.idx.parquet}}
    ```

    ## Upstream
    - 0.4, 0.5: `data/datasets/packed_sequence.py`, `PackedSequenceSpecs`
    - 0.6, 0.7: `data/packing/config.py`, `PackedSequenceSpecs`
    """

    code, slug = "DAT108", "data/npy-deprecated"
    releases = (R04, NIGHTLY)
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        if not prepares(run):
            return
        for split in splits(run):
            if is_npy(given(run, split)):
                yield self.finding(
                    run,
                    WARN_NOTE,
                    PATHS[split],
                    ".npy packs are deprecated: a later release will not read them",
                    why="The format is pickled Python objects; only a restricted unpickler opens it.",
                    fix=Fix("rebuild the packs as parquet"),
                )


class NpyAutoprepRemoved(Rule):
    """A `.npy` path is never packed into: the file must exist.

    From 0.4 on packing writes parquet only. Where a `.npy` file is named and missing, a warning is printed, the dataset
    stays empty, and training stops later. 0.3's packs in the builder's own place are not found either: name them.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    # found: {training: {missing: true}}
    dataset: {offline_packing_specs: {packed_train_data_path: packs/training_4096.npy}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    # found: {training: {rows: 100}}
    dataset: {offline_packing_specs: {packed_train_data_path: packs/training_4096.npy}}
    ```

    ## Upstream
    - 0.4, 0.5: `data/builders/finetuning_dataset.py`, `_prepare_packed_split`
    - 0.6, 0.7: `data/builders/gpt_sft.py`, `_prepare_packed_split`
    """

    code, slug = "DAT109", "data/npy-autoprep-removed"
    releases = (R04, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        if run.complete or not prepares(run):
            return  # a complete file with a missing path is refused while it is read
        for split in splits(run):
            if is_npy(given(run, split)) and run.evidence.split(split).missing:
                yield self.finding(
                    run,
                    CRASH_DATA,
                    PATHS[split],
                    "this .npy file does not exist, and .npy packs are no longer built",
                    why="A warning is printed, the dataset is missing, and the first batch fails.",
                    fix=Fix("an existing file, or no path: the builder then writes parquet"),
                )


class GlobBrackets(Rule):
    """`[...]` alone makes no pattern before 0.7.

    0.4 to 0.6 take a path for a pattern only when it holds `*` or `?`; brackets then work too. A path with nothing but
    brackets is looked up letter by letter.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    dataset: {offline_packing_specs: {packed_train_data_path: "packs/part-[0-7].parquet"}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    dataset: {offline_packing_specs: {packed_train_data_path: "packs/part-?.parquet"}}
    ```

    ## Upstream
    - 0.4, 0.5: `data/datasets/packed_parquet.py`, `_resolve_parquet_paths`
    - 0.6: `data/packing/paths.py`, `_resolve_parquet_paths`
    """

    code, slug = "DAT110", "data/glob-brackets-060"
    releases = (R04, R06)
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        if not prepares(run):
            return
        for split in splits(run):
            path = given(run, split) or ""
            opens, closes = path.find("["), path.rfind("]")
            if not 0 <= opens < closes or any(sign in path for sign in glob_characters(run.release)):
                continue
            seen = run.evidence.packs.get(split)
            if seen is None or seen.missing:
                yield self.finding(
                    run,
                    WARN_CRASH_DATA,
                    PATHS[split],
                    f"{run.release} takes the brackets in this path literally",
                    why="Only * and ? make a path a pattern before 0.7: no file is found, the dataset is missing.",
                    fix=Fix("* or ? instead of the brackets, or the directory"),
                )


RULES: tuple[Rule, ...] = (
    PackPathMismatch(),
    ParquetMultDropped(),
    PackedMetadataPathStr(),
    NpyDeprecated(),
    NpyAutoprepRemoved(),
    GlobBrackets(),
)
