"""Model families: how to tell them, and which packing mode works for which family in which release.

What a family's code refuses or its recipes abstain from is `mbpack.facts.hard_blocks`; what attention can do is
`mbpack.facts.attention`. This module puts them together for the question a wizard asks: family x mode x release.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from mbpack.facts import attention, recipes
from mbpack.facts.hard_blocks import DSV4_PACKED_RECIPE, HARD, OPT_OUT, blocks
from mbpack.facts.modes import ENERGON, GLOBAL_BATCH, IN_BATCH, NONE, OFFLINE
from mbpack.facts.releases import R04, R05, R06, R07, RELEASES, Release

TEXT, VISION, AUDIO, OMNI, DIFFUSION = "text", "vision-language", "audio", "omni", "diffusion"
OK, OPTED_OUT, REFUSED = "ok", "opt_out", "refuse"


class Family(Struct, frozen=True):
    """A model family.

    ``modules``: last parts of the modules its recipes live in. ``classes``: beginnings of its model class names.
    ``models``: beginnings of its names on the Hugging Face hub. ``kind``: what is special about its attention
    ("hybrid": Mamba layers; "gdn": gated delta net; "dsa": sparse attention; "softcap": capped logits).
    """

    name: str
    title: str
    modality: str
    modules: tuple[str, ...]
    classes: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    kind: str = ""


def _family(
    name: str, title: str, modules: str, classes: str = "", models: str = "", modality: str = TEXT, kind: str = ""
) -> Family:
    return Family(name, title, modality, tuple(modules.split()), tuple(classes.split()), tuple(models.split()), kind)


#: Of two families that a class or a model name fits, the first one is meant.
FAMILIES: tuple[Family, ...] = (
    _family("llama", "Llama 2, 3.x", "llama2 llama3", "Llama2 Llama3 LlamaModel", "meta-llama/"),
    _family("qwen25_vl", "Qwen2.5-VL", "qwen25_vl", "Qwen25VL", "Qwen/Qwen2.5-VL", VISION),
    _family("qwen25_omni", "Qwen2.5-Omni", "qwen25_omni", "Qwen25Omni", "Qwen/Qwen2.5-Omni", OMNI),
    _family("qwen2_audio", "Qwen2-Audio", "qwen2_audio", "Qwen2Audio", "Qwen/Qwen2-Audio", AUDIO),
    _family("qwen2", "Qwen2, Qwen2.5", "qwen2", "Qwen2ModelProvider Qwen25ModelProvider", "Qwen/Qwen2"),
    _family("qwen3_vl", "Qwen3-VL", "qwen3_vl", "Qwen3VL", "Qwen/Qwen3-VL", VISION),
    _family("qwen35_vl", "Qwen3.5-VL", "qwen35_vl", "Qwen35VL", "Qwen/Qwen3.5 Qwen/Qwen3.6", VISION, "gdn"),
    _family("qwen35", "Qwen3.5 text", "qwen35", "Qwen35", "", TEXT, "gdn"),
    _family("qwen3_omni", "Qwen3-Omni", "qwen3_omni", "Qwen3Omni", "Qwen/Qwen3-Omni", OMNI),
    _family("qwen3_asr", "Qwen3-ASR", "qwen3_asr", "Qwen3ASR", "Qwen/Qwen3-ASR", AUDIO),
    _family("qwen3_next", "Qwen3-Next", "qwen3_next", "Qwen3Next", "Qwen/Qwen3-Next", TEXT, "gdn"),
    _family("qwen3_moe", "Qwen3-MoE", "qwen3_moe", "Qwen3MoE", "Qwen/Qwen3-30B-A3B Qwen/Qwen3-235B-A22B"),
    _family("qwen3", "Qwen3 dense", "qwen3", "Qwen3ModelProvider", "Qwen/Qwen3-"),
    _family("gemma2", "Gemma 2", "gemma2", "Gemma2", "google/gemma-2-", TEXT, "softcap"),
    _family("gemma3", "Gemma 3 text", "gemma3", "Gemma3Model", "google/gemma-3-1b"),
    _family("gemma3_vl", "Gemma 3 VL", "gemma3_vl", "Gemma3VL", "google/gemma-3-", VISION),
    _family("gemma4_vl", "Gemma 4 VL", "gemma4_vl", "Gemma4VL Gemma4DenseVL", "google/gemma-4-26B", VISION),
    _family("gemma4", "Gemma 4 text", "gemma4", "Gemma4", "google/gemma-4-"),
    _family("glm_45v", "GLM-4.5V", "glm_45v", "GLM45V", "zai-org/GLM-4.5V", VISION),
    _family("glm45", "GLM-4.5", "glm45", "GLM45ModelProvider GLM45Air GLMMoE", "zai-org/GLM-4.5"),
    _family("glm5", "GLM-5", "glm5", "", "zai-org/GLM-5", TEXT, "dsa"),
    _family("gpt_oss", "GPT-OSS", "gpt_oss", "GPTOSS", "openai/gpt-oss"),
    _family("deepseek_v4", "DeepSeek-V4", "deepseek_v4", "", "deepseek-ai/DeepSeek-V4"),
    _family("deepseek", "DeepSeek-V2, V3", "deepseek_v2 deepseek_v3", "DeepSeek", "deepseek-ai/DeepSeek-V"),
    _family("moonlight", "Moonlight", "moonlight_16b", "Moonlight", "moonshotai/Moonlight"),
    _family("kimi_k25_vl", "Kimi-K2.5-VL", "kimi_k25_vl", "KimiK25VL", "moonshotai/Kimi-K2.5", VISION),
    _family("kimi_k2", "Kimi-K2", "kimi_k2", "KimiK2", "moonshotai/Kimi-K2"),
    _family("olmoe", "OLMoE", "olmoe_7b", "OlMoE", "allenai/OLMoE"),
    _family("minimax_m3", "MiniMax-M3", "minimax_m3", "MiniMaxM3", "MiniMaxAI/MiniMax-M3"),
    _family("exaone45_vl", "Exaone4.5-VL", "exaone45", "Exaone45", "LGAI-EXAONE/EXAONE-4.5", VISION),
    _family("exaone4", "Exaone4", "exaone4", "", "LGAI-EXAONE/EXAONE-4.0"),
    _family("exaone_moe", "Exaone-MoE", "exaone_moe", "ExaoneMoe", "LGAI-EXAONE/K-EXAONE"),
    _family("ministral3", "Ministral 3", "ministral3", "Ministral3", "mistralai/Ministral-3", VISION),
    _family(
        "nemotron_vl",
        "Nemotron-Nano-v2-VL",
        "nemotron_nano_v2_vl",
        "NemotronVL NemotronNano12Bv2VL nemotron_vl_provider.",
        "nvidia/NVIDIA-Nemotron-Nano-12B-v2-VL",
        VISION,
        "hybrid",
    ),
    _family(
        "nemotron_omni",
        "Nemotron-Omni",
        "nemotron_omni",
        "NemotronOmni nemotron_omni_provider.",
        "nvidia/Nemotron-3-Nano-Omni",
        OMNI,
        "hybrid",
    ),
    _family(
        "nemotron_3",
        "Nemotron-3",
        "nemotron_3_nano nemotron_3_nano_4b nemotron_3_super nemotron_3_ultra nemotron_3_5_lightning",
        "Nemotron3Nano",
        "nvidia/NVIDIA-Nemotron-3",
        TEXT,
        "hybrid",
    ),
    _family(
        "nemotron_h",
        "Nemotron-H, Nano v2",
        "nemotronh nemotron_nano_v2",
        "NemotronH NemotronNano",
        "nvidia/Nemotron-H nvidia/NVIDIA-Nemotron-Nano",
        TEXT,
        "hybrid",
    ),
    _family("step37", "Step-3.7", "step37", "Step37", "stepfun-ai/Step-3.7", VISION),
    _family("step35", "Step-3.5", "step35", "Step35", "stepfun-ai/Step-3.5"),
    _family("gpt", "GPT-3, vanilla GPT", "gpt3_175b vanilla_gpt", "GPTProvider"),
    _family("wan", "WAN", "wan", "Wan", "Wan-AI/", DIFFUSION),
    _family("flux", "FLUX", "flux", "Flux", "black-forest-labs/FLUX", DIFFUSION),
)
_BY_NAME: Mapping[str, Family] = {family.name: family for family in FAMILIES}
_BY_MODULE: Mapping[str, Family] = {module: family for family in FAMILIES for module in family.modules}


def family(name: str) -> Family:
    """The family of that name. Raises KeyError."""
    return _BY_NAME[name]


def family_of(module: str | None, model_class: str | None = None, hf_id: str | None = None) -> Family | None:
    """The family told by a recipe's module, else by a model class, else by a name on the Hugging Face hub."""
    if module is not None and (found := _BY_MODULE.get(module.rpartition(".")[2])) is not None:
        return found
    for mark, told in ((model_class, "classes"), (hf_id, "models")):
        if mark is not None:
            for candidate in FAMILIES:
                if mark.startswith(getattr(candidate, told) or ("\0",)):
                    return candidate
    return None


