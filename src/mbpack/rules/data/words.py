"""What the datasets check by themselves: cached indices, masks, made-up images, workers of Energon."""

from __future__ import annotations

from typing import Any

from mbpack.facts.releases import NIGHTLY, R06
from mbpack.rules.base import Rule
from mbpack.rules.worded import Said, Worded

BLENDED, MOCK = "BlendedMegatronDatasetConfig.__post_init__", "MockVLMSFTDatasetConfig.validate"
ENERGON = "EnergonDatasetConfig.validate"
_PRETRAIN = "recipe=llama3_8b_pretrain_config gpus=8"
_VISION = "recipe=qwen3_vl_8b_peft_energon_config gpus=8"
_RUN: dict[str, Any] = {"checkpoint.pretrained_checkpoint": "ckpt/base", "dataset.path": "data/energon"}
_MODEL = "megatron.bridge.models.gpt_provider.GPTModelProvider"
_COMPLETE: dict[str, Any] = {
    "_target_": "megatron.bridge.training.config.ConfigContainer",
    "model._target_": _MODEL,
    "model.num_layers": 2,
    "model.hidden_size": 64,
    "model.num_attention_heads": 4,
    "model.seq_length": 4096,
    "train.train_iters": 10,
    "train.global_batch_size": 8,
    "train.micro_batch_size": 1,
    "dataset._target_": "megatron.bridge.data.builders.mock_vlm_sft.MockVLMSFTDatasetConfig",
    "dataset.seq_length": 4096,
    "dataset.hf_processor_path": "Qwen/Qwen3-VL-8B-Instruct",
}


def _cache(name: str) -> Said:
    says = f"{name} needs path_to_cache"
    return Said(says, f"{name} path_to_cache", fix={name: False}, other="or path_to_cache: the folder with the indices")


def _mask(name: str) -> Said:
    return Said(f"{name} is not set", name, "It has no default.", {name: False})


def _must(name: str, demand: str, fix: Any, other: str = "") -> Said:
    return Said(f"{name} {demand}, found {{{name}}}", name, fix=fix, other=other)


def _count(name: str, least: int) -> Said:
    return _must(name, f"of an Energon dataset must be {least} or more", {name: least}, "or more")


_PROCESSOR = _must("hf_processor_path", "must name a processor", "hf_processor_path: the model's path or name")

RULES: tuple[Rule, ...] = (
    Worded(
        "DAT144",
        "data/index-cache",
        BLENDED,
        "Reading cached indices needs the folder they lie in.",
        {
            "path_to_cache if fast_cache_load": _cache("fast_cache_load"),
            "path_to_cache if defer_npy_index_mmap": _cache("defer_npy_index_mmap"),
            "blend if fast_cache_load": Said(
                "fast_cache_load does not work with blend or data_path",
                "fast_cache_load blend data_path",
                "Their indices depend on the split: it goes with blend_per_split.",
                {"fast_cache_load": False},
            ),
        },
        {"fast_cache_load": True},
        on=_PRETRAIN,
        section="dataset",
        good={"path_to_cache": "/data/cache"},
        text="`fast_cache_load` and `defer_npy_index_mmap` need `path_to_cache`; the first also excludes `blend` and `data_path`.",
    ),
    Worded(
        "DAT145",
        "data/mask-flags",
        "GPTDatasetConfig.finalize",
        "Pretraining data say how documents within a sample are separated.",
        {name: _mask(name) for name in ("reset_position_ids", "reset_attention_mask", "eod_mask_loss")},
        {"reset_position_ids": None},
        on=_PRETRAIN,
        section="dataset",
        good={"reset_position_ids": True},
        text="`reset_position_ids`, `reset_attention_mask` and `eod_mask_loss` have no default: null is refused. Recipes set all to false.",
    ),
    Worded(
        "DAT146",
        "data/mock-vlm",
        MOCK,
        "A made-up vision-language dataset needs a processor, a prompt, the size of an image and the number of images and examples.",
        {
            "hf_processor_path": _PROCESSOR,
            "prompt": _must("prompt", "must be a text", "prompt: a question about the image, or no line for it"),
            "image_size": _must("image_size", "must be two positive numbers of pixels", {"image_size": [256, 256]}),
            "num_images": _must("num_images", "must be 0 or more", {"num_images": 1}),
            "num_base_examples": _must("num_base_examples", "must be 1 or more", {"num_base_examples": 1}, "or more"),
        },
        {**_COMPLETE, "dataset.num_base_examples": 0},
        on="gpus=8",
        section="dataset",
        good={"dataset.num_base_examples": 100},
        releases=(R06, NIGHTLY),
    ),
    Worded(
        "NRG111",
        "nrg/worker-counts",
        ENERGON,
        "Worker and buffer counts of an Energon dataset must not be negative.",
        {
            "num_workers": _count("num_workers", 0),
            "num_val_workers": _count("num_val_workers", 0),
            "shuffle_buffer_size": _count("shuffle_buffer_size", 1),
            "max_samples_per_sequence": _count("max_samples_per_sequence", 1),
        },
        {**_RUN, "dataset.num_workers": -1},
        on=_VISION,
        section="dataset",
        good={"num_workers": 0},
        releases=(R06, NIGHTLY),
    ),
    Worded(
        "NRG110",
        "nrg/buffer-positive",
        ENERGON,
        "The packing buffer must be positive or null.",
        {
            "packing_buffer_size": Said(
                "packing_buffer_size must be positive, found {packing_buffer_size}",
                "packing_buffer_size",
                "Null means no native packing; 8 to 16 samples fill rows well.",
                {"packing_buffer_size": None},
            )
        },
        {**_RUN, "dataset.packing_buffer_size": 0},
        on=_VISION,
        section="dataset",
        releases=(R06, NIGHTLY),
    ),
    Worded(
        "NRG113",
        "nrg/do-test",
        ENERGON,
        "An Energon dataset has no test split.",
        {"do_test": Said("an Energon dataset has no test split of its own", "do_test", fix={"do_test": False}, safe=True)},
        {**_RUN, "dataset.do_test": True},
        on=_VISION,
        section="dataset",
        releases=(R06, NIGHTLY),
    ),
)
