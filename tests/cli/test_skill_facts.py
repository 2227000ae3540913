"""What the field's own sequence-packing skill is asked in its evaluation, answered from mbpack's output alone.

The facts are those of `skills/nemo-mbridge-perf-sequence-packing/evals/evals.json` of Megatron-Bridge, in our words; an agent that
has nothing but `mbpack skill` gets each of them from a command that the skill names.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from mbpack.skill import text as skill_text
from tests.cli.conftest import Call

INIT = "init --bridge 0.6 --gpus 16 --tp 4 --cp 2 --sp --seq-length 8192 --yes --dry-run"
VLM = "init --bridge 0.6 --recipe qwen25_vl_7b_sft_2gpu_h100_bf16_config --data hf --gpus 8 --yes --output -"


class Fact(NamedTuple):
    """A fact: the commands that an agent gives, and what their output must say (regular expressions over one line of text)."""

    asked: str
    commands: tuple[str, ...]
    said: tuple[str, ...]


FACTS = {
    "offline packing is switched on with its specs, and takes micro batches of one row": Fact(
        "Which keys make offline packed fine-tuning, and which micro batch?",
        (f"{INIT} --recipe qwen3_8b_sft_config --data chat", "explain offline", "explain BAT101"),
        (
            r"enable_offline_packing: true",
            r"_target_: megatron\.bridge\.data\.packing\.config\.PackedSequenceSpecs",
            r"packed_sequence_size: 8192",
            r"pad_seq_to_mult: 8",
            r"micro_batch_size: 1\b",
            r"micro_batch_size 1: a row already is a full pack",
        ),
    ),
    "in-batch packing of vision-language models takes micro batches of two rows and more": Fact(
        "And for images, packed as they are loaded?",
        (VLM, "explain in_batch", "explain BAT105"),
        (r"enable_in_batch_packing: true", r"micro_batch_size: [2-9]", r"micro_batch_size 2 or more"),
    ),
    "8K is the first length to try, and 2K, 4K and 8K are compared at equal token slots": Fact(
        "Which pack length first, and what are equal batches?",
        (f"{INIT} --recipe qwen3_8b_sft_config --data chat", "explain packed_sequence_size --seq-length 8192 --gbs 8"),
        (r"65,536 = 8,192 x 8", r"2048 x 32", r"4096 x 16"),
    ),
    "the global batch divides by the data parallel size and is not below it": Fact(
        "What must the global batch be?",
        ("doctor small.yaml --format concise", "explain gbs --gbs 8 --dp 2", "explain 9"),
        (r"GBS102 error: global_batch_size .{0,40}1 is not a multiple of 2", r"GBS must be a multiple of MBS x DP", r"microbatches 4"),
    ),
    "the padding multiple follows from CP, and from TP with sequence parallel": Fact(
        "How is pad_seq_to_mult derived?",
        (
            "explain pad_seq_to_mult --cp 2 --tp 4 --sp",
            "explain pad_seq_to_mult --cp 4 --tp 1 --sp",
            "explain pad_seq_to_mult --cp 1 --tp 4 --sp",
            "explain pad_seq_to_mult --cp 1 --tp 4",
            "explain 10",
        ),
        (
            r"^8 = lcm\(2\*CP = 4, CP\*TP = 8\)",
            r"\b8 = 2\*CP = 2\*4",
            r"\b4 = CP\*TP",
            r"\b1 = ",
            r"lcm\(2\*CP, CP\*TP with sequence parallel\)",
        ),
    ),
    "packs are built anew where the topology changes": Fact(
        "What of packs that are there already?",
        ("explain DAT115", "explain ALN101", "doctor unaligned.yaml --format concise"),
        (r"Packs that exist are used again", r"packs that are on disk keep the multiple they were built with"),
    ),
    "rows of fixed width are a condition of some features, not the same as alignment": Fact(
        "When is pad_to_max_length needed?",
        ("explain 11", "explain ALN115", "explain pad_to_max_length"),
        (r"CUDA graphs, pipeline parallelism, HybridEP", r"elsewhere it is padding", r"HybridEP dispatch over rows of different width"),
    ),
    "CUDA graphs need boundary arrays of fixed length and their metadata": Fact(
        "What do CUDA graphs need?",
        (
            "init --bridge 0.6 --recipe llama3_8b_sft_config --data jsonl --gpus 8 --cuda-graphs full_iteration --yes --dry-run",
            "explain 5",
            "explain pad_cu_seqlens",
        ),
        (r"pad_cu_seqlens: true", r"Static boundaries need the metadata of the packs", r"The metadata file holds one JSON list", r"pad_to_max_length: true", r"read from the pack metadata"),
    ),
    "fine-tuning with context parallelism needs a loss per token, not averaged in the collective": Fact(
        "What does context parallelism need of the loss?",
        (f"{INIT} --recipe qwen3_8b_sft_config --data chat", "explain 4"),
        (r"calculate_per_token_loss: true", r"average_in_collective: false", r"calculate_per_token_loss true and average_in_collective false"),
    ),
    "context parallel slicing of packed rows expects one row a microbatch": Fact(
        "Why one row, with context parallelism?",
        ("doctor two.yaml --format concise", "explain STP103"),
        (r"BAT101 error", r"STP103 info: .*context parallel split of packed rows refuses micro_batch_size 2"),
    ),
    "some families and multi-token prediction are left out": Fact(
        "Which models are not packed?",
        ("explain qwen3_next", "explain glm45", "explain qwen35_vl", "explain 6", "explain 7", "list rules mtp"),
        (
            r"qwen3_next: Qwen3-Next .*not offered: its recipes keep offline packing off",
            r"glm45: GLM-4\.5 .*not offered: its recipes keep offline packing off",
            r"qwen35_vl: Qwen3\.5-VL .*not offered: the core supports it since 0\.5",
            r"some model families cannot be packed",
            r"MTP101",
        ),
    ),
}  # fmt: skip

BASE = """\
# mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=16 launcher=script
model: {tensor_model_parallel_size: 4, sequence_parallel: true, context_parallel_size: 2, calculate_per_token_loss: true}
ddp: {average_in_collective: false}
train: {micro_batch_size: 1, global_batch_size: 8}
dataset: {offline_packing_specs: {pad_seq_to_mult: 8}}
"""
FILES = {
    "small.yaml": ("global_batch_size: 8", "global_batch_size: 1"),
    "two.yaml": ("micro_batch_size: 1", "micro_batch_size: 2"),
    "unaligned.yaml": ("pad_seq_to_mult: 8", "pad_seq_to_mult: 1"),
}


@pytest.mark.parametrize("fact", FACTS)
def test_every_fact_is_answered(mbpack: Call, folder: Path, fact: str) -> None:
    for name, change in FILES.items():
        (folder / name).write_text(BASE.replace(*change))
    answers = []
    for command in FACTS[fact].commands:
        code, out, err = mbpack(*shlex.split(command))
        assert code in (0, 1), err
        answers.append(" ".join(out.split()))
    missing = [words for words in FACTS[fact].said if not any(re.search(words, answer) for answer in answers)]
    assert not missing, "\n\n".join([*missing, *answers])


def test_the_skill_names_every_command_that_answers() -> None:
    named = {call.split()[0] for call in re.findall(r"`mbpack ([a-z][^`]*)`", skill_text())}
    assert {command.split()[0] for fact in FACTS.values() for command in fact.commands} <= named


def test_peft_packs_as_full_fine_tuning_does(mbpack: Call) -> None:
    written = [
        yaml.safe_load(mbpack(*shlex.split(f"{INIT.replace('--dry-run', '--output -')} --recipe {recipe} --data chat")).out)
        for recipe in ("qwen3_8b_sft_config", "qwen3_8b_peft_config")
    ]
    assert written[0]["dataset"]["offline_packing_specs"] == written[1]["dataset"]["offline_packing_specs"]
    assert [one["train"]["micro_batch_size"] for one in written] == [1, 1]