def family_name(module: str | None, model_class: str | None = None, hf_id: str | None = None) -> str | None:
    """The name of :func:`family_of`, None when there is none."""
    found = family_of(module, model_class, hf_id)
    return found.name if found is not None else None


# ---------------------------------------------------------------------- what works


class Support(Struct, frozen=True):
    """Whether a packing mode works for a family in a release.

    ``verdict``: "ok", "opt_out" (no code refuses it, but upstream keeps it off or never ran it), or "refuse".
    ``slug``: the rule that reports it. ``since``: the first release in which it is "ok", None when in none.
    """

    verdict: str
    reason: str = ""
    slug: str | None = None
    since: Release | None = None


def support(release: Release, name: str, mode: str) -> Support:
    """The support of a packing mode (its name in `mbpack.facts.modes`) for a family. Raises KeyError for an unknown family."""
    here = _support(release, _BY_NAME[name], mode)
    since = next((r for r in RELEASES if _support(r, _BY_NAME[name], mode).verdict == OK), None)
    return Support(here.verdict, here.reason, here.slug, since)


def _support(release: Release, of: Family, mode: str) -> Support:
    if mode == NONE.name:
        return Support(OK)
    if of.modality == DIFFUSION:
        return Support(REFUSED, "the diffusion models have packing of their own", None)
    if refused := _refused_by_attention(release, of):
        return refused
    return {OFFLINE.name: _offline, IN_BATCH.name: _in_batch, ENERGON.name: _energon, GLOBAL_BATCH.name: _global}[mode](
        release, of
    )


