"""What the rules about KEY=VALUE arguments say to many arguments, beside several files and recipes of each release.

The answers are mbpack's own, kept in ``tests/data/arguments.txt`` and compared by ``test_arguments.py``: they show that
something changed, not that it was right.

    python -m tests.rules.arguments             say what has changed
    python -m tests.rules.arguments --write     accept today's answers (read the diff before it is committed)
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from mbpack.config.assemble import build_run
from mbpack.config.context import Given, resolve_context
from mbpack.config.document import parse
from mbpack.config.overrides import parse_overrides
from mbpack.config.settings import Unknown
from mbpack.rules.arguments import command_line, launch_flags
from tests.rules.neighbours import NOTHING, line

FILE = Path(__file__).parents[1] / "data" / "arguments.txt"
RULES = (*command_line.RULES, *launch_flags.RULES)
RECIPES = (None, "llama3_8b_sft_config", "qwen3_30b_a3b_sft_config")
TEXTS = (
    "",
    "model: {mine: {own: 1}, seq_length: 64}",
    "comm_overlap: {tp_comm_overlap: true}",
    "dataset: {dataset_kwargs: {chat: true}, preprocessing: {mine: 1}}",
    "env_vars: {A: b}",
    "comm_overlap: null",
    "dataset: {dataset_kwargs: null, packed_sequence_specs: {packed_sequence_size: 8}}",
    "dataset: {offline_packing_specs: {packed_sequence_size: 8}}",
    "dataset: {preprocessing: {mine: {x: 2}, loss_mode: full}}",
)
ARGUMENTS = (
    "model.hidden_size=1",
    "model.seq_length.x=1",
    "model.mine=1",
    "model.mine.own=2",
    "model.mine.other=2",
    "model.mine.own.deeper=2",
    "+model.mine=1 model.mine=2",
    "+model.mine=1 model.yours=2",
    "+model.mine=1 +model.mine=2",
    "+model.mine=1 model.mine.x=2",
    "+model.mine=1 +model.mine.x=2",
    "+model.mine={a:1} model.mine.a=2",
    "++model.mine=1 model.mine=2",
    "~model.seq_length +model.seq_length=4",
    "~model.seq_length",
    "~model.mine",
    "+model.seq_length=4",
    "+model.seq_length=null",
    "model.seq_length=null +model.seq_length=4",
    "model.hidden_size=1 +model.seq_length=4",
    "++model.seq_length=4",
    "mine=1",
    "+mine=1",
    "mine.own=1",
    "+mine.own=1",
    "train=null",
    "train.micro_batch_size=2 train.global_batch_size=4",
    "+train.micro_batch_size=2",
    "train.nosuch.x=1",
    "+train.nosuch.x=1",
    "comm_overlap.tp_comm_overlap=true",
    "+comm_overlap.tp_comm_overlap=true",
    "train.micro_batch_size=2 comm_overlap.tp_comm_overlap=true",
    "comm_overlap={tp_comm_overlap:true}",
    "comm_overlap.nosuch=true",
    "profiling.use_pytorch_profiler=true",
    "peft.dim=8",
    "+peft.dim=8",
    "dataset.hidden_size=1",
    "dataset.num_workers=1",
    "dataset.pack_sequences_in_batch=true",
    "dataset.enable_in_batch_packing=true",
    "dataset.packed_sequence_specs.packed_sequence_size=4",
    "+dataset.packed_sequence_specs.packed_sequence_size=4",
    "dataset.packed_sequence_specs={packed_sequence_size:4}",
    "dataset.offline_packing_specs.packed_sequence_size=4",
    "+dataset.offline_packing_specs.packed_sequence_size=4",
    "dataset.enable_offline_packing=true dataset.offline_packing_specs.packed_sequence_size=4",
    "dataset.offline_packing_specs.pad_seq_to_mult=4 dataset.offline_packing_specs.nosuch=4",
    "dataset.offline_packing_specs=null",
    "dataset.dataset_kwargs.chat=true",
    "+dataset.dataset_kwargs.chat=true",
    "dataset.dataset_kwargs.pad_to_max_length=true",
    "+dataset.dataset_kwargs.pad_to_max_length=true",
    "dataset.dataset_kwargs={chat:true}",
    "dataset.dataset_kwargs={}",
    "dataset.dataset_kwargs=null",
    "++dataset.dataset_kwargs={chat:true}",
    "dataset.preprocessing.mine=1",
    "+dataset.preprocessing.mine=1",
    "dataset.preprocessing.chat=1",
    "dataset.preprocessing.mine.x=1",
    "dataset.preprocessing.loss_mode.x=1",
    "dataset.preprocessing.loss_mode=full",
    "model.mine.nosuch.x=1",
    "env_vars.A=1",
    "+env_vars.A=1",
    "env_vars.B=1",
    "+env_vars.B=1 env_vars.B=2",
    "tokenizer.tokenizer_type=x",
    "~dataset.preprocessing +dataset.preprocessing.loss_mode=full",
    "~dataset.preprocessing +dataset.preprocessing.mine=1",
    "~dataset.preprocessing dataset.preprocessing.loss_mode=full",
    "~dataset.seq_length dataset.seq_length=4",
    "~dataset.seq_length=5",
    "~model +model.seq_length=4",
    "~model +model.mine=4",
    "model={mine:1,seq_length:4}",
    "+model={mine:1,seq_length:4}",
    "comm_overlap=[1]",
    "comm_overlap={tp_comm_overlap:true,mine:[1]} comm_overlap=[1]",
    "model.recompute_modules.0=a",
    "model.recompute_modules=[a,b] model.recompute_modules.1=c model.recompute_modules.2=d",
    "model.recompute_modules=[a,b] ~model.recompute_modules.1",
    "model.recompute_modules=[a] model.recompute_modules={a:1}",
    "~dataset.dataset_kwargs +dataset.dataset_kwargs.chat=true",
    "~dataset.dataset_kwargs.chat",
    "checkpoint.save=null ~checkpoint.save",
    "~checkpoint.save=3",
    "~checkpoint.save='/x'",
    "~train.exit_signal=15",
    "~train.exit_signal=[15]",
    "~model.vocab_size",
    "~model.rotary_base",
    "+model.rotary_base=3",
    "mine.own=1 ~mine.own",
    "+mine={own:{x:1}} mine.own.x=2 ~mine.own.x=2 ~mine.own={}",
    "optimizer.lr=1 optimizer.rate=1 scheduler.nosuch=1",
    "mixed_precision.grad_reduce_in_fp32=true",
    "mixed_precision=bf16_mixed",
    "=1",
    "model.seq_length",
    "model.seq_length=[1",
)


def questions() -> Iterator[tuple[str, str]]:
    """Arguments and circumstances (release/recipe/number of the text): all texts for one recipe, two for the others."""
    for arguments in ARGUMENTS:
        for release in ("0.3", "0.4", "0.5", "0.6", "0.7"):
            for recipe in RECIPES:
                for number in range(len(TEXTS)) if recipe == RECIPES[1] and release in ("0.5", "0.6") else (0, 1):
                    yield arguments, f"{release}/{recipe or ''}/{number}"


def answer(arguments: str, circumstances: str) -> tuple[str, ...]:
    release, recipe, number = circumstances.split("/")
    documents = [parse(TEXTS[int(number)])]
    context = resolve_context(Given(bridge=release, recipe=recipe or None, gpus=8, launcher="script"), Given(), documents)
    run = build_run(context, documents, parse_overrides(arguments.split()))
    lines = []
    for rule in RULES:
        if rule.applies(run.release):
            try:
                lines += [f"{rule.slug}: {line(finding)}" for finding in rule.check(run)]
            except Unknown as unknown:
                lines.append(f"{rule.slug}: unknown {unknown.key}, needs {' '.join(unknown.needs) or unknown.reason}")
    return tuple(lines) or NOTHING


@cache
def read() -> dict[tuple[str, str], tuple[str, ...]]:
    """The file: ``@`` arguments, then ``>`` lines of an answer and the circumstances that get it."""
    found: dict[tuple[str, str], tuple[str, ...]] = {}
    arguments = ""
    said: tuple[str, ...] = ()
    open_answer = False
    for text in FILE.read_text(encoding="utf-8").splitlines():
        if text.startswith("@ "):
            arguments = text[2:]
        elif text.startswith("> "):
            said = (*said, text[2:]) if open_answer else (text[2:],)
        else:
            found |= {(arguments, circumstances): said for circumstances in text.split()}
        open_answer = text.startswith("> ")
    return found


def write(answers: Mapping[tuple[str, str], tuple[str, ...]]) -> None:
    grouped: dict[str, dict[tuple[str, ...], list[str]]] = {}
    for (arguments, circumstances), said in answers.items():
        grouped.setdefault(arguments, {}).setdefault(said, []).append(circumstances)
    lines: list[str] = []
    for arguments, groups in grouped.items():
        lines.append(f"@ {arguments}")
        for said, circumstances in groups.items():
            lines += [*(f"> {part}" for part in said), " ".join(circumstances)]
    FILE.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> int:
    before = read() if FILE.exists() else {}
    after = {question: answer(*question) for question in questions()}
    changed = {question for question in {*before, *after} if before.get(question) != after.get(question)}
    for question in sorted(changed):
        print(*question, before.get(question), after.get(question), sep="\n  ")
    if "--write" in sys.argv[1:]:
        write(after)
        return 0
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
