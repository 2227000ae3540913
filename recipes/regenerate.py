#!/usr/bin/env python3
"""Write every ready override, its answers file and the tables in both README.md anew.

    python recipes/regenerate.py

The answers below are all there is to a recipe: `mbpack init --answers NAME.answers --yes` gives NAME.yaml.
"""

from __future__ import annotations

from pathlib import Path

from mbpack.wizard import answers as answer_file
from mbpack.wizard.answers import coerce
from mbpack.wizard.draft import Draft
from mbpack.wizard.plan import Plan, make_plan
from mbpack.wizard.session import with_defaults

HERE = Path(__file__).resolve().parent
#: The table in the README of the project stands between these lines.
README = HERE.parent / "README.md"
BEGIN, END = "<!-- recipes: python recipes/regenerate.py -->\n", "<!-- end of the recipes -->\n"

#: Name: what it is for, and the answers that differ from the defaults.
JOBS: dict[str, tuple[str, str]] = {
    "text-sft-8k": (
        "full fine-tuning on prompt-completion JSONL, packed offline to 8K",
        "bridge=0.6 recipe=llama3_8b_sft_2gpu_h100_bf16_config data=jsonl gpus=8 seq_length=8192",
    ),
    "text-sft-8k-cp2": (
        "the same with context parallel 2: every sample a multiple of 4",
        "bridge=0.6 recipe=llama3_8b_sft_2gpu_h100_bf16_config data=jsonl gpus=8 tp=1 cp=2 seq_length=8192",
    ),
    "text-sft-8k-tp4-sp-cp2": (
        "tensor parallel 4 with sequence parallel and context parallel 2: a multiple of 8",
        "bridge=0.6 recipe=qwen3_8b_sft_4gpu_h100_bf16_config data=jsonl gpus=16 tp=4 cp=2 sp=yes seq_length=8192",
    ),
    "text-lora-chat-8k": (
        "LoRA on chat JSONL, launched by run_recipe.py",
        "bridge=0.6 recipe=qwen3_8b_peft_1gpu_h100_bf16_config data=chat gpus=8 seq_length=8192 launcher=run_recipe",
    ),
    "text-sft-32k-packed": (
        "32K rows, samples of varying length packed offline, context parallel 4",
        "bridge=0.6 recipe=qwen3_8b_sft_4gpu_h100_bf16_config data=chat gpus=32 tp=2 cp=4 seq_length=32768",
    ),
    "text-sft-128k-long": (
        "128K samples, one a row: long context without packing, context parallel 8",
        "bridge=0.6 recipe=llama31_8b_sft_2gpu_h100_bf16_config data=jsonl gpus=64 tp=4 cp=8 seq_length=131072 long_samples=yes",
    ),
    "moe-hybridep-8k": (
        "mixture of experts dispatched by HybridEP: rows of one width",
        "bridge=0.6 recipe=moonlight_16b_sft_8gpu_h100_bf16_tp1_config data=jsonl gpus=8 seq_length=8192",
    ),
    "text-sft-graphs": (
        "full-iteration CUDA graphs: fixed width, boundary arrays of fixed length",
        "bridge=0.6 recipe=llama3_8b_sft_2gpu_h100_bf16_config data=jsonl gpus=8 seq_length=8192 cuda_graphs=full_iteration",
    ),
    "vlm-in-batch": (
        "Qwen2.5-VL on its Hugging Face dataset, packed in the batch as it is collated",
        "bridge=0.6 recipe=qwen25_vl_7b_sft_2gpu_h100_bf16_config gpus=8",
    ),
    "energon-native": (
        "Qwen3-VL LoRA on an Energon WebDataset, packed by the loader (0.7)",
        "bridge=0.7 recipe=qwen3_vl_8b_peft_1gpu_h100_bf16_energon_config gpus=8 cp=2 seq_length=8192",
    ),
    "gpt-sft-in-batch": (
        "text packed in the batch, nothing prepared before (0.7)",
        "bridge=0.7 recipe=qwen3_8b_sft_4gpu_h100_bf16_config data=jsonl gpus=8 seq_length=4096 packing=in_batch",
    ),
    "text-global-batch": (
        "whole steps packed and balanced over data parallel ranks (0.7)",
        "bridge=0.7 recipe=qwen3_8b_sft_4gpu_h100_bf16_config data=jsonl gpus=16 tp=4 cp=1 seq_length=8192"
        " packing=global_batch gbs=32",
    ),
    "same-job-0.5": (
        "one job in the key names of 0.5 ...",
        "bridge=0.5 recipe=qwen3_8b_sft_config data=jsonl gpus=16 tp=4 cp=2 seq_length=8192",
    ),
    "same-job-0.6": (
        "... and in those of 0.6",
        "bridge=0.6 recipe=qwen3_8b_sft_config data=jsonl gpus=16 tp=4 cp=2 seq_length=8192",
    ),
}


