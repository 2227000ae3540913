"""How each release spells the classes and keys that generated rows use."""

from __future__ import annotations

from dataclasses import dataclass, field

RELEASES = ("0.3", "0.4", "0.5", "0.6")
BRIDGE = "megatron.bridge."


@dataclass(frozen=True)
class Names:
    release: str
    specs_key: str
    specs_class: str
    in_batch_key: str
    datasets: dict[str, str]
    models: dict[str, str]
    hybrid_pattern: str
    later: bool = False  # 0.6 and later: dataset classes that validate themselves
    has_validation: bool = True
    sized_models: dict[str, tuple[int, int, int, int | None]] = field(default_factory=dict)  # layers, heads, groups, experts

    @property
    def minor(self) -> int:
        return int(self.release.split(".")[1])


_MODELS = {
    "gpt": BRIDGE + "models.gpt_provider.GPTModelProvider",
    "mla": BRIDGE + "models.mla_provider.MLAModelProvider",
    "hybrid": BRIDGE + "models.mamba.mamba_provider.MambaModelProvider",
    "qwen3vl": BRIDGE + "models.qwen_vl.qwen3_vl_provider.Qwen3VLModelProvider",
    "qwen25vl": BRIDGE + "models.qwen_vl.qwen25_vl_provider.Qwen25VLModelProvider",
}
_BUILDER = {"config": BRIDGE + "models.gpt.gpt_builder.GPTModelConfig"}
_EARLIER = {
    "text": BRIDGE + "training.config.FinetuningDatasetConfig",
    "hf_text": BRIDGE + "data.builders.hf_dataset.HFDatasetConfig",
    "pretrain": BRIDGE + "training.config.GPTDatasetConfig",
    "conversation": BRIDGE + "data.vlm_datasets.hf_provider.HFDatasetConversationProvider",
    "mock_vlm": BRIDGE + "data.vlm_datasets.mock_provider.MockVLMConversationProvider",
    "energon": BRIDGE + "data.energon.energon_provider.EnergonProvider",
}
_LATER = {
    "text": BRIDGE + "data.builders.gpt_sft.GPTSFTDatasetConfig",
    "text_alias": BRIDGE + "data.builders.gpt_sft.FinetuningDatasetConfig",
    "hf_text": BRIDGE + "data.builders.gpt_sft.GPTSFTDatasetConfig",
    "pretrain": BRIDGE + "training.config.GPTDatasetConfig",
    "conversation": BRIDGE + "data.builders.direct_hf_sft.DirectHFSFTDatasetConfig",
    "mock_vlm": BRIDGE + "data.builders.mock_vlm_sft.MockVLMSFTDatasetConfig",
    "energon": BRIDGE + "data.builders.energon.EnergonDatasetConfig",
}
_EARLIER_SPECS = BRIDGE + "data.datasets.packed_sequence.PackedSequenceSpecs"
_LATER_SPECS = BRIDGE + "data.packing.config.PackedSequenceSpecs"
# Classes that bring their own shape (0.3 had one per model size).
_SIZED_03 = {
    BRIDGE + "models.llama.llama_provider.Llama32ModelProvider1B": (16, 32, 8, None),
    BRIDGE + "models.llama.llama_provider.Llama3ModelProvider8B": (32, 32, 8, None),
    BRIDGE + "models.gemma.gemma2_provider.Gemma2ModelProvider2B": (26, 8, 4, None),
    BRIDGE + "models.deepseek.deepseek_provider.DeepSeekV2LiteModelProvider": (27, 16, 16, 64),
    BRIDGE + "models.olmoe.olmoe_provider.OlMoEModelProvider": (16, 16, 16, 64),
}
_SIZED_LATER = {
    BRIDGE + "models.mistral.mistral_provider.MistralModelProvider": (32, 32, 8, None),
    BRIDGE + "models.olmoe.olmoe_provider.OlMoEModelProvider": (16, 16, 16, 64),
}

NAMES = {
    "0.3": Names(
        "0.3",
        "packed_sequence_specs",
        _EARLIER_SPECS,
        "pack_sequences_in_batch",
        _EARLIER,
        _MODELS,
        "hybrid_override_pattern",
        has_validation=False,
        sized_models=_SIZED_03,
    ),
    "0.4": Names(
        "0.4",
        "packed_sequence_specs",
        _EARLIER_SPECS,
        "pack_sequences_in_batch",
        _EARLIER,
        {**_MODELS, **_BUILDER},
        "hybrid_override_pattern",
        sized_models=_SIZED_LATER,
    ),
    "0.5": Names(
        "0.5",
        "packed_sequence_specs",
        _EARLIER_SPECS,
        "pack_sequences_in_batch",
        _EARLIER,
        {**_MODELS, **_BUILDER},
        "hybrid_override_pattern",
        sized_models=_SIZED_LATER,
    ),
    "0.6": Names(
        "0.6",
        "offline_packing_specs",
        _LATER_SPECS,
        "enable_in_batch_packing",
        _LATER,
        {**_MODELS, **_BUILDER, "hybrid": BRIDGE + "models.hybrid.hybrid_provider.HybridModelProvider"},
        "hybrid_layer_pattern",
        later=True,
        sized_models=_SIZED_LATER,
    ),
}
