"""What is done to an ordinary override: odd spellings, keys of another release, violations."""

from __future__ import annotations

from collections.abc import Callable

from .writer import Raw, Writer

CHANGES: list[tuple[str, Callable[[Writer], None]]] = []


def change(function: Callable[[Writer], None]) -> Callable[[Writer], None]:
    CHANGES.append((function.__name__, function))
    return function


NUMBERS = (
    "train.global_batch_size",
    "train.micro_batch_size",
    "train.train_iters",
    "model.seq_length",
    "dataset.seq_length",
    "model.tensor_model_parallel_size",
    "model.context_parallel_size",
    "scheduler.lr_warmup_iters",
    "model.num_layers",
)


@change
def number_form(w: Writer) -> None:
    value = w.rng.choice((1, 2, 8, 128, 4096))
    form = w.rng.choice(
        (
            f'"{value}"',
            f"'{value}'",
            f"{value}.0",
            f"{value}e0",
            "4_096",
            "8e3",
            "0x10",
            "1:30",
            "null",
            "???",
            "~",
            "1e3",
            "010",
            "+8",
            "true",
        )
    )
    w.put(w.rng.choice(NUMBERS), Raw(form))


@change
def boolean_form(w: Writer) -> None:
    key = w.rng.choice(
        (
            "model.calculate_per_token_loss",
            "model.sequence_parallel",
            "ddp.average_in_collective",
            "dataset.enable_offline_packing",
            "rerun_state_machine.check_for_nan_in_loss",
        )
    )
    w.put(key, Raw(w.rng.choice(('"true"', "'false'", "yes", "no", "on", "True", "0", "1", "null"))))


@change
def unknown_key(w: Writer) -> None:
    key = w.rng.choice(
        (
            "model.context_parallelism",
            "train.max_steps",
            "data.micro_batch_size",
            "modle.seq_length",
            "dataset.sequence_length",
            "dataset.packed_sequence_size",
            "ddp.average_collective",
            "training.global_batch_size",
            "finetune.lr",
            "optimizer.finetune_lr",
        )
    )
    w.put(key, 4)


@change
def another_generation(w: Writer) -> None:
    old = {"_target_": "megatron.bridge.data.datasets.packed_sequence.PackedSequenceSpecs", "packed_sequence_size": 4096}
    new = {"_target_": "megatron.bridge.data.packing.config.PackedSequenceSpecs", "packed_sequence_size": 4096}
    key, value = w.rng.choice(
        (
            ("dataset.packed_sequence_specs", old),
            ("dataset.offline_packing_specs", new),
            ("dataset.offline_packing_specs", old),
            ("dataset.packed_sequence_specs", new),
            ("dataset.enable_offline_packing", True),
            ("dataset.pack_sequences_in_batch", True),
            ("dataset.enable_in_batch_packing", True),
            ("dist.eval_context_parallel_size", 2),
            ("train.num_epochs", 1),
            ("dist.lazy_init", True),
            ("model.cuda_graph_modules", ["mlp"]),
            ("train.eval_iters", 10),
            ("validation.eval_iters", 10),
            ("dataset.defer_in_batch_packing_to_step", True),
        )
    )
    w.put(key, value)


@change
def bare_specs(w: Writer) -> None:
    w.put(f"dataset.{w.names.specs_key}", {"packed_sequence_size": 2048, "pad_seq_to_mult": w.rng.choice((1, 8, 0))})
    if w.names.later and w.chance(0.5):
        w.put("dataset.enable_offline_packing", True)


@change
def section_shape(w: Writer) -> None:
    name = w.rng.choice(
        (
            "train",
            "model",
            "dataset",
            "scheduler",
            "checkpoint",
            "ddp",
            "validation",
            "logger",
            "peft",
            "mixed_precision",
            "comm_overlap",
        )
    )
    w.tree[name] = Raw(w.rng.choice(("", "", "null", "[micro_batch_size, 1]", "{}", "none", "~")))


