"""What model code refuses or gets wrong when packed, and the step function and dataset a launch takes by itself.

The blocks are those of the model, collate and step code of the packages (0.3.1, 0.4.2, 0.5.1, 0.6.2, the 0.7
development tree); an *opt-out* is a family whose recipes keep packing off although no code refuses it.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from mbpack.facts.releases import NIGHTLY, R03, R04, R05, R06, R07, Release
from mbpack.facts.schema import Schema

HARD, SILENT, OPT_OUT = "hard", "silent", "opt-out"
OFFLINE_MODE, IN_BATCH_MODE = "offline", "in_batch"


class Block(Struct, frozen=True):
    """One family that a packing mode does not work for.

    ``modules`` are the last parts of recipe modules, ``classes`` beginnings of model class names; either tells the
    family. ``kind``: the code refuses (hard), trains wrongly (silent), or only the recipes abstain (opt-out).
    """

    family: str
    modules: tuple[str, ...]
    classes: tuple[str, ...]
    kind: str
    reason: str
    mode: str = IN_BATCH_MODE
    since: Release = R04
    until: Release = NIGHTLY

    def concerns(self, module: str | None, cls: str | None) -> bool:
        """Whether a recipe module or a model class belongs to the family."""
        return belongs((self.modules, self.classes), module, cls)


Marks = tuple[tuple[str, ...], tuple[str, ...]]


def belongs(family: Marks, module: str | None, cls: str | None) -> bool:
    """Whether a recipe module ends in one of a family's modules, or a model class begins like one of its classes."""
    if module is not None and module.rpartition(".")[2] in family[0]:
        return True
    return cls is not None and cls.startswith(family[1])


_EXPANDS = "image embeddings expand after the sample boundaries were computed"
_NO_THD = "its forward pass raises NotImplementedError for packed rows"
_OFF = "its recipes keep in-batch packing off, and no packed run of it is known"
_NEMOTRON_VL = (("nemotron_nano_v2_vl",), ("NemotronVL", "NemotronNano12Bv2VL"))
_QWEN3_NEXT = (("qwen3_next",), ("Qwen3Next",))

BLOCKS: tuple[Block, ...] = (
    Block(
        "Gemma3-VL",
        ("gemma3_vl",),
        ("Gemma3VL",),
        SILENT,
        "packed rows go without its mask, so that image tokens no longer attend to each other in both directions",
    ),
    Block("Nemotron-VL", *_NEMOTRON_VL, SILENT, _EXPANDS, until=R05),
    Block("Nemotron-VL", *_NEMOTRON_VL, HARD, f"its collate function refuses, because {_EXPANDS}", since=R06),
    Block("Qwen2.5-Omni", ("qwen25_omni",), ("Qwen25Omni",), HARD, _NO_THD),
    Block("Qwen3-Omni", ("qwen3_omni",), ("Qwen3Omni",), HARD, _NO_THD, since=R05),
    Block("Qwen3-ASR", ("qwen3_asr",), ("Qwen3ASR",), HARD, _NO_THD, since=R05),
    Block("GLM-4.5V", ("glm_45v",), ("GLM45V",), OPT_OUT, _OFF, since=R03),
    Block("Kimi-VL", ("kimi_k25_vl",), ("KimiK25VL",), OPT_OUT, _OFF),
    Block("Exaone4.5-VL", ("exaone45",), ("Exaone45",), OPT_OUT, _OFF, since=R06),
    Block("Gemma4-VL", ("gemma4_vl",), ("Gemma4VL", "Gemma4DenseVL"), OPT_OUT, _OFF, since=R05),
    Block("Ministral3", ("ministral3",), ("Ministral3",), OPT_OUT, _OFF, since=R07),
    Block(
        "GLM-4.5",
        ("glm45",),
        ("GLM45ModelProvider", "GLM45Air", "GLMMoE"),
        OPT_OUT,
        "its recipes keep offline packing off, and no packed run of it is known",
        mode=OFFLINE_MODE,
        since=R03,
    ),
    Block(
        "Qwen3-Next",
        *_QWEN3_NEXT,
        HARD,
        "its gated-delta-net layers raise NotImplementedError for packed rows before 0.5",
        mode=OFFLINE_MODE,
        since=R03,
        until=R04,
    ),
    Block(
        "Qwen3-Next",
        *_QWEN3_NEXT,
        OPT_OUT,
        "its recipes keep offline packing off, although the core supports it since 0.5",
        mode=OFFLINE_MODE,
        since=R05,
    ),
)


def blocks(release: Release, mode: str, module: str | None, cls: str | None) -> Iterator[Block]:
    """The blocks of a mode that concern a model, told by its recipe's module or its class."""
    for block in BLOCKS:
        if block.mode == mode and block.since <= release <= block.until and block.concerns(module, cls):
            yield block


