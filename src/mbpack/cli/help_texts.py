"""What `mbpack --help` and each command's help say beside the options: one line, two examples, the exit codes."""

from __future__ import annotations

from typing import NamedTuple


class Help(NamedTuple):
    """One line that fits 80 columns beside the command's name, examples, and what exit code 1 means."""

    short: str
    examples: tuple[str, ...]
    one: str = ""


HELP = {
    "init": Help(
        "Ask, derive, and write an override file.",
        ("mbpack init", "mbpack init --bridge 0.6 --recipe llama3_8b_sft_config --gpus 8 --cp 2 --yes --output packing.yaml"),
        "left without writing",
    ),
    "doctor": Help(
        "Find every problem of a configuration at once.",
        ("mbpack doctor packing.yaml --gpus 16", "mbpack doctor configs/ --bridge 0.6 --format github --strict"),
        "errors were found (with --strict also warnings)",
    ),
    "explain": Help(
        "Say why: rules, keys, modes, pitfalls.", ("mbpack explain ALN101", "mbpack explain pad_seq_to_mult --cp 2 --tp 4 --sp")
    ),
    "fit": Help(
        "Does it fit the GPU, and what must change?",
        ("mbpack fit packing.yaml --gpus 16 --gpu h100-80gb", "mbpack fit --recipe qwen3_8b_sft_config --gpus 8 --max-length"),
        "it does not fit",
    ),
    "plan": Help(
        "Choose a pack length from real data lengths.",
        ("mbpack plan lengths.json --gpus 16 --tp 4 --cp 2 --sp", "mbpack plan lengths.json --pack 4096,8192 --json -"),
    ),
    "lengths": Help(
        "Count the tokens of training rows.",
        (
            "mbpack lengths training.jsonl --tokenizer tokenizer.json --output lengths.json",
            "mbpack lengths packs/training_4096.idx.parquet",
        ),
    ),
    "inspect": Help(
        "Look inside packed data on disk.",
        ("mbpack inspect data/packed --cp 2 --tp 4 --sp", "mbpack inspect --config packing.yaml"),
    ),
    "migrate": Help(
        "Carry a file over to another release.",
        ("mbpack migrate packing.yaml --to 0.6 --diff", "mbpack migrate configs/old.yaml --to 0.7"),
    ),
    "verify": Help(
        "Name or run upstream's own tests for a file.",
        ("mbpack verify packing.yaml", "mbpack verify packing.yaml --repo Megatron-Bridge --run"),
    ),
    "learn": Help(
        "Read a Megatron-Bridge that mbpack does not know.",
        ("mbpack learn --from Megatron-Bridge", "mbpack learn --forget 0.8.0"),
    ),
    "list": Help(
        "List recipes, families, rules, keys, releases.",
        ("mbpack list recipes qwen3 sft --bridge 0.6", "mbpack list rules --format json"),
    ),
    "schema": Help(
        "Print the JSON Schema of overrides or reports.",
        ("mbpack schema overrides --bridge 0.6 --output mbpack.schema.json", "mbpack schema report"),
    ),
    "completion": Help(
        "Print the completion script of a shell.", ('eval "$(mbpack completion bash)"', "mbpack completion zsh > _mbpack")
    ),
    "skill": Help("Print or install the skill for coding agents.", ("mbpack skill", "mbpack skill --install .claude/skills")),
    "report": Help(
        "Print versions and a redacted file for an issue.",
        ("mbpack report", "mbpack report packing.yaml --gpus 16"),
    ),
    "lsp": Help("Serve an editor (extra `lsp`).", ("pip install 'mbpack[lsp]'", "mbpack lsp")),
}


def epilog(name: str) -> str:
    """Examples and exit codes, each on its own line (`\\b` keeps them)."""
    held = HELP[name]
    codes = ["0 nothing wrong", *([f"1 {held.one}"] if held.one else []), "2 unusable input", "70 a defect of mbpack"]
    return "\n\n".join(
        ("\b\nExamples:\n" + "\n".join(f"  {example}" for example in held.examples), "Exit codes: " + "; ".join(codes) + ".")
    )
