"""Hugging Face configurations for recipes, without a network: `tools/harvest.py --hub offline_models`.

A recipe asks the hub for a model's `config.json`, its tokenizer or its processor. Here the configuration is the default
of the model's type in `transformers`, with the sizes of `model_cards.json`; tokenizers and processors are dummies. For
types that the installed transformers does not know, the model class of the family is used as it is.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import re
import types
from pathlib import Path
from typing import Any

CARDS: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("model_cards.json").read_text(encoding="utf-8"))
YARN = {"rope_type": "yarn", "type": "yarn", "factor": 16.0, "beta_fast": 32.0, "beta_slow": 1.0}
YARN |= {"mscale": 1.0, "mscale_all_dim": 1.0, "original_max_position_embeddings": 16384}
SIGMOID = {"scoring_func": "sigmoid"}  # of the router
#: beginning of the model's name -> type and architecture in transformers, and what a conversion needs beside them
TYPES: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
    ("LGAI-EXAONE/EXAONE-4.5", "exaone4_5", "Exaone4_5_ForConditionalGeneration", {}),
    ("LGAI-EXAONE/K-EXAONE", "exaone_moe", "ExaoneMoEForCausalLM", {}),
    ("LGAI-EXAONE/EXAONE-4.0", "exaone4", "Exaone4ForCausalLM", {}),
    ("Qwen/Qwen2-Audio", "qwen2_audio", "Qwen2AudioForConditionalGeneration", {}),
    ("Qwen/Qwen2.5-VL", "qwen2_5_vl", "Qwen2_5_VLForConditionalGeneration", {}),
    ("Qwen/Qwen2", "qwen2", "Qwen2ForCausalLM", {}),
    ("Qwen/Qwen3-Next", "qwen3_next", "Qwen3NextForCausalLM", {"full_attention_interval": 4}),
    ("Qwen/Qwen3-Omni", "qwen3_omni_moe", "Qwen3OmniMoeForConditionalGeneration", {}),
    ("Qwen/Qwen3-VL-8B", "qwen3_vl", "Qwen3VLForConditionalGeneration", {}),
    ("Qwen/Qwen3-VL", "qwen3_vl_moe", "Qwen3VLMoeForConditionalGeneration", {}),
    ("Qwen/Qwen3.5-35B", "qwen3_5_moe", "Qwen3_5MoeForConditionalGeneration", {"mtp_num_hidden_layers": 1}),
    ("Qwen/Qwen3.5-122B", "qwen3_5_moe", "Qwen3_5MoeForConditionalGeneration", {"mtp_num_hidden_layers": 1}),
    ("Qwen/Qwen3.5-397B", "qwen3_5_moe", "Qwen3_5MoeForConditionalGeneration", {"mtp_num_hidden_layers": 1}),
    ("Qwen/Qwen3.5", "qwen3_5", "Qwen3_5ForConditionalGeneration", {"mtp_num_hidden_layers": 1}),
    ("Qwen/Qwen3-30B-A3B", "qwen3_moe", "Qwen3MoeForCausalLM", {}),
    ("Qwen/Qwen3-235B-A22B", "qwen3_moe", "Qwen3MoeForCausalLM", {}),
    ("Qwen/Qwen3", "qwen3", "Qwen3ForCausalLM", {}),
    ("deepseek-ai/DeepSeek-V2", "deepseek_v2", "DeepseekV2ForCausalLM", {}),
    ("deepseek-ai/DeepSeek-V3", "deepseek_v3", "DeepseekV3ForCausalLM", {"num_nextn_predict_layers": 1, **SIGMOID}),
    ("deepseek-ai/DeepSeek-V4", "deepseek_v4", "DeepseekV4ForCausalLM", {}),
    ("moonshotai/Kimi-K2-", "deepseek_v3", "DeepseekV3ForCausalLM", {"num_nextn_predict_layers": 0, **SIGMOID}),
    ("moonshotai/Moonlight", "deepseek_v3", "DeepseekV3ForCausalLM", {"num_nextn_predict_layers": 0, **SIGMOID}),
    ("google/gemma-2-", "gemma2", "Gemma2ForCausalLM", {}),
    ("google/gemma-3-1b", "gemma3_text", "Gemma3ForCausalLM", {}),
    ("google/gemma-3-", "gemma3", "Gemma3ForConditionalGeneration", {}),
    ("google/gemma-4-26B", "gemma4", "Gemma4ForConditionalGeneration", {"enable_moe_block": True, "top_k_experts": 8}),
    ("google/gemma-4-", "gemma4", "Gemma4ForConditionalGeneration", {}),
    ("meta-llama/", "llama", "LlamaForCausalLM", {}),
    ("mistralai/Ministral-3", "mistral3", "Mistral3ForConditionalGeneration", {}),
    ("nvidia/NVIDIA-Nemotron-3-", "nemotron_h", "NemotronHForCausalLM", {}),
    ("openai/gpt-oss", "gpt_oss", "GptOssForCausalLM", {}),
    ("zai-org/GLM-4.5V", "glm4v_moe", "Glm4vMoeForConditionalGeneration", {"use_qk_norm": False, "head_dim": 128}),
    ("zai-org/GLM-4.5", "glm4_moe", "Glm4MoeForCausalLM", {"num_nextn_predict_layers": 1}),
    (
        "zai-org/GLM-5",
        "glm_moe_dsa",
        "GlmMoeDsaForCausalLM",
        {"first_k_dense_replace": 3, "indexer_rope_interleave": False},
    ),
)
#: model name -> model class, for types that transformers does not know
CLASSES = (
    ("Nano-Omni", "nemotron_omni.nemotron_omni_provider:NemotronOmniModelProvider"),
    ("v2-VL", "nemotron_vl.nemotron_vl_provider:NemotronNano12Bv2VLModelProvider"),
    ("v2-VL", "nemotron_vl.nemotron_vl_provider:NemotronVLModelProvider"),
    ("Step-3.5", "stepfun.step35_provider:Step35ModelProvider"),
    ("Step-3.7", "stepfun.step37_provider:Step37ModelProvider"),
    ("MiniMax-M3", "minimax_m3.minimax_m3_bridge:MiniMaxM3VLModelProvider"),
    ("Kimi-K2.5", "kimi_vl.kimi_k25_vl_provider:KimiK25VLModelProvider"),
    ("Nemotron-3-", "hybrid.hybrid_provider:HybridModelProvider"),
    ("Nemotron-3-", "mamba.mamba_provider:MambaModelProvider"),
)
SHAPE = {
    "num_layers": ("num_hidden_layers",),
    "hidden_size": ("hidden_size",),
    "num_attention_heads": ("num_attention_heads",),
    "num_query_groups": ("num_key_value_heads",),
    "kv_channels": ("head_dim",),
    "num_moe_experts": ("num_experts", "n_routed_experts", "num_local_experts"),
}
FLUX = {"num_attention_heads": 24, "attention_head_dim": 128, "in_channels": 64, "patch_size": 1, "num_layers": 19}
FLUX |= {"num_single_layers": 38, "joint_attention_dim": 4096, "pooled_projection_dim": 768, "guidance_embeds": True}


def configuration(name: str) -> Any:
    """The configuration of a model, None where its type is not known."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    found = next((entry for entry in TYPES if name.startswith(entry[0])), None)
    if found is None or found[1] not in CONFIG_MAPPING:
        return None
    _, kind, architecture, needs = found
    config = CONFIG_MAPPING[kind]()
    config.architectures, config._name_or_path = [architecture], name
    text = getattr(config, "text_config", None) or config
    if hasattr(config, "thinker_config"):
        text = config.thinker_config.text_config
    for field, value in needs.items():
        setattr(text, field, value)
    _resize(text, CARDS.get(name, {}))
    _complete_rope(text, name)
    return config


