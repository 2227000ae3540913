"""Which Energon task encoders can pack, and how (0.7 and later)."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.run import Run
from mbpack.config.settings import Unknown
from mbpack.facts.releases import NIGHTLY, R07
from mbpack.rules.base import REJECTED, Finding, Fix, RejectingRule, Rule, set_to

BUFFER, IN_BATCH = "dataset.packing_buffer_size", "dataset.enable_in_batch_packing"
ENCODER, QWEN_ENCODER = "dataset.task_encoder", "QwenVLEnergonTaskEncoderConfig"


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

    ENCODERS = ("HFEnergonTaskEncoderConfig", "NemotronOmniEnergonTaskEncoderConfig")

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


RULES: tuple[Rule, ...] = (
    QwenOnly(),
    HfEncoder(),
)
