"""What EnergonDatasetConfig checks by itself at start-up (0.6 and later), in its own order."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.run import Run
from mbpack.config.settings import Object
from mbpack.facts.classes import DatasetKind
from mbpack.facts.releases import NIGHTLY, R06, R07
from mbpack.rules.base import REJECTED, Edit, Finding, Fix, RejectingRule, Rule, in_yaml, is_blank, set_to, words

PATH, BUFFER = "dataset.path", "dataset.packing_buffer_size"
IN_BATCH, DEFER = "dataset.enable_in_batch_packing", "dataset.defer_in_batch_packing_to_step"
DO_TEST, KWARGS = "dataset.do_test", "dataset.dataset_kwargs"


def is_energon(run: Run) -> bool:
    """Whether the dataset is the Energon dataset of 0.6 and later."""
    return run.release >= R06 and run.dataset is DatasetKind.ENERGON


class EnergonPath(RejectingRule):
    """An Energon dataset needs a path.

    Recipes leave it to the user, so a run that does not set it is refused.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_vl_8b_peft_energon_config gpus=8 launcher=script
    checkpoint: {pretrained_checkpoint: ckpt/base}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_vl_8b_peft_energon_config gpus=8 launcher=script
    checkpoint: {pretrained_checkpoint: ckpt/base}
    dataset: {path: data/energon}
    ```

    ## Upstream
    - 0.6, 0.7: `data/builders/energon.py`, `EnergonDatasetConfig.validate`
    """

    code, slug = "NRG115", "nrg/path"
    releases = (R06, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        if not is_energon(run):
            return
        path = run.value(PATH)
        if is_blank(path):
            yield self.finding(
                run,
                REJECTED,
                PATH,
                "an Energon dataset needs a path" + ("" if path is None else f", found {path!r}"),
                fix=Fix("dataset.path: the prepared Energon (WebDataset) directory"),
            )


class ExclusiveInBatch(RejectingRule):
    """Native Energon packing and in-batch packing exclude each other.

    ## Bad
    ```yaml
    # mbpack: bridge=0.7 recipe=qwen3_vl_8b_peft_1gpu_h100_bf16_energon_config gpus=8 launcher=script
    dataset: {path: data/energon, packing_buffer_size: 16, enable_in_batch_packing: true}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.7 recipe=qwen3_vl_8b_peft_1gpu_h100_bf16_energon_config gpus=8 launcher=script
    checkpoint: {pretrained_checkpoint: ckpt/base}
    dataset: {path: data/energon, enable_in_batch_packing: true}
    ```

    ## Upstream
    - 0.7: `data/builders/energon.py`, `EnergonDatasetConfig.validate`
    """

    code, slug = "NRG108", "nrg/exclusive-inbatch"
    releases = (R07, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        if run.energon_packing and run.in_batch:
            yield self.finding(
                run,
                REJECTED,
                IN_BATCH if run.wrote(IN_BATCH) else BUFFER,
                "native Energon packing and in-batch packing are both switched on",
                why="The rows would be packed twice; upstream allows one packing owner.",
                related=(BUFFER, IN_BATCH),
                fix=Fix("enable_in_batch_packing: false", set_to(run, (IN_BATCH, False))),
            )


class ExclusiveDefer(RejectingRule):
    """Native Energon packing cannot be deferred to the step.

    ## Bad
    ```yaml
    # mbpack: bridge=0.7 recipe=qwen3_vl_8b_peft_1gpu_h100_bf16_energon_config gpus=8 launcher=script
    dataset: {path: data/energon, packing_buffer_size: 16, defer_in_batch_packing_to_step: true}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.7 recipe=qwen3_vl_8b_peft_1gpu_h100_bf16_energon_config gpus=8 launcher=script
    dataset: {path: data/energon, packing_buffer_size: 16, micro_batch_size: 1}
    train: {micro_batch_size: 1}
    model: {calculate_per_token_loss: true}
    ddp: {average_in_collective: false}
    checkpoint: {pretrained_checkpoint: ckpt/base}
    ```

    ## Upstream
    - 0.7: `data/builders/energon.py`, `EnergonDatasetConfig.validate`
    """

    code, slug = "NRG109", "nrg/exclusive-defer"
    releases = (R07, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        if run.energon_packing and run.flag(DEFER):
            yield self.finding(
                run,
                REJECTED,
                DEFER,
                "native Energon packing cannot be deferred to the step",
                why="The loader packs the rows, and vlm_step takes them as they are.",
                related=(BUFFER,),
                fix=Fix("defer_in_batch_packing_to_step: false", set_to(run, (DEFER, False)), safe=True),
            )


class ReservedKwargs(RejectingRule):
    """dataset_kwargs of an Energon dataset is a mapping that repeats nothing of what the dataset's own fields set.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_vl_8b_peft_energon_config gpus=8 launcher=script
    dataset: {path: data/energon, dataset_kwargs: {shuffle_buffer_size: 1000}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_vl_8b_peft_energon_config gpus=8 launcher=script
    checkpoint: {pretrained_checkpoint: ckpt/base}
    dataset: {path: data/energon, shuffle_buffer_size: 1000}
    ```

    ## Upstream
    - 0.6, 0.7: `data/builders/energon.py`, `EnergonDatasetConfig.validate`
    """

    code, slug = "NRG114", "nrg/reserved-kwargs"
    releases = (R06, NIGHTLY)

    RESERVED = (
        "batch_size",
        "max_samples_per_sequence",
        "packing_buffer_size",
        "shuffle_buffer_size",
        "split_part",
        "task_encoder",
        "worker_config",
    )

    def check(self, run: Run) -> Iterator[Finding]:
        if not is_energon(run):
            return
        kwargs = run.value(KWARGS)
        if not isinstance(kwargs, (dict, Object)):
            message = f"dataset_kwargs must be a mapping, found {in_yaml(kwargs)}"
            yield self.finding(
                run, REJECTED, KWARGS, message, fix=Fix("dataset_kwargs: {}, or no line for it", set_to(run, (KWARGS, {})))
            )
            return
        found = [name for name in self.RESERVED if run.wrote(f"{KWARGS}.{name}")]
        if found:
            yield self.finding(
                run,
                REJECTED,
                f"{KWARGS}.{found[0]}",
                f"{words(found)} inside dataset_kwargs: an Energon dataset sets it itself",
                fix=Fix(
                    "the field of the dataset instead of the entry in dataset_kwargs",
                    tuple(Edit("delete", f"{KWARGS}.{name}") for name in found),
                ),
                on_key=True,
            )


RULES: tuple[Rule, ...] = (
    EnergonPath(),
    ExclusiveInBatch(),
    ExclusiveDefer(),
    ReservedKwargs(),
)
