"""What the made-up vision-language dataset of 0.6 and later checks by itself at start-up, in its own order."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.run import Run
from mbpack.facts.classes import DatasetKind
from mbpack.facts.releases import NIGHTLY, R06
from mbpack.rules.base import REJECTED, Finding, Fix, RejectingRule, Rule, in_yaml, is_blank, is_number, set_to
from mbpack.rules.data.hf_sources import PROCESSOR

PROMPT, IMAGE_SIZE = "dataset.prompt", "dataset.image_size"
#: Counts, and the least that each may be.
COUNTS = {"dataset.num_images": 0, "dataset.num_base_examples": 1}


class MockVlm(RejectingRule):
    """A made-up vision-language dataset needs a processor, a prompt, the size of an image and the number of images and examples.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 gpus=8 launcher=script
    _target_: megatron.bridge.training.config.ConfigContainer
    model:
      _target_: megatron.bridge.models.gpt_provider.GPTModelProvider
      num_layers: 2
      hidden_size: 64
      num_attention_heads: 4
      seq_length: 4096
    train: {train_iters: 10, global_batch_size: 8, micro_batch_size: 1}
    dataset:
      _target_: megatron.bridge.data.builders.mock_vlm_sft.MockVLMSFTDatasetConfig
      seq_length: 4096
      hf_processor_path: Qwen/Qwen3-VL-8B-Instruct
      num_base_examples: 0
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 gpus=8 launcher=script
    _target_: megatron.bridge.training.config.ConfigContainer
    model:
      _target_: megatron.bridge.models.gpt_provider.GPTModelProvider
      num_layers: 2
      hidden_size: 64
      num_attention_heads: 4
      seq_length: 4096
    train: {train_iters: 10, global_batch_size: 8, micro_batch_size: 1}
    dataset:
      _target_: megatron.bridge.data.builders.mock_vlm_sft.MockVLMSFTDatasetConfig
      seq_length: 4096
      hf_processor_path: Qwen/Qwen3-VL-8B-Instruct
      num_base_examples: 100
    ```

    ## Upstream
    - 0.6, 0.7: `data/builders/mock_vlm_sft.py`, `MockVLMSFTDatasetConfig.validate`
    """

    code, slug = "DAT146", "data/mock-vlm"
    releases = (R06, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        if run.dataset is not DatasetKind.MOCK_VLM:
            return
        path = run.value(PROCESSOR)
        if run.wrote(PROCESSOR) and is_blank(path):
            yield self._refuse(run, PROCESSOR, "must name a processor", Fix("hf_processor_path: the model's path or name"))
        prompt = run.value(PROMPT)
        if run.wrote(PROMPT) and (not isinstance(prompt, str) or not prompt):
            yield self._refuse(run, PROMPT, "must be a text", Fix("prompt: a question about the image, or no line for it"))
        size = run.value(IMAGE_SIZE)
        if run.wrote(IMAGE_SIZE) and not (
            isinstance(size, list) and len(size) == 2 and all(is_number(n) and n > 0 for n in size)
        ):
            fix = Fix("image_size: [256, 256]", set_to(run, (IMAGE_SIZE, [256, 256])))
            yield self._refuse(run, IMAGE_SIZE, "must be two positive numbers of pixels", fix)
        for key, least in COUNTS.items():
            count = run.number(key, least)
            if run.wrote(key) and (count is None or count < least):
                fix = Fix(f"{key.partition('.')[2]}: {least} or more", set_to(run, (key, max(1, least))))
                yield self._refuse(run, key, f"must be {least} or more", fix)

    def _refuse(self, run: Run, key: str, demand: str, fix: Fix) -> Finding:
        message = f"{key.partition('.')[2]} {demand}, found {in_yaml(run.value(key))}"
        return self.finding(run, REJECTED, key, message, fix=fix)


RULES: tuple[Rule, ...] = (MockVlm(),)