def _resize(text: Any, card: dict[str, Any]) -> None:
    for field, names in SHAPE.items():
        for name in names:
            if field in card and hasattr(text, name):
                setattr(text, name, card[field])
    kinds = getattr(text, "layer_types", None)
    if kinds and "num_layers" in card:
        text.layer_types = [kinds[i % len(kinds)] for i in range(card["num_layers"])]


def _complete_rope(text: Any, name: str) -> None:
    """Rotary settings that some conversions read without a default."""
    if "Ministral" in name and getattr(text, "rope_parameters", None) is None:
        text.rope_parameters = {**YARN, "rope_theta": 1000000.0, "llama_4_scaling_beta": 0.1}
    if "Qwen3-VL" in name and not text.rope_scaling:
        text.rope_scaling = {"mrope_section": [24, 20, 20], "mrope_interleaved": True, "rope_type": "default"}
    if "DeepSeek-V4" in name:
        for settings in (getattr(text, "rope_scaling", None), getattr(text, "rope_parameters", None)):
            if isinstance(settings, dict):
                for part in (settings.get("main"), settings.get("compress", settings)):
                    if isinstance(part, dict):
                        part.update(YARN)


class Model:
    """What a recipe asks of `AutoBridge.from_hf_pretrained(name)`."""

    hf_pretrained = None

    def __init__(self, bridge: Any, name: str) -> None:
        self.bridge, self.name = bridge, name

    def to_megatron_provider(self, load_weights: bool = True, hf_path: Any = None, **_: Any) -> Any:
        """The model configuration as the conversion makes it."""
        config = configuration(self.name)
        if config is not None:
            return self.bridge.from_hf_config(config).to_megatron_provider(load_weights=False)
        for part, place in CLASSES:
            if part in self.name:
                module, cls = place.split(":")
                try:
                    found = getattr(importlib.import_module(f"megatron.bridge.models.{module}"), cls)
                except (ImportError, AttributeError):
                    continue
                for sizes in ({"num_layers": 32, "hidden_size": 4096, "num_attention_heads": 32}, {}):
                    try:
                        return found(**sizes)
                    except TypeError:
                        continue
        raise LookupError(f"no configuration of {self.name} is known offline")

    def get_model_config(self) -> Any:
        """The builder-style model configuration."""
        return self.bridge.from_hf_config(configuration(self.name)).get_model_config()


