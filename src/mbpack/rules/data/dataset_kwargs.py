"""What must not stand in dataset_kwargs of a text fine-tuning dataset, and where it belongs."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.run import Run
from mbpack.config.settings import Object
from mbpack.facts.classes import DatasetKind
from mbpack.facts.preprocessing import SEMANTIC_KWARGS, preprocessing_of
from mbpack.facts.releases import NIGHTLY, R06
from mbpack.rules.base import (
    CRASH_DATA,
    NOTE,
    REJECTED,
    Edit,
    Finding,
    Fix,
    RejectingRule,
    Rule,
    set_to,
    words,
)


class MaxTrainSamples(RejectingRule):
    """max_num_samples belongs to the dataset, not to dataset_kwargs.

    `dataset.max_train_samples` counts packed rows when packing is on.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    dataset: {dataset_kwargs: {max_num_samples: 1000}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    dataset: {enable_offline_packing: false, offline_packing_specs: null, max_train_samples: 1000}
    ```

    ## Upstream
    - 0.6, 0.7: `data/builders/gpt_sft.py`, `GPTSFTDatasetConfig.validate`
    - 0.3 to 0.5: the argument is passed twice when the dataset is built
    """

    code, slug = "DAT101", "data/max-train-samples"

    def check(self, run: Run) -> Iterator[Finding]:
        if run.dataset is not DatasetKind.GPT_SFT:
            return
        key = "dataset.dataset_kwargs.max_num_samples"
        if "max_num_samples" in run.settings.mapping("dataset.dataset_kwargs"):
            yield self.finding(
                run,
                REJECTED if run.release >= R06 else CRASH_DATA,
                key,
                "dataset_kwargs.max_num_samples is not allowed; the dataset has max_train_samples",
                fix=Fix("dataset.max_train_samples instead", (Edit("rename", key, to="dataset.max_train_samples"),)),
            )
        samples = run.settings.written("dataset.max_train_samples")
        if samples is not None and samples.value is not None and run.offline:
            yield self.finding(
                run, NOTE, "dataset.max_train_samples", f"max_train_samples {samples.value} counts packed rows, not samples"
            )


class DatasetKwargsDeprecated(RejectingRule):
    """Preprocessing keys in dataset_kwargs do not combine with dataset.preprocessing.

    Every text recipe of 0.6 and later sets `preprocessing`, so the old keys are refused on it even when the file never
    mentions preprocessing.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    dataset: {dataset_kwargs: {chat: true}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    dataset:
      preprocessing:
        _target_: megatron.bridge.data.sft_processing.ChatSFTPreprocessingConfig
        loss_mode: assistant
    ```

    ## Upstream
    - 0.6, 0.7: `data/builders/gpt_sft.py`, `GPTSFTDatasetConfig.validate`; `data/base.py`, `validate_declarative_mapping`
    """

    code, slug = "DAT131", "data/dataset-kwargs-deprecated"
    releases = (R06, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        if run.dataset is not DatasetKind.GPT_SFT:
            return
        key = "dataset.dataset_kwargs"
        kwargs = run.value(key)
        if kwargs is not None and not isinstance(kwargs, (dict, Object)):
            yield self.finding(run, REJECTED, key, f"dataset_kwargs must be a mapping, found {kwargs!r}", fix=Fix("a mapping"))
            return
        old = sorted(SEMANTIC_KWARGS & run.settings.mapping(key).keys())
        if not old:
            return
        place = f"{key}.{old[0]}"
        if run.is_set("dataset.preprocessing"):
            yield self.finding(
                run,
                REJECTED,
                place,
                f"{words(old)} in dataset_kwargs cannot be combined with dataset.preprocessing",
                why="" if run.wrote("dataset.preprocessing") else "The recipe sets preprocessing.",
                related=("dataset.preprocessing",),
                fix=self._declared(run, old)
                or Fix("preprocessing: null beside the old keys", set_to(run, ("dataset.preprocessing", None))),
            )
        else:
            yield self.finding(
                run,
                NOTE.as_warning()._replace(when="validate"),
                place,
                f"{words(old)} in dataset_kwargs are deprecated from 0.6 on",
                fix=self._declared(run, old) or Fix("dataset.preprocessing, compared with the old keys by hand"),
            )

    @staticmethod
    def _declared(run: Run, old: list[str]) -> Fix | None:
        """The old keys as preprocessing; None where they have no equal, or the file names a preprocessing of its own."""
        written = run.settings.mapping("dataset.dataset_kwargs")
        values = {name: written[name].value for name in old}
        if run.wrote("dataset.preprocessing") or not all(isinstance(value, (str, bool)) for value in values.values()):
            return None
        found = preprocessing_of(values, run.is_set("dataset.hf_dataset"))
        if isinstance(found, str):
            return None
        value = {"_target_": run.settings.schema.path(found.class_name), **found.fields}
        edits = (
            Edit("set", "dataset.preprocessing", value),
            *(Edit("delete", f"dataset.dataset_kwargs.{name}") for name in old),
        )
        return Fix(f"dataset.preprocessing: {found.class_name}, and rebuild the packs (their name changes)", edits)


RULES: tuple[Rule, ...] = (MaxTrainSamples(), DatasetKwargsDeprecated())
