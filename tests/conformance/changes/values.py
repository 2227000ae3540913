"""How a value or a section is written."""

from __future__ import annotations

from typing import Any

from ..draft import Draft
from .registry import oddity, pick, violation


def _numbers(d: Draft) -> list[tuple[dict[str, Any], str]]:
    places = [(d.model, k) for k in ("tensor_model_parallel_size", "context_parallel_size", "num_layers", "num_attention_heads")]
    places += [(d.section("train"), k) for k in ("global_batch_size", "micro_batch_size", "train_iters")]
    places += [
        (d.outer, "seq_length"),
        (d.dataset, "seq_length"),
        (d.specs(), "packed_sequence_size"),
        (d.specs(), "pad_seq_to_mult"),
    ]
    places += [(d.section("scheduler"), "lr_warmup_iters"), (d.section("validation"), "eval_global_batch_size")]
    return [(section, key) for section, key in places if isinstance(section.get(key), int)]


@violation()
def quoted_number(d: Draft) -> None:
    section, key = d.rng.choice(_numbers(d))
    section[key] = str(section[key])


@violation()
def null_number(d: Draft) -> None:
    section, key = d.rng.choice(_numbers(d))
    section[key] = None


@violation()
def missing_token(d: Draft) -> None:
    section, key = d.rng.choice(_numbers(d))
    section[key] = "???"


@violation()
def typing_error(d: Draft) -> None:
    section = d.rng.choice(
        [
            s
            for s in (
                d.model,
                d.outer,
                d.section("train"),
                d.section("ddp"),
                d.section("dist"),
                d.dataset,
                d.specs(),
                d.section("checkpoint"),
            )
            if s
        ]
    )
    section[
        pick(d, "micro_batchsize", "seq_len", "context_parallelism", "average_collective", "packed_sequence_length", "max_steps")
    ] = 4


@violation()
def key_of_another_release(d: Draft) -> None:
    section, key, value = d.rng.choice(
        [
            (d.dataset, "packed_sequence_specs", None),
            (d.dataset, "offline_packing_specs", None),
            (d.dataset, "enable_offline_packing", False),
            (d.dataset, "enable_in_batch_packing", False),
            (d.dataset, "pack_sequences_in_batch", False),
            (d.section("train"), "num_epochs", None),
            (d.section("dist"), "eval_context_parallel_size", 1),
            (d.model, "cuda_graph_modules", None),
            (d.section("scheduler"), "max_steps", None),
            (d.dataset, "packing_buffer_size", None),
            (d.dataset, "enable_global_batch_packing", False),
            (d.section("dist"), "lazy_mpu_init", None),
            (d.specs(), "max_single_sequence_length", None),
            (d.specs(), "num_tokenizer_workers", 2),
            (d.dataset, "pad_to_multiple_of", 8),
        ]
    )
    section[key] = value


@violation()
def class_of_another_release(d: Draft) -> None:
    target = pick(
        d,
        "megatron.bridge.training.config.FinetuningDatasetConfig",
        "megatron.bridge.data.builders.gpt_sft.GPTSFTDatasetConfig",
        "megatron.bridge.data.builders.gpt_sft.FinetuningDatasetConfig",
    )
    if d.specs() and d.rng.random() < 0.6:
        d.specs()["_target_"] = pick(
            d,
            "megatron.bridge.data.datasets.packed_sequence.PackedSequenceSpecs",
            "megatron.bridge.data.packing.config.PackedSequenceSpecs",
            "megatron.bridge.data.packing.PackedSequenceSpecs",
        )
    else:
        d.dataset["_target_"] = target


@violation()
def broken_shape(d: Draft) -> None:
    change = pick(d, "null", "missing", "list", "unknown", "blocked", "bare_specs", "text")
    name = pick(d, "train", "model", "scheduler", "ddp", "optimizer", "checkpoint", "dataset", "logger", "dist")
    if change == "null":
        d.config[name] = None
    elif change == "missing":
        d.config.pop(pick(d, "train", "model", "scheduler", "ddp", "optimizer", "checkpoint", "dataset"), None)
    elif change == "list":
        d.config[name] = ["micro_batch_size", 1]
    elif change == "unknown":
        d.config[pick(d, "training", "modle", "run", "validation_config")] = {"a": 1}
    elif change == "blocked":
        d.section("train")["exit_signal"] = {"_target_": "signal.Signals", "_call_": True, "_args_": [15]}
    elif change == "bare_specs":
        d.specs().pop("_target_", None)
    else:
        d.config[name] = "none"


@oddity()
def float_number(d: Draft) -> None:
    section, key = d.rng.choice(_numbers(d))
    section[key] = float(section[key])


@oddity()
def quoted_boolean(d: Draft) -> None:
    section, key = d.rng.choice(
        [
            (d.model, "calculate_per_token_loss"),
            (d.model, "sequence_parallel"),
            (d.section("ddp"), "average_in_collective"),
            (d.dataset, d.names.in_batch_key),
            (d.dataset, "enable_offline_packing"),
            (d.section("rerun_state_machine"), "check_for_nan_in_loss"),
        ]
    )
    if key in section:
        section[key] = pick(d, "true", "false", "True", "no")


@oddity()
def interpolated(d: Draft) -> None:
    if "seq_length" in d.dataset:
        d.dataset["seq_length"] = "${model.seq_length}"


@oddity()
def dtype_word(d: Draft) -> None:
    d.model[pick(d, "params_dtype", "pipeline_dtype")] = pick(
        d, "bf16", "bfloat16", "torch.float32", "fp32", "torch.bfloat16", "bf16", "half"
    )


@oddity()
def backend_word(d: Draft) -> None:
    d.model["attention_backend"] = pick(d, "flash", "fused", "auto")


@oddity()
def harmless(d: Draft) -> None:
    d.section("logger").update(log_interval=pick(d, 1, 10))
    d.section("checkpoint").update(save_interval=pick(d, 50, 100))
    d.dataset["num_workers"] = pick(d, 0, 2)