@change
def duplicate(w: Writer) -> None:
    sections = [k for k, v in w.tree.items() if isinstance(v, dict) and v]
    if not sections:
        w.extra.append("train:\n  train_iters: 10\n  train_iters: 20\n")
    elif w.chance(0.5):
        w.extra.append(f"{w.rng.choice(sections)}:\n  seed: 1\n")
    else:
        section = w.tree[w.rng.choice(sections)]
        section[f"{next(iter(section))} "] = 1  # the same key again, written with a space before the colon


@change
def interpolation(w: Writer) -> None:
    key, value = w.rng.choice(
        (
            ("dataset.seq_length", "${model.seq_length}"),
            ("model.seq_length", "${dataset.seq_length}"),
            ("checkpoint.save", "${oc.env:OUT_DIR,/data/out}"),
            ("train.global_batch_size", "${oc.env:GBS,8}"),
            ("train.micro_batch_size", "${oc.decode:${oc.env:MBS,1}}"),
            ("checkpoint.save", "${no.such.key}"),
            ("logger.log_interval", "${train.train_iters}"),
        )
    )
    w.put(key, Raw(value))


@change
def word(w: Writer) -> None:
    key, value = w.rng.choice(
        (
            ("model.attention_backend", "flash"),
            ("model.params_dtype", "bf16"),
            ("model.params_dtype", "torch.bfloat16"),
            ("model.params_dtype", "half"),
            ("mixed_precision", "bf16_mixed"),
            ("mixed_precision", "bf16_with_mxfp8_mixed"),
            ("mixed_precision", "bf17_mixed"),
            ("model.cp_comm_type", "a2a"),
            ("model.cp_comm_type", "a2a+p2p"),
            ("model.cp_comm_type", ["p2p", "a2a"]),
            ("checkpoint.save", "???"),
            ("model.pipeline_dtype", "bfloat16"),
        )
    )
    w.put(key, Raw(value) if isinstance(value, str) else value)


@change
def gpu_count(w: Writer) -> None:
    w.gpus = w.rng.choice((w.gpus + 1, w.gpus * 3, 1, 2, 8, 64))


@change
def eval_sizes(w: Writer) -> None:
    w.put(w.rng.choice(("validation.eval_global_batch_size", "validation.eval_micro_batch_size")), w.rng.choice((1, 2, 3, 8, 64)))


@change
def graphs(w: Writer) -> None:
    impl = w.rng.choice(("transformer_engine", "local", "full_iteration", "none"))
    w.put("model.cuda_graph_impl", Raw(impl))
    w.put(
        w.rng.choice(("model.cuda_graph_scope", "model.cuda_graph_modules")),
        w.rng.choice((["mlp"], ["attn"], ["full_iteration"], [], None, "attn", "full")),
    )
    if w.chance(0.6):
        w.put("model.use_te_rng_tracker", True)
        w.put("rng.te_rng_tracker", True)
    if w.chance(0.4):
        w.put("rerun_state_machine.check_for_nan_in_loss", w.chance(0.3))
    if w.chance(0.5):
        w.put("dataset.dataset_kwargs", {"pad_to_max_length": True})
    if w.chance(0.3):
        w.put(f"dataset.{w.names.specs_key}.pad_cu_seqlens", True)


@change
def recompute(w: Writer) -> None:
    w.put("model.recompute_granularity", Raw(w.rng.choice(("full", "selective"))))
    if w.chance(0.5):
        w.put("model.recompute_method", Raw(w.rng.choice(("uniform", "block", "chunks"))))
        w.put("model.recompute_num_layers", w.rng.choice((1, None)))


@change
def schedule(w: Writer) -> None:
    key, value = w.rng.choice(
        (
            ("scheduler.lr_warmup_iters", 500),
            ("scheduler.lr_decay_iters", 0),
            ("scheduler.lr_warmup_fraction", 0.1),
            ("train.train_samples", 1000),
            ("train.train_iters", None),
            ("train.num_epochs", 1),
            ("scheduler.max_steps", 5),
            ("scheduler.lr_warmup_samples", 10),
            ("train.global_batch_size", 0),
        )
    )
    w.put(key, value)


