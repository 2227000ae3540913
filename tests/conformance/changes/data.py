"""Data sources, specs and lengths."""

from __future__ import annotations

from ..draft import Draft
from .registry import collated, later, offline, pick, text, violation


@violation(text)
def kwargs_keys(d: Draft) -> None:
    kwargs = d.dataset.setdefault("dataset_kwargs", {})
    key = pick(
        d,
        "max_num_samples",
        "max_num_samples",
        "chat",
        "answer_only_loss",
        "label_key",
        "prompt_template",
        "enable_in_batch_packing",
        "unheard_of",
    )
    if isinstance(kwargs, dict):
        kwargs[key] = pick(d, 100, True, "output")
    if d.names.later and d.rng.random() < 0.5:
        kind = pick(d, "ChatSFTPreprocessingConfig", "PromptCompletionSFTPreprocessingConfig")
        d.dataset["preprocessing"] = {"_target_": f"megatron.bridge.data.sft_processing.{kind}"}


@violation(offline)
def pad_cu_without_width(d: Draft) -> None:
    d.specs()["pad_cu_seqlens"] = True
    d.dataset["dataset_kwargs"] = pick(
        d, None, {}, {"pad_to_max_length": False}, {"pad_to_max_length": "true"}, {"pad_to_max_length": 1}
    )


@violation(lambda d: later(d) and offline(d))
def rewrite_paths(d: Draft) -> None:
    d.dataset["hf_rewrite"] = pick(d, True, True, False)
    d.specs()[pick(d, "packed_metadata_path", "packed_metadata_path")] = "/data/packed/meta.jsonl"


@violation(lambda d: later(d) and text(d))
def sources(d: Draft) -> None:
    hf = {"_target_": "megatron.bridge.data.sources.hf.HFDatasetSourceConfig", "dataset_name": "squad"}
    if d.rng.random() < 0.5:
        d.dataset.update(
            {"dataset_root": "/data/sft", "hf_dataset": None, "hf_validation_proportion": None, "hf_test_dataset": None}
        )
    d.dataset.update(
        pick(
            d,
            {"hf_dataset": hf},
            {"dataset_root": pick(d, "", None, "/data/sft")},
            {"hf_output_root": pick(d, "/data/hf", "")},
            {"hf_validation_proportion": pick(d, 0.1, 0.0, 1.0, 1.5)},
            {"hf_validation_dataset": hf},
            {"hf_test_dataset": hf},
            {"do_validation": False},
            {"do_test": pick(d, True, False)},
            {"dataset_root": None, "hf_dataset": hf},
            {"hf_rewrite": True},
        )
    )


@violation(lambda d: offline(d) and d.names.minor == 3)
def pack_path(d: Draft) -> None:
    d.specs()[pick(d, "packed_train_data_path", "packed_val_data_path")] = pick(
        d, "/data/packed/train.parquet", "/data/packed/x.bin"
    )


@violation(lambda d: bool(d.config.get("peft")))
def peft_checkpoint(d: Draft) -> None:
    d.section("checkpoint")["pretrained_checkpoint"] = pick(d, None, None, "")  # paths that may exist are for no checker to judge


@violation()
def lengths_differ(d: Draft) -> None:
    value = pick(d, d.seq * 2, d.seq // 2, d.seq + 2 * d.cp, d.seq + 1)
    if d.rng.random() < 0.5:
        d.outer["seq_length"] = value
    else:
        d.dataset["sequence_length" if "sequence_length" in d.dataset else "seq_length"] = value


@violation()
def length_of_both(d: Draft) -> None:
    value = pick(d, 1000, 1023, 6000, 3072, 2 * d.cp * 3, 4 * d.cp + 2, d.multiple * 5, d.multiple + 1, 0, -1)
    d.outer["seq_length"] = value
    d.dataset["sequence_length" if "sequence_length" in d.dataset else "seq_length"] = value


@violation(offline)
def specs_values(d: Draft) -> None:
    d.specs().update(
        pick(
            d,
            {"pad_seq_to_mult": pick(d, 0, -1, None, 3)},
            {"max_single_sequence_length": pick(d, 0, -1, d.seq, d.seq + 1, None)},
        )
    )


@violation(collated)
def collate_multiples(d: Draft) -> None:
    d.dataset[pick(d, "pad_to_multiple_of", "in_batch_packing_pad_to_multiple_of")] = pick(d, 0, -8, 1, 96)
