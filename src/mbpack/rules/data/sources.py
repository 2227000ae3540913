"""Where fine-tuning data come from, and what must not stand in dataset_kwargs (checked from 0.6 on)."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.run import Run
from mbpack.config.settings import Object
from mbpack.facts.classes import DatasetKind
from mbpack.facts.hf_presets import HF_PRESET_SPLITS
from mbpack.facts.keys import SPECS
from mbpack.facts.releases import NIGHTLY, R03, R04, R05, R06, R07, Release
from mbpack.rules.base import (
    CRASH_DATA,
    REJECTED,
    REJECTED_LOAD,
    Edit,
    Finding,
    Fix,
    RejectingRule,
    Rule,
    in_yaml,
    set_to,
    words,
)

ROOT, HF, MANIFEST = "dataset.dataset_root", "dataset.hf_dataset", "dataset.per_split_data_source_manifest_path"
HF_ONLY = ("hf_validation_dataset", "hf_test_dataset", "hf_output_root", "hf_validation_proportion")
PACK_PATHS = ("packed_train_data_path", "packed_val_data_path", "packed_metadata_path")


def _sources(release: Release) -> tuple[str, ...]:
    """The keys that can say where fine-tuning data come from; from 0.7 on also a file that lists them per split."""
    return (ROOT, MANIFEST, HF) if release >= R07 else (ROOT, HF)


def _null(run: Run, name: str, title: str) -> Fix:
    return Fix(title, set_to(run, (f"dataset.{name}", None)))


class SourceExactlyOne(RejectingRule):
    """GPT-SFT data come from a local directory or from Hugging Face, never both; from 0.7 on a file may list them per split.

    Text recipes of 0.6 and later name a Hugging Face dataset and hold out a share for validation, so local JSONL needs
    three keys: the directory, and both Hugging Face fields set to null.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    dataset: {dataset_root: data/sft}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    dataset: {dataset_root: data/sft, hf_dataset: null, hf_validation_proportion: null}
    ```

    ## Upstream
    - 0.6, 0.7: `data/builders/gpt_sft.py`, `GPTSFTDatasetConfig.validate`
    """

    code, slug = "DAT123", "data/source-exactly-one"
    releases = (R06, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        if run.dataset is not DatasetKind.GPT_SFT:
            return
        given = [key for key in _sources(run.release) if run.is_set(key)]
        if len(given) != 1:
            yield self._count(run, given)
        elif given != [HF]:
            yield from self._local(run, given[0])
        else:
            yield from self._hub(run)
        length = run.number("dataset.seq_length")
        if length is not None and length <= 0:
            yield self._after_sources(
                run, "dataset.seq_length", f"dataset.seq_length must be positive, found {length}", Fix("a positive length")
            )

    def _count(self, run: Run, given: list[str]) -> Finding:
        """None or several sources; the one that the user wrote is kept, of several the local one."""
        if given:
            kept = next((key for key in (MANIFEST, ROOT) if key in given and run.wrote(key)), given[0])
            others = [key for key in given if key != kept]
            clear = [*others, *(f"dataset.{name}" for name in HF_ONLY if run.maybe(f"dataset.{name}") is not None)]
            names = words(key.partition(".")[2] for key in sorted(given))
            return self._refuse(
                run,
                kept if run.wrote(kept) else HF,
                f"{names} are {'both' if len(given) == 2 else 'all'} set; the data have one source",
                Fix(
                    f"{words(key.partition('.')[2] for key in clear)}: null, to read the local files",
                    set_to(run, *((key, None) for key in clear)),
                ),
                (HF, *(key for key in given if key != HF)),
            )
        names = words((key.partition(".")[2] for key in _sources(run.release)), "nor")
        neither = "neither" if run.release < R07 else "none:"
        return self._refuse(run, ROOT, f"{neither} {names} says where the data are", self._recipe_source(run))

    @staticmethod
    def _recipe_source(run: Run) -> Fix:
        """The recipe's own source, where the file takes it away and names no other; else the user's."""
        recipe, wrote = run.settings.recipe, [key for key in _sources(run.release) if run.wrote(key)]
        if recipe is not None and wrote and any(recipe.value(key) is not None for key in wrote):
            return Fix("leave the source to the recipe, or name yours", tuple(Edit("delete", key) for key in wrote))
        return Fix("dataset_root: the directory with training.jsonl and validation.jsonl")

    def _local(self, run: Run, source: str) -> Iterator[Finding]:
        root = run.value(source)
        if isinstance(root, str) and not root.strip():
            wanted = "the directory with training.jsonl" if source == ROOT else "the JSON file that lists the data"
            yield self._refuse(run, source, f"{source.partition('.')[2]} is empty", Fix(wanted))
        held = [f"dataset.{name}" for name in HF_ONLY if run.is_set(f"dataset.{name}")]
        if run.flag("dataset.hf_rewrite"):
            held.append("dataset.hf_rewrite")
        if held:
            edits = [(key, False if key.endswith("rewrite") else None) for key in held]
            yield self._refuse(
                run,
                next((key for key in held if run.wrote(key)), source),
                f"{words(key.partition('.')[2] for key in held)} belong to a Hugging Face source, the data are local",
                Fix(
                    words(f"{key.partition('.')[2]}: {in_yaml(v)}" for key, v in edits),
                    set_to(run, *edits),
                    True,
                ),
                (source, *held),
            )

    def _hub(self, run: Run) -> Iterator[Finding]:
        output = run.value("dataset.hf_output_root")
        if isinstance(output, str) and not output.strip():
            yield self._after_sources(
                run, "dataset.hf_output_root", "hf_output_root is empty", _null(run, "hf_output_root", "a path, or null")
            )
        share, holdout = run.number("dataset.hf_validation_proportion"), run.value("dataset.hf_validation_dataset")
        if share is not None and not 0 < share < 1:
            yield self._after_sources(
                run,
                "dataset.hf_validation_proportion",
                f"hf_validation_proportion must lie between 0 and 1, found {share}",
                Fix("0.05", set_to(run, ("dataset.hf_validation_proportion", 0.05))),
            )
        if share is not None and holdout is not None:
            yield self._after_sources(
                run,
                "dataset.hf_validation_proportion",
                "hf_validation_dataset and hf_validation_proportion are both set",
                Fix("hf_validation_proportion: null", set_to(run, ("dataset.hf_validation_proportion", None))),
            )
        validate, test = run.flag("dataset.do_validation"), run.flag("dataset.do_test")
        splits = self._splits(run)
        if validate and holdout is None and share is None and "validation" not in splits:
            yield self._after_sources(
                run,
                "dataset.do_validation",
                "the Hugging Face source has no validation split",
                Fix(
                    "hf_validation_proportion: 0.05, or do_validation: false",
                    set_to(run, ("dataset.hf_validation_proportion", 0.05)),
                ),
                (HF,),
            )
        if test and not run.is_set("dataset.hf_test_dataset") and "test" not in splits:
            yield self._after_sources(
                run,
                "dataset.do_test",
                "the Hugging Face source has no test split",
                Fix("do_test: false", set_to(run, ("dataset.do_test", False))),
                (HF,),
            )
        if not validate and (holdout is not None or share is not None):
            yield self._after_sources(
                run,
                "dataset.do_validation",
                "validation settings are given while do_validation is off",
                Fix("hf_validation_proportion: null", set_to(run, ("dataset.hf_validation_proportion", None)), True),
                ("dataset.hf_validation_proportion",),
            )
        if not test and run.is_set("dataset.hf_test_dataset"):
            yield self._after_sources(
                run,
                "dataset.hf_test_dataset",
                "hf_test_dataset needs do_test: true",
                _null(run, "hf_test_dataset", "hf_test_dataset: null"),
            )

    @staticmethod
    def _splits(run: Run) -> tuple[str, ...]:
        """Logical splits of the named source; a path of one's own may have any."""
        name = run.value(f"{HF}.dataset_name")
        return (
            HF_PRESET_SPLITS.get(name, ("train", "validation", "test"))
            if isinstance(name, str)
            else ("train", "validation", "test")
        )

    def _refuse(self, run: Run, key: str, message: str, fix: Fix, related: tuple[str, ...] = ()) -> Finding:
        return self.finding(run, REJECTED, key, message, related=related, fix=fix)

    def _after_sources(self, run: Run, key: str, message: str, fix: Fix, related: tuple[str, ...] = ()) -> Finding:
        """A refusal that upstream raises only when the sources themselves are in order (``data/hf-source``)."""
        return self.finding(run, REJECTED, key, message, related=related, fix=fix, station=f"{self.slug}@splits")


class HfRewriteExplicitPaths(RejectingRule):
    """hf_rewrite excludes explicit pack paths.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    dataset:
      hf_rewrite: true
      offline_packing_specs: {packed_train_data_path: packs/training.parquet}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    dataset:
      hf_rewrite: false
      offline_packing_specs: {packed_train_data_path: packs/training.parquet}
    ```

    ## Upstream
    - 0.6, 0.7: `data/builders/gpt_sft.py`, `GPTSFTDatasetConfig.validate`
    """

    code, slug = "DAT122", "data/hf-rewrite-explicit-paths"
    releases = (R06, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        key = "dataset.hf_rewrite"
        if run.dataset is not DatasetKind.GPT_SFT or not run.flag(key) or not run.has_specs:
            return
        paths = [f"{SPECS}.{name}" for name in PACK_PATHS if run.is_set(f"{SPECS}.{name}")]
        if paths:
            yield self.finding(
                run,
                REJECTED,
                key,
                f"hf_rewrite cannot replace explicit packs ({words(path.rpartition('.')[2] for path in paths)})",
                related=paths,
                fix=Fix("hf_rewrite: false", set_to(run, (key, False))),
            )


class PathSuffix(RejectingRule):
    """Explicit pack paths must have the suffix the release reads.

    0.3 reads `.npy` only. Later releases read parquet files, directories and globs; whether they exist only the machine
    that trains can tell.

    ## Bad
    ```yaml
    # mbpack: bridge=0.3 recipe=llama3_8b_sft_config gpus=8 launcher=script
    dataset: {packed_sequence_specs: {packed_train_data_path: packs/training.parquet}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.3 recipe=llama3_8b_sft_config gpus=8 launcher=script
    dataset: {packed_sequence_specs: {packed_train_data_path: packs/training_4096.npy}}
    ```

    ## Upstream
    - 0.3 to 0.5: `data/datasets/packed_sequence.py`, 0.6 and 0.7: `data/packing/config.py`, `PackedSequenceSpecs.__post_init__`
    """

    code, slug = "DAT107", "data/path-suffix-03"

    def check(self, run: Run) -> Iterator[Finding]:
        if run.dataset is not DatasetKind.GPT_SFT or not run.has_specs:
            return
        for name in PACK_PATHS[:2]:
            place = f"{SPECS}.{name}"
            path = run.value(place)
            if path is None or isinstance(path, Object):
                continue
            path = path if isinstance(path, str) else str(path)  # the start-up looks for a file of that name
            _, dot, suffix = path.lower().rpartition("/")[2].rpartition(".")
            if run.release < R04:
                wrong = not path.endswith(".npy")
                wanted = "a .npy file"
            else:
                wrong = not path.strip() or not isinstance(run.value(place), str)
                wrong = wrong or (bool(dot) and suffix in ("jsonl", "json", "txt", "csv", "bin", "idx", "arrow", "npz"))
                wanted = "a .parquet or .pq file, a directory or a glob of them"
            if wrong:
                yield self.finding(
                    run,
                    REJECTED_LOAD if run.complete else CRASH_DATA,
                    place,
                    f"{name} {path} is not {wanted}",
                    why=""
                    if run.complete
                    else "An override skips the check: the dataset becomes empty and training fails later.",
                    fix=Fix(f"the path of {wanted}, or null to let the builder pack", set_to(run, (place, None))),
                    station="load",
                )


class PretrainedCheckpoint(RejectingRule):
    """PEFT needs the checkpoint of the base model.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_peft_config gpus=8 launcher=script
    train: {global_batch_size: 8}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_peft_config gpus=8 launcher=script
    train: {global_batch_size: 8}
    checkpoint: {pretrained_checkpoint: checkpoints/llama3-8b}
    ```

    ## Upstream
    - 0.3 to 0.7: `training/config.py`, `ConfigContainer.validate`
    """

    code, slug = "PFT101", "peft/pretrained-checkpoint"

    def check(self, run: Run) -> Iterator[Finding]:
        key = "checkpoint.pretrained_checkpoint"
        wrong = self._no_path(run, run.maybe(key))
        if wrong:
            yield self.finding(
                run,
                REJECTED,
                key,
                f"checkpoint.pretrained_checkpoint is {wrong}: no such checkpoint exists",
                fix=Fix("the converted base model, or null"),
                station="section:checkpoint",
            )
            return
        if run.is_set("peft") and not run.is_set(key):
            yield self.finding(
                run,
                REJECTED,
                key if run.wrote(key) or not run.wrote("peft") else "peft",
                "PEFT needs checkpoint.pretrained_checkpoint",
                why="Adapters train on top of the base model's weights.",
                related=("peft",),
                fix=Fix("checkpoint.pretrained_checkpoint: the converted base model"),
            )

    @staticmethod
    def _no_path(run: Run, value: object) -> str:
        """What stands in the place of a path that cannot exist; 0.3 does not look, 0.4 takes empty text for one that exists."""
        if run.release <= R03 or value is None or isinstance(value, bool):
            return ""  # true and the like are open files
        if isinstance(value, str):
            return "empty text" if run.release >= R05 and not value else ""
        if isinstance(value, int):
            return f"the number {value}" if not 0 <= value <= 2 else ""
        return f"the number {value}" if isinstance(value, float) else "a list" if isinstance(value, list) else "a mapping"


RULES: tuple[Rule, ...] = (
    SourceExactlyOne(),
    HfRewriteExplicitPaths(),
    PathSuffix(),
    PretrainedCheckpoint(),
)