def given(name: str) -> dict[str, object]:
    """The answers a recipe gives, coerced."""
    pairs = (word.split("=", 1) for word in JOBS[name][1].split())
    return {key: coerce(key, value) for key, value in pairs}


def plan(name: str) -> Plan:
    """The plan of a recipe."""
    return make_plan(Draft(with_defaults(given(name))))


def texts() -> dict[str, str]:
    """Every file of this folder that is generated, by name."""
    found: dict[str, str] = {}
    rows = []
    for name, (purpose, _) in JOBS.items():
        made = plan(name)
        found[f"{name}.yaml"] = made.text
        found[f"{name}.answers"] = answer_file.write(with_defaults(given(name)))
        rows.append((name, purpose, made))
    found["README.md"] = _readme(rows)
    return found


def _readme(rows: list[tuple[str, str, Plan]]) -> str:
    lines = [
        "# Ready overrides",
        "",
        "Each file was written by `mbpack init` from the answers beside it; `mbpack doctor --strict` has nothing to say about any of",
        "them. Take one as it is, or replay its answers with changes:",
        "",
        "    mbpack init --answers recipes/text-sft-8k.answers --seq-length 4096 --gbs 8 --yes --output packing.yaml",
        "",
        *table(rows),
        "",
        "`python recipes/regenerate.py` writes all of them anew.",
    ]
    return "\n".join(lines) + "\n"


def overview() -> str:
    """The table for the README of the project."""
    rows = [(name, purpose, plan(name)) for name, (purpose, _) in JOBS.items()]
    return "\n".join(["", *table(rows, "recipes/"), "", ""])


def table(rows: list[tuple[str, str, Plan]], folder: str = "") -> list[str]:
    """The recipes as a Markdown table."""
    lines = ["| file | for | release | mode | topology | rows |", "|---|---|---|---|---|---|"]
    for name, purpose, made in rows:
        draft = made.draft
        sizes = [("TP", draft.tp), ("PP", draft.pp), ("CP", draft.cp), ("EP", draft.ep if draft.moe else 1)]
        words = " ".join(f"{word}{size}" for word, size in sizes if size > 1) + (" SP" if draft.sp else "")
        topology = f"{draft.get('gpus')} GPUs{', ' + words.strip() if words.strip() else ''}, DP{draft.dp.value}"
        shape = f"{draft.get('seq_length')} x {draft.get('gbs')}"
        lines.append(
            f"| [{name}.yaml]({folder}{name}.yaml) | {purpose} | {draft.release} | {made.job.mode.title} | {topology} | {shape} |"
        )
    return lines


def main() -> None:
    for name, text in texts().items():
        (HERE / name).write_text(text, encoding="utf-8")
    before, _, rest = README.read_text(encoding="utf-8").partition(BEGIN)
    README.write_text(before + BEGIN + overview() + END + rest.partition(END)[2], encoding="utf-8")
    print(f"{len(JOBS)} recipes written to {HERE}")


if __name__ == "__main__":
    main()
