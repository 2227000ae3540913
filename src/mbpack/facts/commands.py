"""Upstream entry points a run needs, per release: converting a checkpoint, building packs, launching.

Paths are those of a Megatron-Bridge checkout of the release; the packages ship no scripts. Module paths were checked in
the packages (0.3.1, 0.4.2, 0.5.1, 0.6.2) and in the 0.7 development tree.
"""

from __future__ import annotations

from mbpack.facts.releases import R06, Release

RUN_RECIPE_SCRIPT = "scripts/training/run_recipe.py"
#: Packs the recipe's own settings; it takes no override file (0.5 calls it pack_sft_data.py, older releases lack it).
PACK_SCRIPT = "scripts/training/prepare_gpt_sft_packed_data.py"
OVERRIDES_MODULE = "megatron.bridge.training.utils.omegaconf_utils"
TOKENIZER_MODULE = "megatron.bridge.training.tokenizers.tokenizer"

_STEP_MODULES = {
    "qwen3_vl_step": "megatron.bridge.models.qwen_vl.qwen3_vl_step",
    "qwen3_omni_step": "megatron.bridge.models.qwen_omni.qwen3_omni_step",
    "deepseek_v4_step": "megatron.bridge.models.deepseek.deepseek_v4_step",
}


def convert_command(release: Release, hf_model: str, path: str) -> str:
    """Import Hugging Face weights as a Megatron checkpoint.

    Source: up to 0.5 ``examples/conversion/convert_checkpoints.py``, from 0.6 on ``scripts/conversion/convert.sh``.
    """
    names = f"--hf-model {hf_model} --megatron-path {path}"
    if release < R06:
        return f"uv run python examples/conversion/convert_checkpoints.py import {names}"
    return f"./scripts/conversion/convert.sh import --executor local --device cpu {names}"


def step_module(step: str) -> str:
    """The module whose ``forward_step`` a step name stands for."""
    return _STEP_MODULES.get(step, f"megatron.bridge.training.{step}")


def builder_import(release: Release, hf: bool) -> tuple[str, str]:
    """Module and class of the dataset builder that packs offline; ``hf``: the class of Hugging Face datasets (up to 0.5)."""
    if release >= R06:
        return "megatron.bridge.data.builders", "GPTSFTDatasetBuilder"
    if hf:
        return "megatron.bridge.data.builders.hf_dataset", "HFDatasetBuilder"
    return "megatron.bridge.data.builders.finetuning_dataset", "FinetuningDatasetBuilder"
