"""What `mbpack --help` and each command's help say beside the options: one line, two examples, exit codes, the environment."""

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


#: Environment variables that change what mbpack prints or where it looks.
ENVIRONMENT = {
    "NO_COLOR": "No colour, whatever the terminal.",
    "FORCE_COLOR": "Colour also where nothing is a terminal, as in the log of a CI job; 0 is as if it were not set.",
    "TERM": "No colour and no pager where it is dumb.",
    "COLUMNS": "Width of texts, between 40 and 120 columns; by default that of the terminal, else 80.",
    "MBPACK_PAGER": "Pager for long texts of explain; empty for none.",
    "PAGER": "The same, where MBPACK_PAGER is not set; less where neither is.",
    "MBPACK_CACHE_DIR": "Folder of what mbpack learn read.",
    "XDG_CACHE_HOME": "Its parent, where MBPACK_CACHE_DIR is not set; ~/.cache where neither is.",
    "XDG_STATE_HOME": "Parent of the folder in which mbpack init keeps answers; ~/.local/state where it is not set.",
    "LOCALAPPDATA": "The same, on Windows.",
    "VIRTUAL_ENV": "Environment in which an installed Megatron-Bridge is looked for, which tells the release.",
    "CONDA_PREFIX": "The same, of conda.",
    "WORLD_SIZE": "Number of GPUs for mbpack.check() in a program, where it is given none.",
    "SLURM_NTASKS": "The same, in a Slurm job.",
    "MBPACK_TRACEBACK": "A defect of mbpack shows where it is, instead of one line.",
}

#: What every command takes.
EVERYWHERE = "--color auto|always|never, -h"

#: Options of a command that stand below a heading of their own, by parameter; the others are plain options.
PANELS: dict[str, dict[str, tuple[str, ...]]] = {
    "doctor": {
        "What is known of the run": tuple("bridge recipe gpus gpu nodes launcher step environment lengths inspect".split()),
        "What is reported": tuple(
            "select ignore strict output_format output quiet verbose statistics baseline write_baseline show_resolved "
            "show_candidates".split()
        ),
        "What is mended": tuple("fix unsafe_fixes diff backup write_context".split()),
    },
    "init": {
        "Model and data": tuple("bridge recipe family size workload modality data data_path checkpoint".split()),
        "Topology": tuple("gpus gpu tp pp vpp cp ep etp sp".split()),
        "Batch and packing": tuple(
            "seq_length long_samples gbs token_slots mean_length mbs packing buffer cuda_graphs launcher".split()
        ),
        "Answers and output": tuple(
            "answers save_answers output output_as output_format modeline yes no_input dry_run force".split()
        ),
    },
    "plan": {
        "Data": tuple("column counts tokenizer chat_template turn_tokens row_tokens add_bos add_eos schema workers jobs".split()),
        "Topology": tuple("gpus dp tp pp cp eval_cp sp multiple recipe gpu bridge".split()),
        "Packing": tuple("pack token_slots gbs seed max_single mode mbs samples_per_step buffer visual_tokens patch".split()),
        "Output": tuple("output_format json_output plot write_to choose force chart".split()),
    },
    "explain": {"Numbers": tuple("tp pp vpp cp eval_cp sp gpus dp mbs gbs seq_length max_seqlen_per_dp_cp_rank".split())},
}


def exit_codes(name: str) -> list[str]:
    """The exit codes of a command with their meanings."""
    held = HELP[name]
    return ["0 nothing wrong", *([f"1 {held.one}"] if held.one else []), "2 unusable input", "70 a defect of mbpack"]


def epilog(name: str) -> str:
    """Examples, exit codes and what every command takes, each on its own line (`\\b` keeps them)."""
    examples = "\b\nExamples:\n" + "\n".join(f"  {example}" for example in HELP[name].examples)
    codes = "Exit codes: " + "; ".join(exit_codes(name)) + "."
    return "\n\n".join((examples, codes, f"Every command: {EVERYWHERE}. Environment variables: mbpack -h."))


def root_epilog() -> str:
    """Below the list of commands: what every command takes, and the environment."""
    width = max(map(len, ENVIRONMENT))
    lines = [line for name, text in ENVIRONMENT.items() for line in _hanging(f"  {name:<{width}}  ", text)]
    everywhere = f"Every command takes {EVERYWHERE}. mbpack --version prints the version; man mbpack has everything on one page."
    return everywhere + "\n\n\b\nEnvironment:\n" + "\n".join(lines)


def _hanging(head: str, text: str) -> list[str]:
    from textwrap import wrap

    return wrap(text, 78, initial_indent=head, subsequent_indent=" " * len(head))