def _refused_by_attention(release: Release, of: Family) -> Support | None:
    """What no mode can pack in a release, whatever the data path."""
    if of.kind == "softcap":
        return Support(REFUSED, "its attention is not implemented for packed rows", "gemma2/packed")
    if of.kind == "gdn" and release <= R04:
        return Support(REFUSED, "its gated-delta-net layers raise NotImplementedError before 0.5", "gdn/packed")
    if of.kind == "dsa" and release <= R05:
        return Support(REFUSED, "its sparse attention refuses packed rows before 0.6", "dsa/packed")
    if of.kind == "hybrid" and of.modality == TEXT and release == R04:
        return Support(REFUSED, "its Mamba state leaks from sample to sample in 0.4", "ssm/04-state-leak")
    return None


def _blocked(release: Release, of: Family, mode: str, opt_out: str) -> Support | None:
    for block in blocks(release, mode, of.modules[0], None):
        if block.kind == OPT_OUT:
            return Support(OPTED_OUT, block.reason, opt_out)
        guarded = block.kind == HARD and block.family != "Nemotron-VL"
        return Support(REFUSED, block.reason, opt_out if guarded else "fam/no-inbatch-guard")
    return None


def _offline(release: Release, of: Family) -> Support:
    if of.modality != TEXT:
        return Support(REFUSED, "offline packing takes text only: its dataset class packs in the batch", None)
    if of.name == "deepseek_v4":
        if release < R06:
            return Support(REFUSED, "its compressed attention cannot take packed rows before 0.6", "fam/deepseek-v4")
        return Support(OPTED_OUT, f"only {DSV4_PACKED_RECIPE} with its own step is known to work", "fam/deepseek-v4")
    return _abstains(release, of, "fam/offline-unsupported") or Support(OK)


def _abstains(release: Release, of: Family, slug: str | None = None) -> Support | None:
    """A text family that upstream does not pack although nothing refuses it."""
    if blocked := _blocked(release, of, OFFLINE.name, "fam/offline-unsupported"):
        return Support(blocked.verdict, blocked.reason, slug)
    if not _fine_tuned(release.name, of.name):
        return Support(OPTED_OUT, "it has no fine-tuning recipe in this release, so no packed run of it is known")
    return None


def _in_batch(release: Release, of: Family) -> Support:
    if of.modality == TEXT:
        if release < R06:
            return Support(REFUSED, "text data are not packed in the batch before 0.6", "batch/gptsft-inbatch-unsupported")
        if of.name == "deepseek_v4":
            return Support(REFUSED, "its attention needs the packed recipe's own step", "fam/deepseek-v4")
        reason = "with a Direct-HF dataset; GPT-SFT data only from 0.7 on" if release < R07 else ""
        return _abstains(release, of) or Support(OK, reason)
    if blocked := _blocked(release, of, IN_BATCH.name, "fam/inbatch-unsupported"):
        return blocked
    if of.name == "qwen25_vl":
        return Support(OK, "0.3 pads to 2*CP only (no sequence parallelism)" if release < R04 else "")
    if of.name == "qwen3_vl":
        return Support(OK) if release >= R04 else _never_run("no in-batch packing in its recipes before 0.4")
    if of.name == "qwen35_vl":
        return Support(OK) if release >= R07 else _never_run("the core supports it since 0.5, verified only in 0.7")
    if of.name == "nemotron_omni":
        if release <= R05:
            return Support(REFUSED, "attention likely runs across samples before 0.6", "fam/omni-metadata")
        return Support(OK) if release >= R07 else _never_run("its recipes keep it off before 0.7")
    return _never_run("its recipes keep in-batch packing off, and no packed run of it is known")