@change
def sources(w: Writer) -> None:
    if w.names.later:
        w.put("dataset.dataset_root", "/data/sft")
        for key in w.rng.sample(("hf_dataset", "hf_validation_proportion", "hf_output_root"), w.rng.choice((0, 1, 2, 3))):
            w.put(f"dataset.{key}", None)
    else:
        w.put("dataset.dataset_root", "/data/sft")


@change
def chat(w: Writer) -> None:
    w.put("dataset.dataset_kwargs", {w.rng.choice(("chat", "answer_only_loss", "pad_to_max_length", "max_num_samples")): True})
    if w.names.later and w.chance(0.4):
        w.put("dataset.preprocessing", None)


@change
def another_class(w: Writer) -> None:
    names = w.names.datasets
    w.put(
        "dataset._target_",
        Raw(
            w.rng.choice(
                (names["text"], names["energon"], names["mock_vlm"], "megatron.bridge.training.config.FinetuningDatasetConfig")
            )
        ),
    )
    if w.chance(0.7):
        w.put("dataset.dataset_root", "/data/sft")
    if w.chance(0.5):
        w.put("dataset.seq_length", w.base["seq_length"])


@change
def lora(w: Writer) -> None:
    w.put(
        "peft",
        {
            "_target_": w.rng.choice(
                ("megatron.bridge.peft.lora.LoRA", "megatron.bridge.peft.dora.DoRA", "megatron.bridge.peft.lora.Lora")
            ),
            "dim": 8,
        },
    )


@change
def sharding(w: Writer) -> None:
    w.put("ddp.use_megatron_fsdp", True)
    w.put("dist.use_megatron_fsdp", True)
    w.put("checkpoint.ckpt_format", Raw(w.rng.choice(("fsdp_dtensor", "torch_dist"))))


@change
def experts(w: Writer) -> None:
    key, value = w.rng.choice(
        (
            ("model.expert_model_parallel_size", 2),
            ("model.expert_tensor_parallel_size", 2),
            ("model.moe_token_dispatcher_type", "allgather"),
            ("model.overlap_moe_expert_parallel_comm", True),
            ("comm_overlap.overlap_moe_expert_parallel_comm", True),
            ("model.virtual_pipeline_model_parallel_size", 2),
            ("model.pipeline_model_parallel_size", 2),
            ("model.mtp_num_layers", 1),
            ("model.moe_flex_dispatcher_backend", "hybridep"),
            ("model.moe_flex_dispatcher_backend", "ncclep"),
            ("model.variable_seq_lengths", True),
        )
    )
    w.put(key, value)


@change
def deterministic(w: Writer) -> None:
    w.put("model.deterministic_mode", True)
    w.put("model.cross_entropy_loss_fusion", w.chance(0.3))
    if w.names.later:
        w.put("env_vars.NCCL_ALGO", Raw("Ring"))


@change
def command_line(w: Writer) -> None:
    w.pairs.append(
        w.rng.choice(
            (
                "model.context_parallel_size=1",
                "train.global_batch_size=8",
                "+dataset.foo=1",
                "dataset.foo=1",
                "++train.train_iters=5",
                "~dataset.dataset_kwargs",
                "train.micro_batch_size='1'",
                "model.seq_length=4096",
                "dataset.seq_length=4096",
                f"dataset.{w.names.specs_key}.pad_seq_to_mult=8",
                f"+dataset.{w.names.specs_key}.packed_sequence_size=2048",
                "optimizer.lr=1e-5",
                "model.cp_comm_type=[p2p,a2a]",
                "peft=null",
                "peft.dim=8",
                "+peft.dim=8",
                "+peft=null",
                "~peft",
                "model.activation_func=gelu",
                "model.transformer_layer_spec=null",
                "train=",
                "a=b=c",
            )
        )
    )
