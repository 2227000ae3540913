"""Energon task encoders: what each needs, and which can pack and how (0.7 and later)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from mbpack.config.run import Run
from mbpack.config.settings import Object, Unknown
from mbpack.facts.classes import DatasetKind
from mbpack.facts.releases import NIGHTLY, R06, R07
from mbpack.rules.base import REJECTED, Finding, Fix, RejectingRule, Rule, in_yaml, is_blank, set_to

BUFFER, IN_BATCH = "dataset.packing_buffer_size", "dataset.enable_in_batch_packing"
ENCODER = "dataset.task_encoder"
HF_ENCODER, QWEN_ENCODER = "HFEnergonTaskEncoderConfig", "QwenVLEnergonTaskEncoderConfig"
OMNI_ENCODER = "NemotronOmniEnergonTaskEncoderConfig"


def encoder_class(run: Run) -> str | None:
    """Short class name of the task encoder; Unknown where only an unnamed recipe has it."""
    cls = run.settings.class_at(ENCODER)
    if cls is None and not run.settings.base_known and run.settings.target_at(ENCODER) is None:
        raise Unknown(ENCODER, ("recipe",))
    return cls


class QwenOnly(RejectingRule):
    """Native Energon packing works with the Qwen-VL task encoder only.

    ## Bad
    ```yaml
    # mbpack: bridge=0.7 gpus=8 launcher=script
    dataset:
      path: data/energon
      packing_buffer_size: 16
      task_encoder:
        _target_: megatron.bridge.data.builders.energon.HFEnergonTaskEncoderConfig
        hf_processor_path: org/model
    model: {calculate_per_token_loss: true}
    ddp: {average_in_collective: false}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.7 gpus=8 launcher=script
    dataset:
      path: data/energon
      packing_buffer_size: 16
      task_encoder:
        _target_: megatron.bridge.data.builders.energon.QwenVLEnergonTaskEncoderConfig
        hf_processor_path: org/model
    model: {calculate_per_token_loss: true}
    ddp: {average_in_collective: false}
    ```

    ## Upstream
    - 0.7: `data/builders/energon.py`, `EnergonDatasetConfig.validate`
    """

    code, slug = "NRG112", "nrg/qwen-only"
    releases = (R07, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.energon_packing:
            return
        cls = encoder_class(run)
        if cls is not None and cls != QWEN_ENCODER:
            yield self.finding(
                run,
                REJECTED,
                ENCODER,
                f"native Energon packing needs {QWEN_ENCODER}, found {cls}",
                related=(BUFFER,),
                fix=Fix("packing_buffer_size: null; then consider in-batch packing", set_to(run, (BUFFER, None))),
            )


class HfEncoder(RejectingRule):
    """The Hugging Face and Nemotron-Omni task encoders pack only in the batch.

    They have no hooks that select and pack samples, so the way to pack with them is `enable_in_batch_packing`. 0.7
    refuses a packing buffer (`nrg/qwen-only`), 0.6 fails when the loader is built (`nrg/legacy-buffer`).

    ## Bad
    ```yaml
    # mbpack: bridge=0.7 gpus=8 launcher=script
    dataset:
      path: data/energon
      packing_buffer_size: 16
      task_encoder:
        _target_: megatron.bridge.data.builders.energon.HFEnergonTaskEncoderConfig
        hf_processor_path: org/model
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.7 gpus=8 launcher=script
    dataset:
      path: data/energon
      packing_buffer_size: null
      enable_in_batch_packing: true
      task_encoder:
        _target_: megatron.bridge.data.builders.energon.HFEnergonTaskEncoderConfig
        hf_processor_path: org/model
    train: {micro_batch_size: 2}
    ```

    ## Upstream
    - 0.7: `data/builders/energon.py`, `EnergonDatasetConfig.validate`
    """

    code, slug = "NRG123", "nrg/hf-encoder"
    releases = (R07, NIGHTLY)

    ENCODERS = (HF_ENCODER, OMNI_ENCODER)

    def check(self, run: Run) -> Iterator[Finding]:
        if run.energon_packing and encoder_class(run) in self.ENCODERS:
            yield self.finding(
                run,
                REJECTED,
                BUFFER,
                f"{encoder_class(run)} packs in the batch only: use enable_in_batch_packing, not packing_buffer_size",
                related=(ENCODER,),
                fix=Fix(
                    "packing_buffer_size: null and enable_in_batch_packing: true, with micro_batch_size 2 or more",
                    set_to(run, (BUFFER, None), (IN_BATCH, True)),
                ),
                station="nrg/qwen-only",
            )


class EncoderFields(RejectingRule):
    """A task encoder names its processor, and its sizes are positive.

    The sizes of a Qwen-VL encoder that limit images, frames and tokens may be null, no other. Nemotron-Omni reads pixel values only.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_vl_8b_peft_energon_config gpus=8 launcher=script
    checkpoint: {pretrained_checkpoint: ckpt/base}
    dataset: {path: data/energon, task_encoder: {patch_size: 0}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_vl_8b_peft_energon_config gpus=8 launcher=script
    checkpoint: {pretrained_checkpoint: ckpt/base}
    dataset: {path: data/energon, task_encoder: {patch_size: 16, max_num_images: null}}
    ```

    ## Upstream
    - 0.6, 0.7: `data/builders/energon.py`, `validate` of the task encoders
    """

    code, slug = "NRG125", "nrg/encoder-fields"
    releases = (R06, NIGHTLY)

    #: By class: sizes that must be positive, and those that may be null instead.
    SIZES: ClassVar[dict[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
        HF_ENCODER: ((), ()),
        QWEN_ENCODER: (
            ("temporal_patch_size", "spatial_merge_size", "patch_size", "min_pixels", "max_pixels"),
            ("max_num_images", "max_num_frames", "max_visual_tokens"),
        ),
        OMNI_ENCODER: (
            ("max_audio_duration", "num_mel_bins", "temporal_patch_size", "video_nframes", "patch_dim", "video_fps"),
            (),
        ),
    }

    def check(self, run: Run) -> Iterator[Finding]:
        cls = encoder_class(run) if run.dataset is DatasetKind.ENERGON else None
        if cls not in self.SIZES:
            return
        path = f"{ENCODER}.hf_processor_path"
        if run.wrote(path):
            found = run.value(path)
            if is_blank(found):
                yield self._refuse(run, path, "must name a processor", "the model's path or name")
        needed, optional = self.SIZES[cls]
        for name in (*needed, *optional):
            key = f"{ENCODER}.{name}"
            if not run.wrote(key):
                continue
            size = run.number(key)
            if (size is None and name in needed) or (size is not None and size <= 0):
                yield self._refuse(run, key, "must be positive", "a positive number, or no line for it")
        keys = f"{ENCODER}.visual_keys"
        if run.wrote(keys) and cls != QWEN_ENCODER:
            yield from self._visual_keys(run, keys, cls)

    def _visual_keys(self, run: Run, key: str, cls: str) -> Iterator[Finding]:
        found = run.value(key)
        if cls == OMNI_ENCODER:
            if found != ["pixel_values"]:
                yield self._refuse(run, key, "must be [pixel_values]", "[pixel_values]")
            return
        if isinstance(found, Object) and found.item is not None:
            found = list(found.item.value)  # a mapping's keys are taken
        if not found or not isinstance(found, (str, list)) or not all(isinstance(name, str) and name for name in found):
            yield self._refuse(run, key, "must be names of tensors", "[pixel_values]")

    def _refuse(self, run: Run, key: str, demand: str, fix: str) -> Finding:
        name = key.rpartition(".")[2]
        return self.finding(run, REJECTED, key, f"{name} {demand}, found {in_yaml(run.value(key))}", fix=Fix(f"{name}: {fix}"))


RULES: tuple[Rule, ...] = (
    QwenOnly(),
    HfEncoder(),
    EncoderFields(),
)
