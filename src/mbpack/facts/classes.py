"""Which kind of dataset, model and adapter a configuration class is."""

from __future__ import annotations

from enum import Enum


class DatasetKind(Enum):
    """What a dataset class does, whatever a release calls it."""

    GPT_SFT = "GPT-SFT"  # text fine-tuning from JSONL or a Hugging Face dataset; the class of offline packing
    DIRECT_HF = "Direct-HF"  # conversations straight from a Hugging Face dataset, text or multimodal (0.6 and later)
    CONVERSATION = "HF conversation provider"  # its predecessor up to 0.5
    ENERGON = "Energon"
    MOCK_VLM = "mock VLM"
    PRETRAIN = "GPT pretraining"
    OTHER = "other"
    NONE = "no dataset"


_DATASETS = {
    "FinetuningDatasetConfig": DatasetKind.GPT_SFT,
    "GPTSFTDatasetConfig": DatasetKind.GPT_SFT,
    "HFDatasetConfig": DatasetKind.GPT_SFT,
    "DirectHFSFTDatasetConfig": DatasetKind.DIRECT_HF,
    "HFDatasetConversationProvider": DatasetKind.CONVERSATION,
    "PreloadedVLMConversationProvider": DatasetKind.CONVERSATION,
    "EnergonDatasetConfig": DatasetKind.ENERGON,
    "EnergonProvider": DatasetKind.ENERGON,
    "QwenVLEnergonProvider": DatasetKind.ENERGON,
    "MockVLMSFTDatasetConfig": DatasetKind.MOCK_VLM,
    "MockVLMConversationProvider": DatasetKind.MOCK_VLM,
    "GPTDatasetConfig": DatasetKind.PRETRAIN,
    "GPTFIMDatasetConfig": DatasetKind.PRETRAIN,
    "MockGPTDatasetConfig": DatasetKind.PRETRAIN,
}

#: Keys that give a dataset's kind away when neither a class nor a recipe names it, most telling first.
DATASET_MARKERS: tuple[tuple[str, DatasetKind], ...] = (
    ("task_encoder", DatasetKind.ENERGON),
    ("packing_buffer_size", DatasetKind.ENERGON),
    ("path", DatasetKind.ENERGON),
    ("source", DatasetKind.DIRECT_HF),
    ("maker_name", DatasetKind.CONVERSATION),
    ("packed_sequence_specs", DatasetKind.GPT_SFT),
    ("offline_packing_specs", DatasetKind.GPT_SFT),
    ("enable_offline_packing", DatasetKind.GPT_SFT),
    ("enable_global_batch_packing", DatasetKind.GPT_SFT),
    ("dataset_root", DatasetKind.GPT_SFT),
    ("hf_dataset", DatasetKind.GPT_SFT),
)


def dataset_kind(cls: str) -> DatasetKind:
    """The kind of a dataset class, by its short name."""
    return _DATASETS.get(cls, DatasetKind.OTHER)
