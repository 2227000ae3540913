"""`mbpack init`: the wizard that writes a packing configuration."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from mbpack.cli.choices import TEXT_JSON, check_choice, choice
from mbpack.cli.inputs import InputError

_MODES = ("auto", "offline", "in_batch", "energon", "global_batch", "none")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("init")(init)


def init(
    bridge: Annotated[str | None, typer.Option(help="Megatron-Bridge release, such as 0.6.")] = None,
    recipe: Annotated[str | None, typer.Option(help="Recipe to start from, or a model: Qwen/Qwen3-8B.")] = None,
    family: Annotated[str | None, typer.Option(help="Model family instead of a recipe, such as qwen3.")] = None,
    size: Annotated[str | None, typer.Option(help="Size of the model, with --family: 8b, 30b_a3b.")] = None,
    workload: Annotated[str | None, typer.Option(metavar="[sft|lora|dora|pretrain]", help="What is trained.")] = None,
    modality: Annotated[str | None, typer.Option(metavar="[text|vlm]", help="What the model reads.")] = None,
    data: Annotated[str | None, typer.Option(metavar="[jsonl|chat|hf|energon|indexed]", help="Kind of the data.")] = None,
    data_path: Annotated[str | None, typer.Option(help="Folder, file or dataset name.")] = None,
    checkpoint: Annotated[str | None, typer.Option(help="Megatron checkpoint of the base model.")] = None,
    gpus: Annotated[str | None, typer.Option(help="GPUs in all.")] = None,
    gpu: Annotated[str | None, typer.Option(help="Kind of GPU, such as h100-80gb or gb200: what fits decides defaults.")] = None,
    tp: Annotated[str | None, typer.Option(help="Tensor parallel size.")] = None,
    pp: Annotated[str | None, typer.Option(help="Pipeline parallel size.")] = None,
    vpp: Annotated[str | None, typer.Option(help="Virtual pipeline size, or none.")] = None,
    cp: Annotated[str | None, typer.Option(help="Context parallel size.")] = None,
    ep: Annotated[str | None, typer.Option(help="Expert parallel size.")] = None,
    etp: Annotated[str | None, typer.Option(help="Expert tensor parallel size, or none.")] = None,
    sp: Annotated[bool | None, typer.Option("--sp/--no-sp", help="Sequence parallel.")] = None,
    seq_length: Annotated[str | None, typer.Option(help="Sequence and pack length in tokens (8192, 8k).")] = None,
    long_samples: Annotated[
        bool | None, typer.Option("--long-samples/--no-long-samples", help="Most samples fill the sequence.")
    ] = None,
    gbs: Annotated[str | None, typer.Option(help="Global batch size.")] = None,
    token_slots: Annotated[str | None, typer.Option(help="Token slots a step, instead of --gbs.")] = None,
    mean_length: Annotated[
        str | None, typer.Option(help="Mean tokens of a sample, as `mbpack lengths` says: the default batch follows from it.")
    ] = None,
    mbs: Annotated[str | None, typer.Option(help="Micro batch size, where the packing mode leaves it open.")] = None,
    cuda_graphs: Annotated[str | None, typer.Option(metavar="[none|mlp|attn|full_iteration]", help="What is captured.")] = None,
    packing: Annotated[str | None, typer.Option(metavar=choice(_MODES), help="Packing mode.")] = None,
    buffer: Annotated[str | None, typer.Option(help="Samples in the buffer of native Energon packing.")] = None,
    launcher: Annotated[str | None, typer.Option(metavar="[script|run_recipe]", help="What starts the training.")] = None,
    answers: Annotated[str | None, typer.Option(help="Replay the answers in a file.")] = None,
    start: Annotated[
        str | None, typer.Option("--from", help="An override to start from; what the wizard does not know in it stays.")
    ] = None,
    save_answers: Annotated[str | None, typer.Option(help="Record the answers in a file.")] = None,
    output: Annotated[str, typer.Option(help="File to write; - for stdout.")] = "packing.yaml",
    output_as: Annotated[
        str,
        typer.Option("--as", metavar="[yaml|overrides|sbatch]", help="A file, KEY=VALUE arguments, or a Slurm script."),
    ] = "yaml",
    output_format: Annotated[
        str, typer.Option("--format", metavar=choice(TEXT_JSON), help="json: ask nothing, print what was decided and written.")
    ] = "text",
    modeline: Annotated[
        str | None,
        typer.Option(metavar="SCHEMA", help="First line for editors: path or URL of what `mbpack schema overrides` writes."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Take the defaults for what is not given.")] = False,
    no_input: Annotated[bool, typer.Option("--no-input", help="Never ask: name the missing flags and exit 2.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show everything, write nothing.")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Do not offer the answers of an earlier session.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Write, and overwrite, without asking.")] = False,
) -> int:
    """Ask what matters, derive the rest, and write an override that trains."""
    from mbpack.wizard.answers import KINDS
    from mbpack.wizard.run import Options, run

    given = locals()
    try:
        check_choice("--format", output_format, TEXT_JSON)
    except InputError as error:
        print(f"mbpack init: {error}", file=sys.stderr)
        return 2
    return run(
        Options(
            flags={name: given[name] for name in KINDS if given.get(name) is not None},
            answers=answers,
            save_answers=save_answers,
            output=output,
            form=output_as,
            yes=yes,
            no_input=no_input,
            dry_run=dry_run,
            force=force,
            machine=output_format == "json",
            modeline=modeline,
            fresh=fresh,
            start=start,
        )
    )
