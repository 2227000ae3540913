"""The memory estimate beside the estimator of Megatron-Bridge itself, on the recorded peaks, and against real layers.

    python -m tests.conformance.memory --real DIR       the table of README.md, with Megatron-Bridge of DIR/0.6

Megatron-Bridge's estimator (`training/utils/theoretical_memory_utils.py`) runs in its own environment; it gets the same
sizes and answers for the rank that needs most.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from mbpack.memory.estimate import GIB
from mbpack.memory.layers import layer_kinds
from mbpack.memory.setup import Setup
from mbpack.memory.verdict import judge
from tests.memory.recordings import described, gpu_of, megatron_lm, records

#: Runs in the environment of the package: set-ups on standard input, bytes on standard output.
_THEIRS = """
import json, sys
from types import SimpleNamespace
from torch.nn.functional import gelu, silu
from megatron.bridge.training.utils.theoretical_memory_utils import estimate_training_memory
for line in sys.stdin:
    given = json.loads(line)
    model = SimpleNamespace(**given["model"])
    model.activation_func = silu if model.activation_func == "silu" else gelu
    parts = {name: SimpleNamespace(**given[name]) for name in ("train", "optimizer", "ddp")}
    config = SimpleNamespace(model=model, data_parallel_size=given["data_parallel_size"], **parts)
    try:
        answer = estimate_training_memory(config, num_microbatches=given["microbatches"]).total_memory_bytes
    except Exception as error:
        answer = f"{type(error).__name__}: {error}"
    print("answer", json.dumps(answer), flush=True)
"""


class Row(NamedTuple):
    """A recorded peak with both estimates, in bytes; `theirs` None where their estimator gives none."""

    group: str
    name: str
    peak: float
    ours: float
    theirs: float | None
    inside: bool


def theirs(real: Path, setups: list[Setup]) -> list[float | None]:
    """What Megatron-Bridge's estimator says of set-ups."""
    package = real / "0.6"
    environ = {"PYTHONPATH": f"{real}:{package}", "PATH": "/usr/bin:/bin", "HOME": "/tmp", "CUDA_VISIBLE_DEVICES": ""}
    text = "\n".join(json.dumps(_given(setup)) for setup in setups)
    command = [str(real / "venv" / "bin" / "python"), "-c", _THEIRS]
    done = subprocess.run(command, input=text, capture_output=True, text=True, env=environ, check=True)
    answers = [json.loads(line.removeprefix("answer ")) for line in done.stdout.splitlines() if line.startswith("answer ")]
    return [answer if isinstance(answer, float | int) else None for answer in answers]


def _given(setup: Setup) -> dict[str, Any]:
    shape = setup.shape
    freq = [int(kind[1] == "E") for kind in layer_kinds(shape)]
    return {
        "model": {
            "num_layers": shape.num_layers,
            "hidden_size": shape.hidden_size,
            "num_attention_heads": shape.num_attention_heads,
            "num_query_groups": shape.num_query_groups,
            "kv_channels": shape.kv_channels,
            "ffn_hidden_size": shape.ffn_hidden_size,
            "seq_length": setup.length,
            "vocab_size": setup.vocab,
            "make_vocab_size_divisible_by": 1,
            "should_pad_vocab": False,
            "share_embeddings_and_output_weights": shape.share_embeddings_and_output_weights,
            "gated_linear_unit": shape.gated_linear_unit,
            "activation_func": shape.activation,
            "num_moe_experts": shape.num_moe_experts or None,
            "moe_ffn_hidden_size": shape.moe_ffn_hidden_size or None,
            "moe_shared_expert_intermediate_size": shape.moe_shared_expert_intermediate_size or None,
            "moe_router_topk": shape.moe_router_topk or 2,
            "moe_layer_freq": freq,
            "moe_latent_size": shape.moe_latent_size or None,
            "mtp_num_layers": shape.mtp_num_layers or None,
            "tensor_model_parallel_size": setup.tp,
            "pipeline_model_parallel_size": setup.pp,
            "virtual_pipeline_model_parallel_size": setup.vpp if setup.vpp > 1 else None,
            "context_parallel_size": setup.cp,
            "expert_model_parallel_size": setup.ep,
            "expert_tensor_parallel_size": setup.etp,
            "num_layers_in_first_pipeline_stage": None,
            "num_layers_in_last_pipeline_stage": None,
            "sequence_parallel": setup.sp,
            "recompute_granularity": "selective",
        },
        "train": {"micro_batch_size": setup.mbs},
        "optimizer": {"use_distributed_optimizer": setup.sharded},
        "ddp": {"use_distributed_optimizer": setup.sharded},
        "data_parallel_size": setup.dp,
        "microbatches": setup.microbatches,
    }


def _recorded() -> Iterator[tuple[str, str, float, Setup, Any, tuple[str, ...], int | None]]:
    for record in records("megatron-lm-golden"):
        size = "from 20 GiB" if record["peak"] > 20 * GIB else "to 6 GiB"
        setup = megatron_lm(record)
        yield f"{record['class']}, {size}", record["test"], record["peak"], setup, gpu_of(record), (), setup.pp - 1
    for record in records("bridge-published"):
        found = described(record)
        if found is not None and "iteration 1" not in record["name"]:
            last = found.setup.pp - 1 if "last" in str(record["rank"]) else None
            group = f"published, {record['class']}"
            yield group, record["name"], record["peak"], found.setup, gpu_of(record), found.unsure, last


def rows(real: Path) -> list[Row]:
    """Every recorded peak with both estimates."""
    recorded = list(_recorded())
    answers = theirs(real, [setup for _, _, _, setup, *_ in recorded])
    found = []
    for (group, name, peak, setup, gpu, unsure, index), answer in zip(recorded, answers, strict=True):
        ours = judge(setup, gpu, unsure, index)
        found.append(Row(group, name, peak, ours.allocated, answer, ours.low <= peak <= ours.high))
    return found


def table(found: list[Row]) -> list[str]:
    """One line a group: rows, median and range of both errors, rows inside the printed range."""
    lines = [
        "| group | rows | mbpack: median, range of the error | inside its range | Megatron-Bridge's estimator: median, range |",
        "|---|---|---|---|---|",
    ]
    for group in sorted({row.group for row in found}):
        part = [row for row in found if row.group == group]
        ours = [100 * (row.ours / row.peak - 1) for row in part]
        other = [100 * (row.theirs / row.peak - 1) for row in part if row.theirs is not None]
        theirs_text = f"{median(other):+.0f}%, {min(other):+.0f} to {max(other):+.0f}" if other else "none"
        inside = sum(row.inside for row in part)
        lines.append(
            f"| {group} | {len(part)} | {median(ours):+.1f}%, {min(ours):+.1f} to {max(ours):+.1f} | {inside} | {theirs_text} |"
        )
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--real", type=Path, required=True, help="folder of the real packages")
    print("\n".join(table(rows(parser.parse_args().real))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