def _never_run(reason: str) -> Support:
    return Support(OPTED_OUT, reason, "fam/inbatch-unsupported")


def _energon(release: Release, of: Family) -> Support:
    if release < R07:
        return Support(REFUSED, "native Energon packing needs 0.7", "nrg/legacy-buffer")
    if of.name not in ("qwen25_vl", "qwen3_vl", "qwen35_vl"):
        return Support(REFUSED, "native Energon packing supports the Qwen-VL task encoder only", "nrg/qwen-only")
    return Support(OK)


def _global(release: Release, of: Family) -> Support:
    if release < R07:
        return Support(REFUSED, "global-batch packing needs 0.7", "gbp/dataset-class")
    if of.modality != TEXT:
        return Support(REFUSED, "global-batch packing takes GPT-SFT text only", "gbp/dataset-class")
    if of.kind == "hybrid":
        return Support(REFUSED, "global-batch packing refuses Mamba hybrids", "gbp/mamba")
    if of.name == "deepseek_v4":
        return Support(REFUSED, "its attention needs the packed recipe's own step", "fam/deepseek-v4")
    return _abstains(release, of) or Support(OK)


# ---------------------------------------------------------------------- recipes of a family


@functools.lru_cache(maxsize=16)
def _recipes(release_name: str) -> Mapping[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for module, names in recipes.modules(release_name).items():
        known = _BY_MODULE.get(module.rpartition(".")[2])
        if known is not None:
            found.setdefault(known.name, []).extend(names)
    return {name: tuple(sorted(names)) for name, names in found.items()}


def recipes_of(release_name: str, name: str) -> Sequence[str]:
    """The names of a family's recipes in a release, sorted; those of the performance package start with "perf:"."""
    return _recipes(release_name).get(name, ())


def offered(release_name: str) -> list[Family]:
    """The families that have a recipe in a release."""
    return [f for f in FAMILIES if f.name in _recipes(release_name)]


def workload(recipe_name: str) -> str:
    """What a recipe is for, told by its name: "pretrain", "sft" or "peft" (up to 0.3 VLM recipes do both: "sft")."""
    if "pretrain" in recipe_name:
        return "pretrain"
    return "peft" if "_peft" in recipe_name else "sft"


def _fine_tuned(release_name: str, name: str) -> bool:
    return any(workload(recipe) != "pretrain" for recipe in recipes_of(release_name, name))


# ---------------------------------------------------------------------- attention


class Attention(Struct, frozen=True):
    """What context parallelism needs to know of a model; a number is None where it is not known.

    ``head_dim``: elements per head. ``packed_comm_types``: the ``cp_comm_type`` values packed rows can use with CP above 1
    (a2a also needs heads that divide by TP x CP); empty when the model cannot be packed.
    """

    heads: int | None
    groups: int | None
    head_dim: int | None
    layers: int | None
    experts: int | None
    mla: bool
    window: bool
    sink: bool
    variant: str | None
    packed_comm_types: tuple[str, ...]


def attention_of(release: Release, recipe: recipes.Recipe) -> Attention:
    """The attention facts of a recipe's model; `recipe.likely` and `recipe.guessed` tell how far to trust the numbers."""
    heads, hidden = _number(recipe, "num_attention_heads"), _number(recipe, "hidden_size")
    mla = recipe.value("model.multi_latent_attention") is True or (recipe.model_class or "").startswith("MLA")
    window = attention.has_window(recipe.value("model.window_size"))
    sink = recipe.value("model.softmax_type") not in (None, "vanilla")
    variant = recipe.value("model.experimental_attention_variant")
    of = family_of(recipe.module, recipe.model_class, recipe.hf_id)
    if variant == "dsv4_hybrid" or (of is not None and _refused_by_attention(release, of)):
        usable: tuple[str, ...] = ()
    else:
        usable = attention.usable_comm_types(release, True, window=window, softmax_offset=sink, mla=mla)
    return Attention(
        heads=heads,
        groups=_number(recipe, "num_query_groups") or heads,
        head_dim=_number(recipe, "kv_channels") or (hidden // heads if hidden and heads else None),
        layers=_number(recipe, "num_layers"),
        experts=_number(recipe, "num_moe_experts"),
        mla=mla,
        window=window,
        sink=sink,
        variant=variant if isinstance(variant, str) else None,
        packed_comm_types=usable,
    )


def _number(recipe: recipes.Recipe, field: str) -> int | None:
    value: Any = recipe.value(f"model.{field}")
    return value if isinstance(value, int) and value > 0 else None
