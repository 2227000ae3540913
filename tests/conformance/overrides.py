"""Seeded generator of override files as people write them, on recipes of a release.

Rows: {"id", "release", "recipe", "gpus", "launcher", "yaml", "aim"} and, in some, "overrides" (KEY=VALUE pairs). The text is built line by line, not dumped,
so that quoting, number forms, nulls, comments and duplicate keys are as a person would leave them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from .names import NAMES, Names

Tree = dict[str, Any]


class Raw(str):
    """A scalar written as it is, without quoting."""


def override_rows(release: str, recipes: dict[str, Tree], count: int, seed: int, pairs: bool = False) -> Iterator[Tree]:
    """`recipes`: name -> values as `judge.load_recipes` gives them; with `pairs` some values come as KEY=VALUE."""
    usable = sorted(n for n, v in recipes.items() if v["heads"] and v["gbs"] and "wan" not in n and isinstance(v["tp"], int))
    for number in range(count):
        rng = random.Random(f"{release}/overrides/{seed}/{number}")
        recipe = rng.choice(usable)
        writer = Writer(rng, NAMES[release], recipes[recipe])
        writer.ordinary()
        for _ in range(rng.choice((0, 0, 0, 1, 1, 1, 2))):
            name, change = rng.choice(CHANGES)
            change(writer)
            writer.aim.append(name)
        row: Tree = {"id": f"{release}-v{seed}-{number:04d}", "release": release, "recipe": recipe, "gpus": writer.gpus}
        row |= {"launcher": "script", "yaml": writer.text(), "aim": writer.aim}
        if pairs and writer.pairs:
            row["overrides"] = writer.pairs
        yield row


class Writer:
    """An override under construction; `base` holds what the recipe says."""

    def __init__(self, rng: random.Random, names: Names, base: Tree) -> None:
        self.rng, self.names, self.base = rng, names, base
        self.tree: Tree = {}
        self.extra: list[str] = []  # further top-level text
        self.pairs: list[str] = []
        self.aim: list[str] = []
        self.tp, self.pp, self.cp = base["tp"], base["pp"] or 1, base["cp"] or 1
        self.dp = rng.choice((1, 1, 2, 4))
        self.gpus = self.tp * self.pp * self.cp * self.dp

    def put(self, dotted: str, value: Any) -> None:
        *path, last = dotted.split(".")
        node = self.tree
        for part in path:
            inner = node.get(part)
            if not isinstance(inner, dict):
                inner = node[part] = {}
            node = inner
        node[last] = value

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def ordinary(self) -> None:
        """Changes as in everyday use; mostly consistent with the recipe."""
        rng = self.rng
        if self.base["peft"] and self.chance(0.85) or self.chance(0.2):
            self.put("checkpoint.pretrained_checkpoint", "/checkpoints/base")
        if self.chance(0.4):
            self.topology()
        if self.chance(0.4):
            self.lengths()
        if self.chance(0.35):
            self.packing()
        if self.chance(0.5):
            mbs = self.tree.get("train", {}).get("micro_batch_size", self.base["mbs"])
            self.put("train.global_batch_size", (mbs if isinstance(mbs, int) else 1) * self.dp * rng.choice((1, 2, 4, 8)))
        if self.chance(0.4):
            self.put("train.train_iters", rng.choice((10, 100, 2000)))
        if self.chance(0.2):
            self.put("optimizer.lr", rng.choice((Raw("1e-5"), Raw("2e-05"), 0.0001, Raw("5.0e-6"))))
        if self.chance(0.1):
            self.put("logger.log_interval", 1)

    def topology(self) -> None:
        rng = self.rng
        heads, groups = self.base["heads"], self.base["groups"] or self.base["heads"]
        fits = [t for t in (1, 2, 4, 8) if heads % t == 0 and (groups % t == 0 or t % groups == 0)]
        if self.chance(0.7):
            self.tp = rng.choice(fits)
            self.put("model.tensor_model_parallel_size", self.tp)
            if self.tp > 1 and self.chance(0.6):
                self.put("model.sequence_parallel", True)
            elif self.tp == 1:
                self.put("model.sequence_parallel", False)
        if self.chance(0.5):
            self.cp = rng.choice((1, 2, 4, 8))
            self.put("model.context_parallel_size", self.cp)
            if self.cp > 1 and self.chance(0.75):
                self.put("model.calculate_per_token_loss", True)
                self.put("ddp.average_in_collective", False)
        self.gpus = self.tp * self.pp * self.cp * self.dp

    def lengths(self) -> None:
        value = self.rng.choice((2048, 4096, 8192, 16384, 32768, 6000, 5000))
        self.put("model.seq_length", value)
        if self.chance(0.85):
            self.put("dataset.seq_length", value)

    def packing(self) -> None:
        rng, names = self.rng, self.names
        text = self.base["dataset_class"] in ("FinetuningDatasetConfig", "HFDatasetConfig", "GPTSFTDatasetConfig")
        if not text:
            self.put(f"dataset.{names.in_batch_key}", rng.choice((True, True, False)))
            if self.chance(0.7):
                self.put("train.micro_batch_size", 2)
            return
        if self.chance(0.25):
            self.put(f"dataset.{names.specs_key}", None)
            if names.later and self.chance(0.8):
                self.put("dataset.enable_offline_packing", False)
            return
        size = self.tree.get("dataset", {}).get("seq_length", rng.choice((2048, 4096)))
        specs: Tree = {} if self.base["pack_size"] and self.chance(0.5) else {"_target_": names.specs_class}
        specs |= {"packed_sequence_size": size, "pad_seq_to_mult": rng.choice((1, 2, 8, 2 * self.cp))}
        if names.later:
            self.put("dataset.enable_offline_packing", True)
        self.put(f"dataset.{names.specs_key}", specs)
        if self.chance(0.8):
            self.put("train.micro_batch_size", 1)

    def text(self) -> str:
        body = "".join(_lines(self.tree, 0)) + "".join(self.extra)
        return body or "# nothing\n"


def _lines(tree: Tree, depth: int) -> Iterator[str]:
    for key, value in tree.items():
        pad = "  " * depth
        if isinstance(value, dict) and value:
            yield f"{pad}{key}:\n"
            yield from _lines(value, depth + 1)
        else:
            yield f"{pad}{key}: {_scalar(value)}\n"


def _scalar(value: Any) -> str:
    if isinstance(value, Raw):
        return str(value)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "[" + ", ".join(_scalar(v) for v in value) + "]"
    if isinstance(value, dict):
        return "{}"
    return f'"{value}"' if isinstance(value, str) else str(value)


CHANGES: list[tuple[str, Any]] = []


def change(function: Any) -> Any:
    CHANGES.append((function.__name__, function))
    return function


NUMBERS = (
    "train.global_batch_size", "train.micro_batch_size", "train.train_iters", "model.seq_length", "dataset.seq_length",
    "model.tensor_model_parallel_size", "model.context_parallel_size", "scheduler.lr_warmup_iters", "model.num_layers",
)  # fmt: skip


@change
def number_form(w: Writer) -> None:
    value = w.rng.choice((1, 2, 8, 128, 4096))
    form = w.rng.choice((f'"{value}"', f"'{value}'", f"{value}.0", f"{value}e0", "4_096", "8e3", "0x10", "1:30", "null", "???", "~", "1e3", "010", "+8", "true"))  # fmt: skip
    w.put(w.rng.choice(NUMBERS), Raw(form))


@change
def boolean_form(w: Writer) -> None:
    key = w.rng.choice(("model.calculate_per_token_loss", "model.sequence_parallel", "ddp.average_in_collective", "dataset.enable_offline_packing", "rerun_state_machine.check_for_nan_in_loss"))  # fmt: skip
    w.put(key, Raw(w.rng.choice(('"true"', "'false'", "yes", "no", "on", "True", "0", "1", "null"))))


@change
def unknown_key(w: Writer) -> None:
    key = w.rng.choice((
        "model.context_parallelism", "train.max_steps", "data.micro_batch_size", "modle.seq_length", "dataset.sequence_length",
        "dataset.packed_sequence_size", "ddp.average_collective", "training.global_batch_size", "finetune.lr", "optimizer.finetune_lr",
    ))  # fmt: skip
    w.put(key, 4)


@change
def another_generation(w: Writer) -> None:
    old = {"_target_": "megatron.bridge.data.datasets.packed_sequence.PackedSequenceSpecs", "packed_sequence_size": 4096}
    new = {"_target_": "megatron.bridge.data.packing.config.PackedSequenceSpecs", "packed_sequence_size": 4096}
    key, value = w.rng.choice((
        ("dataset.packed_sequence_specs", old), ("dataset.offline_packing_specs", new), ("dataset.offline_packing_specs", old),
        ("dataset.packed_sequence_specs", new), ("dataset.enable_offline_packing", True), ("dataset.pack_sequences_in_batch", True),
        ("dataset.enable_in_batch_packing", True), ("dist.eval_context_parallel_size", 2), ("train.num_epochs", 1), ("dist.lazy_init", True),
        ("model.cuda_graph_modules", ["mlp"]), ("train.eval_iters", 10), ("validation.eval_iters", 10), ("dataset.defer_in_batch_packing_to_step", True),
    ))  # fmt: skip
    w.put(key, value)


@change
def bare_specs(w: Writer) -> None:
    w.put(f"dataset.{w.names.specs_key}", {"packed_sequence_size": 2048, "pad_seq_to_mult": w.rng.choice((1, 8, 0))})
    if w.names.later and w.chance(0.5):
        w.put("dataset.enable_offline_packing", True)


@change
def section_shape(w: Writer) -> None:
    name = w.rng.choice(("train", "model", "dataset", "scheduler", "checkpoint", "ddp", "validation", "logger", "peft", "mixed_precision", "comm_overlap"))  # fmt: skip
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
    key, value = w.rng.choice((
        ("dataset.seq_length", "${model.seq_length}"), ("model.seq_length", "${dataset.seq_length}"), ("checkpoint.save", "${oc.env:OUT_DIR,/data/out}"),
        ("train.global_batch_size", "${oc.env:GBS,8}"), ("train.micro_batch_size", "${oc.decode:${oc.env:MBS,1}}"), ("checkpoint.save", "${no.such.key}"),
        ("logger.log_interval", "${train.train_iters}"),
    ))  # fmt: skip
    w.put(key, Raw(value))


@change
def word(w: Writer) -> None:
    key, value = w.rng.choice((
        ("model.attention_backend", "flash"), ("model.params_dtype", "bf16"), ("model.params_dtype", "torch.bfloat16"), ("model.params_dtype", "half"),
        ("mixed_precision", "bf16_mixed"), ("mixed_precision", "bf16_with_mxfp8_mixed"), ("mixed_precision", "bf17_mixed"), ("model.cp_comm_type", "a2a"),
        ("model.cp_comm_type", "a2a+p2p"), ("model.cp_comm_type", ["p2p", "a2a"]), ("checkpoint.save", "???"), ("model.pipeline_dtype", "bfloat16"),
    ))  # fmt: skip
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
    w.put(w.rng.choice(("model.cuda_graph_scope", "model.cuda_graph_modules")), w.rng.choice((["mlp"], ["attn"], ["full_iteration"], [], None, "attn", "full")))
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
    key, value = w.rng.choice((
        ("scheduler.lr_warmup_iters", 500), ("scheduler.lr_decay_iters", 0), ("scheduler.lr_warmup_fraction", 0.1), ("train.train_samples", 1000),
        ("train.train_iters", None), ("train.num_epochs", 1), ("scheduler.max_steps", 5), ("scheduler.lr_warmup_samples", 10), ("train.global_batch_size", 0),
    ))  # fmt: skip
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
    w.put("dataset._target_", Raw(w.rng.choice((names["text"], names["energon"], names["mock_vlm"], "megatron.bridge.training.config.FinetuningDatasetConfig"))))
    if w.chance(0.7):
        w.put("dataset.dataset_root", "/data/sft")
    if w.chance(0.5):
        w.put("dataset.seq_length", w.base["seq_length"])


@change
def lora(w: Writer) -> None:
    w.put("peft", {"_target_": w.rng.choice(("megatron.bridge.peft.lora.LoRA", "megatron.bridge.peft.dora.DoRA", "megatron.bridge.peft.lora.Lora")), "dim": 8})


@change
def sharding(w: Writer) -> None:
    w.put("ddp.use_megatron_fsdp", True)
    w.put("dist.use_megatron_fsdp", True)
    w.put("checkpoint.ckpt_format", Raw(w.rng.choice(("fsdp_dtensor", "torch_dist"))))


@change
def experts(w: Writer) -> None:
    key, value = w.rng.choice((
        ("model.expert_model_parallel_size", 2), ("model.expert_tensor_parallel_size", 2), ("model.moe_token_dispatcher_type", "allgather"),
        ("model.overlap_moe_expert_parallel_comm", True), ("comm_overlap.overlap_moe_expert_parallel_comm", True),
        ("model.virtual_pipeline_model_parallel_size", 2), ("model.pipeline_model_parallel_size", 2), ("model.mtp_num_layers", 1),
        ("model.moe_flex_dispatcher_backend", "hybridep"), ("model.moe_flex_dispatcher_backend", "ncclep"), ("model.variable_seq_lengths", True),
    ))  # fmt: skip
    w.put(key, value)


@change
def deterministic(w: Writer) -> None:
    w.put("model.deterministic_mode", True)
    w.put("model.cross_entropy_loss_fusion", w.chance(0.3))
    if w.names.later:
        w.put("env_vars.NCCL_ALGO", Raw("Ring"))


@change
def command_line(w: Writer) -> None:
    w.pairs.append(w.rng.choice((
        "model.context_parallel_size=1", "train.global_batch_size=8", "+dataset.foo=1", "dataset.foo=1", "++train.train_iters=5", "~dataset.dataset_kwargs",
        "train.micro_batch_size='1'", "model.seq_length=4096", "dataset.seq_length=4096", f"dataset.{w.names.specs_key}.pad_seq_to_mult=8",
        f"+dataset.{w.names.specs_key}.packed_sequence_size=2048", "optimizer.lr=1e-5", "model.cp_comm_type=[p2p,a2a]", "peft=null", "train=", "a=b=c",
    )))  # fmt: skip
