"""What is done to a consistent configuration: violations of single checks, and odd spellings that may or may not matter.

Each function changes a draft and says with `needs` when it makes sense. Near-boundary values are drawn on both sides, so a
"violation" is at times none: only the real packages decide.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .draft import Draft

Change = Callable[[Draft], None]
Needs = Callable[[Draft], bool]
VIOLATIONS: list[tuple[str, Needs, Change]] = []
ODDITIES: list[tuple[str, Needs, Change]] = []


def apply(draft: Draft, table: list[tuple[str, Needs, Change]]) -> None:
    """One change that fits the draft."""
    name, _, change = draft.rng.choice([entry for entry in table if entry[1](draft)])
    change(draft)
    draft.aim.append(name)


def _into(table: list[tuple[str, Needs, Change]], needs: Needs) -> Callable[[Change], Change]:
    def register(change: Change) -> Change:
        table.append((change.__name__, needs, change))
        return change

    return register


def violation(needs: Needs = lambda d: True) -> Callable[[Change], Change]:
    return _into(VIOLATIONS, needs)


def oddity(needs: Needs = lambda d: True) -> Callable[[Change], Change]:
    return _into(ODDITIES, needs)


def pick(draft: Draft, *values: Any) -> Any:
    return draft.rng.choice(values)


def offline(d: Draft) -> bool:
    return d.packing == "offline" and bool(d.specs())


def in_batch(d: Draft) -> bool:
    return d.packing == "in_batch"


def text(d: Draft) -> bool:
    return d.data_kind in ("text", "text_alias", "hf_text")


def later(d: Draft) -> bool:
    return d.names.later


def collated(d: Draft) -> bool:
    return d.names.later and d.data_kind in ("conversation", "energon", "mock_vlm")


def energon(d: Draft) -> bool:
    return d.names.later and d.data_kind == "energon"


# --- packing and batch ---------------------------------------------------------------------------------------------


@violation(offline)
def offline_mbs(d: Draft) -> None:
    d.set_mbs(pick(d, 2, 4))


@violation(offline)
def offline_size(d: Draft) -> None:
    d.specs()["packed_sequence_size"] = pick(d, 0, -1, 1, d.seq * 2)


@violation(lambda d: later(d) and text(d))
def offline_pair(d: Draft) -> None:
    key = d.names.specs_key
    if d.specs():
        change = pick(d, "off", "gone", "null")
        if change == "off":
            d.dataset["enable_offline_packing"] = False
        elif change == "gone":
            d.dataset.pop("enable_offline_packing", None)
        else:
            d.dataset[key] = None
    else:
        d.dataset["enable_offline_packing"] = True
        d.set_mbs(1)


@violation(in_batch)
def in_batch_mbs(d: Draft) -> None:
    d.set_mbs(1)


@violation(lambda d: d.names.minor > 3 or d.data_kind != "energon")
def pack_in_batch_anyway(d: Draft) -> None:
    if text(d) or d.data_kind == "pretrain":
        d.dataset[d.names.in_batch_key] = True  # a key this class does not have
    else:
        d.dataset[d.names.in_batch_key] = True
        d.set_mbs(pick(d, 1, 2))


@violation(lambda d: d.data_kind == "energon")
def energon_mbs(d: Draft) -> None:
    d.dataset["micro_batch_size"] = pick(d, d.mbs + 1, 1, 2)
    if d.rng.random() < 0.3:
        d.dataset["do_validation"] = pick(d, True, False) if d.names.later else True


@violation(lambda d: d.names.has_validation)
def eval_sizes(d: Draft) -> None:
    d.section("validation").update(
        pick(d, {"eval_micro_batch_size": pick(d, 1, 2, 4)}, {"eval_global_batch_size": pick(d, 1, 3, 5, 8, 32, d.gbs * 2)},
             {"eval_micro_batch_size": pick(d, 1, 2), "eval_global_batch_size": pick(d, 6, d.dp * 2, d.dp * 3)})
    )  # fmt: skip


@violation()
def batch_size(d: Draft) -> None:
    d.section("train").update(
        pick(d, {"micro_batch_size": pick(d, 0, -1, 3)}, {"global_batch_size": pick(d, 0, -8, 1, 3, d.gbs + 1, d.dp)})
    )
    if d.data_kind == "energon" and d.rng.random() < 0.6:
        d.dataset["micro_batch_size"] = d.section("train").get("micro_batch_size")


@violation(energon)
def energon_counts(d: Draft) -> None:
    key = pick(d, "num_workers", "num_val_workers", "shuffle_buffer_size", "max_samples_per_sequence", "packing_buffer_size", "micro_batch_size")  # fmt: skip
    d.dataset[key] = pick(d, 0, -1, 1, 100)


@violation(energon)
def energon_rest(d: Draft) -> None:
    change = pick(d, "path", "test", "kwargs")
    if change == "path":
        d.dataset["path"] = pick(d, "", "  ", None)
    elif change == "test":
        d.dataset["do_test"] = pick(d, True, True, False)
    else:
        key = pick(d, "batch_size", "max_samples_per_sequence", "packing_buffer_size", "shuffle_buffer_size", "split_part", "task_encoder", "worker_config", "handler")  # fmt: skip
        d.dataset["dataset_kwargs"] = {key: pick(d, 4, None, "x")}


# --- schedule --------------------------------------------------------------------------------------------------------


@violation()
def train_mode(d: Draft) -> None:
    train = d.section("train")
    change = pick(d, "none", "both", "zero")
    if change == "none":
        train.pop("train_iters", None)
        train.pop("train_samples", None)
    elif change == "both":
        train.update(train_iters=100, train_samples=pick(d, 100, 0))
    else:
        train.update(train_iters=None, train_samples=pick(d, 0, -5))


@violation(later)
def num_epochs(d: Draft) -> None:
    train = d.section("train")
    if d.rng.random() < 0.7:
        train["train_iters"] = None
    train["num_epochs"] = pick(d, 1, 2, 0.5, 0, -1)
    if text(d) and d.rng.random() < 0.4:
        d.dataset["dataloader_type"] = pick(d, "batch", "single", "cyclic")
    if d.rng.random() < 0.15:
        train["global_batch_size"] = None


@violation()
def schedule(d: Draft) -> None:
    samples = d.section("train").get("train_samples") is not None
    choices: list[dict[str, Any]] = [
        {"lr_decay_iters": pick(d, 0, -1, 1, 5)},
        {"lr_warmup_iters": pick(d, 5000, 7)},
        {"lr_warmup_fraction": pick(d, 0.1, 0.0, 1.0)},
        {"lr_decay_samples": pick(d, 1000, 0)},
        {"lr_warmup_samples": pick(d, 100, 0)},
        {"start_weight_decay": 0.1, "end_weight_decay": pick(d, 0.1, 0.2)},
        {"lr_decay_style": pick(d, "WSD", "inverse-square-root", "stepwise")},
    ]
    if d.names.later:
        choices += [{"max_steps": pick(d, 1, 10, 5000)}] * (3 if samples else 2)
    d.section("scheduler").update(pick(d, *choices))


# --- data ------------------------------------------------------------------------------------------------------------


@violation(text)
def kwargs_keys(d: Draft) -> None:
    kwargs = d.dataset.setdefault("dataset_kwargs", {})
    key = pick(d, "max_num_samples", "max_num_samples", "chat", "answer_only_loss", "label_key", "prompt_template", "enable_in_batch_packing", "unheard_of")  # fmt: skip
    if isinstance(kwargs, dict):
        kwargs[key] = pick(d, 100, True, "output")
    if d.names.later and d.rng.random() < 0.5:
        kind = pick(d, "ChatSFTPreprocessingConfig", "PromptCompletionSFTPreprocessingConfig")
        d.dataset["preprocessing"] = {"_target_": f"megatron.bridge.data.sft_processing.{kind}"}


@violation(offline)
def pad_cu_without_width(d: Draft) -> None:
    d.specs()["pad_cu_seqlens"] = True
    d.dataset["dataset_kwargs"] = pick(d, None, {}, {"pad_to_max_length": False}, {"pad_to_max_length": "true"}, {"pad_to_max_length": 1})  # fmt: skip


@violation(lambda d: later(d) and offline(d))
def rewrite_paths(d: Draft) -> None:
    d.dataset["hf_rewrite"] = pick(d, True, True, False)
    d.specs()[pick(d, "packed_metadata_path", "packed_metadata_path")] = "/data/packed/meta.jsonl"


@violation(lambda d: later(d) and text(d))
def sources(d: Draft) -> None:
    hf = {"_target_": "megatron.bridge.data.sources.hf.HFDatasetSourceConfig", "dataset_name": "squad"}
    if d.rng.random() < 0.5:
        d.dataset.update({"dataset_root": "/data/sft", "hf_dataset": None, "hf_validation_proportion": None, "hf_test_dataset": None})
    d.dataset.update(
        pick(d, {"hf_dataset": hf}, {"dataset_root": pick(d, "", None, "/data/sft")}, {"hf_output_root": pick(d, "/data/hf", "")},
             {"hf_validation_proportion": pick(d, 0.1, 0.0, 1.0, 1.5)}, {"hf_validation_dataset": hf}, {"hf_test_dataset": hf},
             {"do_validation": False}, {"do_test": pick(d, True, False)}, {"dataset_root": None, "hf_dataset": hf}, {"hf_rewrite": True})
    )  # fmt: skip


@violation(lambda d: offline(d) and d.names.minor == 3)
def pack_path(d: Draft) -> None:
    d.specs()[pick(d, "packed_train_data_path", "packed_val_data_path")] = pick(d, "/data/packed/train.parquet", "/data/packed/a.npy")


@violation(lambda d: bool(d.config.get("peft")))
def peft_checkpoint(d: Draft) -> None:
    d.section("checkpoint")["pretrained_checkpoint"] = pick(d, None, None, "/nonexistent/base", "")


# --- lengths ---------------------------------------------------------------------------------------------------------


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
    d.specs().update(pick(d, {"pad_seq_to_mult": pick(d, 0, -1, None, 3)}, {"max_single_sequence_length": pick(d, 0, -1, d.seq, d.seq + 1, None)}))


@violation(collated)
def collate_multiples(d: Draft) -> None:
    d.dataset[pick(d, "pad_to_multiple_of", "in_batch_packing_pad_to_multiple_of")] = pick(d, 0, -8, 1, 96)


# --- topology, context parallelism -----------------------------------------------------------------------------------


@violation()
def gpu_count(d: Draft) -> None:
    d.gpus = pick(d, d.gpus + 1, 1, 2, 3, max(1, d.gpus // 2), d.gpus * 3)


@violation()
def parallel_size(d: Draft) -> None:
    key = pick(d, "tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size", "expert_model_parallel_size")
    old = d.model.get(key, 1)
    d.model[key] = pick(d, 2, 3, 4, 5, 16, old * 2, 0) if d.rng.random() < 0.9 else -1
    if d.rng.random() < 0.6 and isinstance(old, int) and d.model[key] > 0 and key[0] != "e":
        d.gpus = d.gpus * d.model[key] // max(1, old) or 1


@violation()
def sequence_parallel(d: Draft) -> None:
    d.model["sequence_parallel"] = pick(d, True, False)
    if d.rng.random() < 0.5:
        d.model["tensor_model_parallel_size"] = 1


@violation()
def query_groups(d: Draft) -> None:
    d.model["num_query_groups"] = pick(d, 1, 2, 3, 5, 6, d.heads)


@violation(lambda d: d.names.minor > 3)
def eval_cp(d: Draft) -> None:
    d.section("dist")["eval_context_parallel_size"] = pick(d, 1, 2, 3, 4, 5, 8)


@violation(lambda d: d.cp > 1)
def cp_loss(d: Draft) -> None:
    if d.rng.random() < 0.5:
        d.model["calculate_per_token_loss"] = pick(d, False, None)
    else:
        d.model.pop("calculate_per_token_loss", None)


@violation(lambda d: d.cp > 1)
def cp_average(d: Draft) -> None:
    d.section("ddp")["average_in_collective"] = True


@violation()
def cp_comm(d: Draft) -> None:
    d.model["cp_comm_type"] = pick(d, ["p2p"] * (d.layers - 1), ["a2a", "p2p"], ["p2p"] * d.layers, "a2a+p2p", "p2p", ["a2a+p2p"] * d.layers)
    if d.rng.random() < 0.5:
        d.model["hierarchical_context_parallel_sizes"] = pick(d, [2, 2], [2, 1], [4, 2], [1, d.cp], None)


# --- graphs, recompute, experts ----------------------------------------------------------------------------------------


@violation()
def graphs(d: Draft) -> None:
    scope = "cuda_graph_modules" if d.names.minor > 4 and d.rng.random() < 0.5 else "cuda_graph_scope"
    d.model["cuda_graph_impl"] = pick(d, "transformer_engine", "transformer_engine", "local", "full_iteration", "none")
    d.model[scope] = pick(
        d, ["attn"], ["mlp"], ["moe"], ["moe_router"], ["moe_preprocess"], ["moe", "moe_router"], ["moe_router", "moe_preprocess"],
        ["full_iteration"], [], "attn,mlp", "full", "full_iteration", ["mamba"], ["atn"], None,
    )  # fmt: skip
    if d.rng.random() < 0.7:
        d.model["use_te_rng_tracker"] = True
        d.section("rng")["te_rng_tracker"] = True
    if d.rng.random() < 0.5:
        d.section("rerun_state_machine")["check_for_nan_in_loss"] = False


@violation(lambda d: d.model.get("cuda_graph_impl") not in (None, "none"))
def graph_partner(d: Draft) -> None:
    change = pick(d, "offload", "recompute", "nan", "both", "tracker", "width")
    if change == "offload":
        d.model.update(cpu_offloading=True, cpu_offloading_num_layers=2)
    elif change == "recompute":
        d.model.update(recompute_granularity="full", recompute_method="uniform", recompute_num_layers=1)
    elif change == "nan":
        d.section("rerun_state_machine")["check_for_nan_in_loss"] = pick(d, True, False)
    elif change == "both":
        d.model.update(cuda_graph_scope=pick(d, ["attn"], [], "full", None))
        if d.names.minor > 4:
            d.model.update(cuda_graph_modules=pick(d, ["attn"], [], "full", None))
    elif change == "tracker":
        d.model["use_te_rng_tracker"] = False
        d.section("rng")["te_rng_tracker"] = pick(d, False, False, True)
    else:
        d.specs()["pad_cu_seqlens"] = False
        d.dataset["dataset_kwargs"] = pick(d, None, {"pad_to_max_length": True}, {"pad_to_max_length": "true"}) if text(d) else None


@violation()
def recompute(d: Draft) -> None:
    d.model["recompute_granularity"] = pick(d, "full", "selective", "block", "full")
    if d.rng.random() < 0.7:
        d.model["recompute_method"] = pick(d, "uniform", "block", "chunks", None)
    if d.rng.random() < 0.6:
        d.model["recompute_num_layers"] = pick(d, 1, 2, None)
    if d.rng.random() < 0.1:
        d.model["distribute_saved_activations"] = True


@violation()
def experts(d: Draft) -> None:
    d.model.update(
        pick(d, {"expert_model_parallel_size": pick(d, 2, 3, 4)}, {"overlap_moe_expert_parallel_comm": True},
             {"moe_token_dispatcher_type": pick(d, "allgather", "alltoall", "flex"), "variable_seq_lengths": pick(d, True, False)},
             {"moe_flex_dispatcher_backend": pick(d, "ncclep", "deepep", "hybridep")}, {"mtp_num_layers": pick(d, 0, 1, 2)},
             {"moe_expert_capacity_factor": pick(d, 1.0, 1.5), "moe_pad_expert_input_to_capacity": pick(d, True, False)})
    )  # fmt: skip


@violation(lambda d: bool(d.experts))
def expert_overlap(d: Draft) -> None:
    if d.rng.random() < 0.5:
        d.model["overlap_moe_expert_parallel_comm"] = True
    else:
        d.config["comm_overlap"] = {
            "_target_": "megatron.bridge.training.comm_overlap.CommOverlapConfig", "tp_comm_overlap": False,
            "overlap_moe_expert_parallel_comm": True, **pick(d, {}, {"delay_wgrad_compute": True}),
        }  # fmt: skip
    d.model.update(pick(d, {}, {"expert_model_parallel_size": pick(d, 1, 2)}, {"recompute_granularity": "full", "recompute_method": "uniform", "recompute_num_layers": 1}))  # fmt: skip


@violation()
def deterministic(d: Draft) -> None:
    d.model["deterministic_mode"] = True
    d.model["cross_entropy_loss_fusion"] = pick(d, True, False, False)
    if d.names.later and d.rng.random() < 0.7:
        d.config["env_vars"] = {"NCCL_ALGO": pick(d, "Tree", "Ring", "NVLS", "^NVLS")}
    if d.rng.random() < 0.4:
        d.model["attention_backend"] = {"_target_": "megatron.core.transformer.enums.AttnBackend", "_call_": True, "_args_": [pick(d, 1, 2, 5)]}  # fmt: skip


@violation()
def gated_delta_net(d: Draft) -> None:
    heads = pick(d, (4, 8), (8, 4), (3, 6), (16, 32))
    d.model.update(
        experimental_attention_variant="gated_delta_net", linear_attention_freq=pick(d, 4, 1), linear_num_key_heads=heads[0],
        linear_num_value_heads=heads[1], linear_key_head_dim=16, linear_value_head_dim=16, linear_conv_kernel_dim=4,
    )  # fmt: skip


# --- precision, sharding, checkpoint -----------------------------------------------------------------------------------


@violation()
def fsdp(d: Draft) -> None:
    d.fsdp()
    d.section("checkpoint").update(save=pick(d, "/data/out", None), ckpt_format=pick(d, "fsdp_dtensor", "torch_dist", "torch_dist"))


@violation()
def checkpoint_format(d: Draft) -> None:
    d.section("checkpoint").update(ckpt_format=pick(d, "fsdp_dtensor", "torch_dist"), save=pick(d, "/data/out", None), load=pick(d, "/checkpoints/base", None))


@violation()
def precision_object(d: Draft) -> None:
    d.config["mixed_precision"] = {
        "_target_": "megatron.bridge.training.mixed_precision.MixedPrecisionConfig", "bf16": True, "params_dtype": "torch.bfloat16",
        "pipeline_dtype": "torch.bfloat16", "fp8": pick(d, "e4m3", "hybrid"), "fp8_recipe": pick(d, "mxfp8", "tensorwise", "delayed"),
        "fp8_param_gather": pick(d, True, True, False), "reuse_grad_buf_for_mxfp8_param_ag": pick(d, False, True),
    }  # fmt: skip
    for key in ("params_dtype", "pipeline_dtype"):
        d.config["mixed_precision"][key] = {"_target_": "torch.bfloat16", "_call_": False}


# --- how a value is written ----------------------------------------------------------------------------------------------


def _numbers(d: Draft) -> list[tuple[dict[str, Any], str]]:
    places = [(d.model, k) for k in ("tensor_model_parallel_size", "context_parallel_size", "num_layers", "num_attention_heads")]
    places += [(d.section("train"), k) for k in ("global_batch_size", "micro_batch_size", "train_iters")]
    places += [(d.outer, "seq_length"), (d.dataset, "seq_length"), (d.specs(), "packed_sequence_size"), (d.specs(), "pad_seq_to_mult")]
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
    section = d.rng.choice([s for s in (d.model, d.outer, d.section("train"), d.section("ddp"), d.section("dist"), d.dataset, d.specs(), d.section("checkpoint")) if s])  # fmt: skip
    section[pick(d, "micro_batchsize", "seq_len", "context_parallelism", "average_collective", "packed_sequence_length", "max_steps")] = 4


@violation()
def key_of_another_release(d: Draft) -> None:
    section, key, value = d.rng.choice([
        (d.dataset, "packed_sequence_specs", None), (d.dataset, "offline_packing_specs", None), (d.dataset, "enable_offline_packing", False),
        (d.dataset, "enable_in_batch_packing", False), (d.dataset, "pack_sequences_in_batch", False), (d.section("train"), "num_epochs", None),
        (d.section("dist"), "eval_context_parallel_size", 1), (d.model, "cuda_graph_modules", None), (d.section("scheduler"), "max_steps", None),
        (d.dataset, "packing_buffer_size", None), (d.dataset, "enable_global_batch_packing", False), (d.section("dist"), "lazy_mpu_init", None),
        (d.specs(), "max_single_sequence_length", None), (d.specs(), "num_tokenizer_workers", 2), (d.dataset, "pad_to_multiple_of", 8),
    ])  # fmt: skip
    section[key] = value


@violation()
def class_of_another_release(d: Draft) -> None:
    target = pick(d, "megatron.bridge.training.config.FinetuningDatasetConfig", "megatron.bridge.data.builders.gpt_sft.GPTSFTDatasetConfig", "megatron.bridge.data.builders.gpt_sft.FinetuningDatasetConfig")  # fmt: skip
    if d.specs() and d.rng.random() < 0.6:
        d.specs()["_target_"] = pick(d, "megatron.bridge.data.datasets.packed_sequence.PackedSequenceSpecs", "megatron.bridge.data.packing.config.PackedSequenceSpecs", "megatron.bridge.data.packing.PackedSequenceSpecs")  # fmt: skip
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
    section, key = d.rng.choice([
        (d.model, "calculate_per_token_loss"), (d.model, "sequence_parallel"), (d.section("ddp"), "average_in_collective"),
        (d.dataset, d.names.in_batch_key), (d.dataset, "enable_offline_packing"), (d.section("rerun_state_machine"), "check_for_nan_in_loss"),
    ])  # fmt: skip
    if key in section:
        section[key] = pick(d, "true", "false", "True", "no")


@oddity()
def interpolated(d: Draft) -> None:
    if "seq_length" in d.dataset:
        d.dataset["seq_length"] = "${model.seq_length}"


@oddity()
def dtype_word(d: Draft) -> None:
    d.model[pick(d, "params_dtype", "pipeline_dtype")] = pick(d, "bf16", "bfloat16", "torch.float32", "half")


@oddity()
def backend_word(d: Draft) -> None:
    d.model["attention_backend"] = pick(d, "flash", "fused", "auto")


@oddity()
def harmless(d: Draft) -> None:
    d.section("logger").update(log_interval=pick(d, 1, 10))
    d.section("checkpoint").update(save_interval=pick(d, 50, 100))
    d.dataset["num_workers"] = pick(d, 0, 2)
