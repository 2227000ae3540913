"""An override file under construction, written line by line as a person would leave it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from .names import Names

Tree = dict[str, Any]


class Raw(str):
    """A scalar written as it is, without quoting."""


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
        if (self.base["peft"] and self.chance(0.85)) or self.chance(0.2):
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

    def move_to_command_line(self) -> None:
        """Some values as KEY=VALUE pairs instead of lines of the file."""
        leaves = list(_leaves(self.tree, ()))
        for path in self.rng.sample(leaves, min(len(leaves), self.rng.choice((1, 2, 3)))):
            node: Any = self.tree
            for key in path[:-1]:
                node = node[key]
            value = node.pop(path[-1])
            prefix = self.rng.choice(("", "", "", "+", "++"))
            self.pairs.append(f"{prefix}{'.'.join(path)}={_scalar(value)}")

    def text(self) -> str:
        body = "".join(_lines(self.tree, 0)) + "".join(self.extra)
        return body or "# nothing\n"


def _leaves(tree: Tree, prefix: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for key, value in tree.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, (*prefix, key))
        else:
            yield (*prefix, key)


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
