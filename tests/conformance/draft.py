"""A configuration under construction: the tree, and the numbers it was built from."""

from __future__ import annotations

import math
import random
from typing import Any

from .names import Names

DTYPE = "torch.bfloat16"


class Draft:
    def __init__(self, rng: random.Random, names: Names) -> None:
        self.rng, self.names = rng, names
        self.aim: list[str] = []
        self.kind, self.data_kind, self.packing = "sized", "", "none"
        self.layers, self.heads, self.gpus = 8, 8, 1
        self.groups: int | None = None
        self.experts: int | None = None
        self.tp = self.pp = self.cp = self.dp = self.mbs = self.gbs = self.seq = self.multiple = 1
        self.outer: dict[str, Any] = {}  # the model section
        self.model: dict[str, Any] = self.outer  # where the transformer's fields live
        self.dataset: dict[str, Any] = {}
        self.config: dict[str, Any] = {"_target_": "megatron.bridge.training.config.ConfigContainer", "model": self.outer}
        for name in ("train", "optimizer", "scheduler", "dist", "ddp", "checkpoint"):
            self.section(name)

    def section(self, name: str) -> dict[str, Any]:
        """The section's mapping, made when missing; a throw-away one when a mutation put something else there."""
        found = self.config.setdefault(name, {})
        return found if isinstance(found, dict) else {}

    def start_model(self, target: str, nested: bool) -> None:
        self.outer["_target_"] = target
        if nested:
            self.outer["vocab_size"] = 32000
            self.model = self.outer["transformer"] = {"_target_": "megatron.bridge.models.transformer_config.TransformerConfig"}
        # Whether fused kernels are there depends on the machine, so rows say it.
        self.model.update(
            bf16=True, params_dtype=DTYPE, pipeline_dtype=DTYPE, gradient_accumulation_fusion=True, apply_rope_fusion=False
        )

    def start_dataset(self, target: str) -> dict[str, Any]:
        self.dataset = self.config["dataset"] = {"_target_": target}
        return self.dataset

    def collate_multiple(self, cp: int) -> int:
        """The multiple that collate-time packing uses for one context parallel size."""
        split = 2 * cp if cp > 1 else 1
        shard = cp * self.tp if self.model.get("sequence_parallel") and self.tp > 1 else 1
        return math.lcm(split, shard)

    def set_mbs(self, value: int) -> None:
        """Another micro batch size, with the global one and the Energon copy following."""
        micro_batches = max(1, self.gbs // (self.mbs * self.dp))
        self.mbs, self.gbs = value, value * self.dp * micro_batches
        self.section("train").update(micro_batch_size=value, global_batch_size=self.gbs)
        for key, number in (("micro_batch_size", value), ("global_batch_size", self.gbs)):
            if key in self.dataset:
                self.dataset[key] = number

    def fsdp(self) -> None:
        self.section("ddp").update(use_megatron_fsdp=True, data_parallel_sharding_strategy="optim_grads_params")
        self.section("dist")["use_megatron_fsdp"] = True
        self.section("checkpoint")["ckpt_format"] = "fsdp_dtensor"
        self.model["gradient_accumulation_fusion"] = False

    def specs(self) -> dict[str, Any]:
        """The packing specs, or a throw-away mapping when there are none."""
        found = self.dataset.get(self.names.specs_key)
        return found if isinstance(found, dict) else {}
