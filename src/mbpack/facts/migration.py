"""What moving a configuration between releases means beyond renamed keys: classes, fields, flags, behaviour.

Source: ``training/config.py``, ``data/builders/``, ``data/datasets/``, ``data/packing/``, ``data/energon/``,
``data/vlm_datasets/``, ``recipes/`` of 0.3 to 0.7.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from mbpack.facts.releases import R04, R05, R06, R07, Release

ByHand = tuple[tuple[str, ...], str]


class ClassChange(Struct, frozen=True):
    """A configuration class that another one took over.

    ``old`` and ``new`` are import paths, ``since`` the first release with the new one. ``fields``: old field -> new path
    below the same mapping. ``by_hand``: what follows from nothing in the file, for either direction, each with the fields
    of the dataset that it is about; it is said where the file writes one of them.
    """

    old: str
    new: str
    since: Release
    fields: Mapping[str, str] = field(default_factory=dict)
    by_hand: tuple[ByHand, ...] = ()
    back_by_hand: tuple[ByHand, ...] = ()

    def old_name(self) -> str:
        """The short name of the old class."""
        return self.old.rpartition(".")[2]

    def new_name(self) -> str:
        """The short name of the new class."""
        return self.new.rpartition(".")[2]


_GPT_SFT = "megatron.bridge.data.builders.gpt_sft.GPTSFTDatasetConfig"
_DIRECT_HF = "megatron.bridge.data.builders.direct_hf_sft.DirectHFSFTDatasetConfig"

CLASS_CHANGES: tuple[ClassChange, ...] = (
    ClassChange(
        "megatron.bridge.training.config.FinetuningDatasetConfig",
        _GPT_SFT,
        R06,
    ),
    ClassChange(
        "megatron.bridge.data.builders.hf_dataset.HFDatasetConfig",
        _GPT_SFT,
        R06,
        fields={
            "dataset_name": "hf_dataset.dataset_name",
            "dataset_subset": "hf_dataset.subset",
            "split": "hf_dataset.split",
            "hf_kwargs": "hf_dataset.load_kwargs",
            "val_proportion": "hf_validation_proportion",
            "dataset_root": "hf_output_root",
        },
        by_hand=(
            (
                ("process_example_fn",),
                "process_example_fn is code: name a schema_adapter in dataset.hf_dataset, or columns in dataset.preprocessing",
            ),
            (("hf_filter_lambda",), "hf_filter_lambda is code and has no successor: filter the data before"),
            (("download_mode",), "download_mode has no successor"),
            (("delete_raw",), "delete_raw has no successor"),
            (("dataset_dict",), "dataset_dict has no successor: name the data by their path"),
        ),
    ),
    ClassChange(
        "megatron.bridge.data.vlm_datasets.hf_provider.HFDatasetConversationProvider",
        _DIRECT_HF,
        R06,
        by_hand=(
            (
                ("maker_name", "maker_kwargs"),
                "dataset.source: an HFDatasetSourceConfig with the dataset that maker_name stood for",
            ),
            (("maker_name", "_target_"), "dataset.preprocessing: the chat preprocessing of the recipe"),
            (("collate_impl",), "collate_impl is code and has no successor"),
        ),
        back_by_hand=((("source",), "maker_name: the dataset maker that stands for source"),),
    ),
    ClassChange(
        "megatron.bridge.data.vlm_datasets.preloaded_provider.PreloadedVLMConversationProvider",
        _DIRECT_HF,
        R06,
        by_hand=(
            (
                ("train_data_path", "valid_data_path", "test_data_path", "_target_"),
                "dataset.source: an HFDatasetSourceConfig that reads the JSON files",
            ),
        ),
    ),
    ClassChange(
        "megatron.bridge.data.vlm_datasets.mock_provider.MockVLMConversationProvider",
        "megatron.bridge.data.builders.mock_vlm_sft.MockVLMSFTDatasetConfig",
        R06,
        by_hand=(),
    ),
    ClassChange(
        "megatron.bridge.data.energon.energon_provider.EnergonProvider",
        "megatron.bridge.data.builders.energon.EnergonDatasetConfig",
        R06,
        by_hand=(
            (
                ("task_encoder", "_target_"),
                "dataset.task_encoder: QwenVLEnergonTaskEncoderConfig or another encoder configuration instead of an object",
            ),
            (("image_processor",), "image_processor has no successor in the dataset"),
            (("global_batch_size",), "global_batch_size has no successor in the dataset"),
        ),
        back_by_hand=((("task_encoder", "_target_"), "task_encoder: the encoder object; image_processor and global_batch_size"),),
    ),
)

#: Classes of the Hugging Face source that 0.6 keeps below the dataset, by field.
SOURCE_FIELD, SOURCE_CLASS = "hf_dataset", "HFDatasetSourceConfig"

#: Value of ``num_tokenizer_workers`` that used all processors in 0.5 and is serial from 0.6 on, and a sensible number.
ALL_WORKERS, SOME_WORKERS = -1, 16


class Behaviour(Struct, frozen=True):
    """Something that a release does differently although no key shows it. ``concerns``: offline, chat, template, hybridep, hf,
    in_batch, online, launcher, evaluation, or "" for every run."""

    since: Release
    concerns: str
    text: str


BEHAVIOUR: tuple[Behaviour, ...] = (
    Behaviour(R04, "evaluation", "evaluation settings live in the section validation"),
    Behaviour(R04, "offline", "packs are parquet files (.idx.parquet); .npy packs in the default directory are not found"),
    Behaviour(R05, "offline", "num_tokenizer_workers takes effect (0.4 ignores it and always uses all processors)"),
    Behaviour(
        R06,
        "offline",
        "packs lie in a directory whose name ends in _sft_<hash>: packs of 0.5 and older are not found"
        " and built anew; pack before the job, or name the old files in packed_train_data_path and packed_val_data_path",
    ),
    Behaviour(R06, "offline", "num_tokenizer_workers -1, also as the default, tokenises in one process (0.5: all processors)"),
    Behaviour(
        R06,
        "chat",
        "conversations longer than seq_length are dropped with a warning, or cut where the pad multiple is"
        " larger than 1; up to 0.5 they crash the packing",
    ),
    Behaviour(R06, "hf", "hf_rewrite is false by default: prepared JSONL files are used again instead of written anew"),
    Behaviour(R06, "hybridep", "uneven HybridEP dispatch is padded automatically in eager mode: safe, and it costs a little"),
    Behaviour(
        R06, "in_batch", "packed rows are padded to a multiple that the validation derives from TP, CP and sequence parallel"
    ),
    Behaviour(
        R06,
        "launcher",
        "run_recipe.py repairs the pad multiple, pack size and loss reduction by itself; --packed_sequence is gone",
    ),
    Behaviour(
        R07,
        "offline",
        "positions whose input is the end-of-sequence token count in the loss; 0.3 to 0.6 mask them: loss curves differ",
    ),
    Behaviour(
        R07,
        "template",
        "chats are rendered with the tokenizer's template unless use_hf_tokenizer_chat_template is set (0.6: the legacy"
        " prompt): write it out",
    ),
    Behaviour(
        R07,
        "offline",
        "the list of data sources belongs to the fingerprint of packs: packs that the builder of 0.6 made are not found and are"
        " made again; pack before the job, or name the old files in packed_train_data_path and packed_val_data_path",
    ),
    Behaviour(R07, "hybridep", "uneven HybridEP dispatch is padded only where the dataset packs; unpacked runs no longer are"),
    Behaviour(
        R07,
        "evaluation",
        "the last, partial batch of an evaluation counts for GPT-SFT data with dataloader_type batch: losses differ",
    ),
    Behaviour(
        R07,
        "online",
        "a validation set must hold enough samples for all evaluations of a run that packs per global batch, or the start fails",
    ),
    Behaviour(R07, "offline", "the old prompt template without preprocessing puts loss on alignment padding"),
)