class Dummy:
    """A tokenizer or processor that is never used."""

    vocab_size, pad_token_id, eos_token_id = 32000, 0, 1

    def __len__(self) -> int:
        return self.vocab_size

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return None


def install() -> None:
    """Replace everything that would ask the hub."""
    import transformers

    bridge_module = importlib.import_module("megatron.bridge.models.conversion.auto_bridge")
    bridge = bridge_module.AutoBridge
    bridge.from_hf_pretrained = staticmethod(lambda name, **_: Model(bridge, str(name)))
    only_config = getattr(bridge_module, "_ConfigOnlyPretrainedShim", None)
    if only_config is not None and not hasattr(only_config, "_model_name_or_path"):
        only_config._model_name_or_path = "google/gemma-3-1b-pt"  # the one conversion that asks for it

    def from_pretrained(name: Any, *_: Any, **__: Any) -> Any:
        config = configuration(str(name))
        if config is None:
            raise OSError(f"no configuration of {name} is known offline")
        return config

    transformers.AutoConfig.from_pretrained = staticmethod(from_pretrained)
    for name in dir(transformers):
        if re.fullmatch(r"Auto(Tokenizer|Processor|ImageProcessor)|Qwen\w*Processor", name):
            with contextlib.suppress(Exception):  # some need libraries that are not there
                getattr(transformers, name).from_pretrained = staticmethod(lambda *_, **__: Dummy())
    for name in ("flux_bridge", "flux_hf_pretrained"):
        try:
            module = importlib.import_module(f"megatron.bridge.diffusion.conversion.flux.{name}")
        except ImportError:
            continue
        if hasattr(module, "PreTrainedFlux"):
            module.PreTrainedFlux.config = property(lambda _: types.SimpleNamespace(**FLUX, axes_dims_rope=(16, 56, 56)))