#: Families with a rule of their own: (recipe modules, beginnings of model class names).
GEMMA2: Marks = (("gemma2",), ("Gemma2",))
NEMOTRON_OMNI: Marks = (("nemotron_omni",), ("NemotronOmni", "nemotron_omni_provider.", "_NemotronOmni"))
DEEPSEEK_V4: Marks = (("deepseek_v4",), ())
GATED_DELTA_NET: Marks = (("qwen3_next", "qwen35", "qwen35_vl"), ("Qwen3Next", "Qwen35"))
QWEN3_VL: Marks = (("qwen3_vl", "qwen35_vl"), ("Qwen3VL", "Qwen35VL"))

#: Values of ``experimental_attention_variant`` that mean DeepSeek sparse attention and DeepSeek-V4.
DSA_VARIANT = "dsa"
DSV4_VARIANT = "dsv4_hybrid"

#: The one packed DeepSeek-V4 recipe (0.6 and 0.7); its model splits rows contiguously over context parallel ranks.
DSV4_PACKED_RECIPE = "deepseek_v4_flash_sft_openmath_thinking_packed_config"
DSV4_STEP = "deepseek_v4_step"

#: What Megatron-Core pads HybridEP inputs to, in tokens, and the chunk its kernel works in.
HYBRIDEP_TOKEN_ALIGNMENT, HYBRIDEP_CHUNK = 64, 128


def is_hybrid_class(schema: Schema, cls: str) -> bool:
    """Whether a model class mixes Mamba layers with attention: it has a layer pattern."""
    fields = schema.fields(cls) or {}
    return "hybrid_override_pattern" in fields or "hybrid_layer_pattern" in fields


# ---------------------------------------------------------------------- step functions

_STEP_ALIASES = {"llm_step": "gpt_step", "dsv4_step": DSV4_STEP}
#: Recipe name -> step, as ``scripts/training/recipe_metadata.py`` (0.6, 0.7) registers it; every other recipe is text.
_RECIPE_STEPS = (
    ("nemotron_nano_v2_vl_", "llava_step"),
    ("nemotron_omni_", "nemotron_omni_step"),
    ("qwen2_audio_", "audio_lm_step"),
    ("qwen3_omni_", "qwen3_omni_step"),
    ("qwen3_vl_", "qwen3_vl_step"),
    ("qwen35_vl_", "qwen3_vl_step"),
    ("step37_", "step37_flickr8k_step"),
    ("gemma3_vl_", "vlm_step"),
    ("gemma4_vl_", "vlm_step"),
    ("glm_45v_", "vlm_step"),
    ("kimi_k25_vl_", "vlm_step"),
    ("ministral3_", "vlm_step"),
    ("qwen25_vl_", "vlm_step"),
    ("flux_", "flux_step"),
    ("wan_", "wan_step"),
)
_ENERGON_STEPS = {  # 0.7: the Qwen3-VL Energon recipes take collate-time batches
    "qwen3_vl_8b_peft_1gpu_h100_bf16_energon_config": "vlm_step",
    "qwen3_vl_8b_peft_energon_config": "vlm_step",
}


def step_name(text: str) -> str:
    """One name for a step function that the launchers register under two."""
    lowered = text.lower()
    return _STEP_ALIASES.get(lowered, lowered)


def launcher_step(release: Release, recipe: str, native_energon: bool = False) -> str:
    """The step ``run_recipe.py`` takes when none is named: gpt_step up to 0.5, from 0.6 on the recipe's own."""
    name = recipe.removeprefix("perf:")
    if release < R06:
        return "gpt_step"
    if release >= R07:
        if name in _ENERGON_STEPS:
            return _ENERGON_STEPS[name]
        if native_energon and name.startswith(("qwen3_vl_", "qwen35_vl_")):
            return "vlm_step"
    return next((step for prefix, step in _RECIPE_STEPS if name.startswith(prefix)), "gpt_step")


# ---------------------------------------------------------------------- dataset presets of run_recipe.py

#: The preset of 0.4 and 0.5 that ``--packed_sequence`` packs, with a multiple of 1.
PACKING_PRESET = "llm-finetune"
_OLD_PRESETS = (PACKING_PRESET, "llm-finetune-preloaded")
_TEXT_PRESETS = ("squad", "tulu3", "openmathinstruct2", "openmathinstruct2-thinking", "gsm8k", "local-jsonl")


def unpacked_presets(release: Release) -> tuple[str, ...]:
    """Values of ``--dataset`` that replace a recipe's dataset by an unpacked text one."""
    return _OLD_PRESETS if release < R06 else _TEXT_PRESETS


#: Model classes that derive from Megatron-Core's own configuration: they are checked as they are made, with no repair of Bridge's.
MADE_AS_CORE = frozenset({"FalconH1ModelProvider"})
