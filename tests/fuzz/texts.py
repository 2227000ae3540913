"""Texts by grammar: YAML documents, KEY=VALUE pairs, launch scripts, answers files, topics."""

from __future__ import annotations

from functools import lru_cache
from random import Random

from mbpack.facts.schema import schema
from mbpack.wizard.answers import KINDS, WORD
from tests.config import config_texts

from .mutate import TOKENS

_WORDS = (
    *config_texts.WORDS,
    *config_texts.REFUSED_WORDS,
    *("8", "4096", "-1", "0", "[attn, mlp]", "attn", "full_iteration", "p2p", "a2a+p2p", "bf16_mixed", "{}", "[]", "LoRA"),
    *(
        "${model.seq_length}",
        "${dataset.seq_length}",
        "${.x}",
        "${..y}",
        "${a.${b}}",
        "${oc.decode:1}",
        "${oc.env:X}",
        "/d/x.npy",
    ),
)
_FLAGS = (
    "--recipe llama3_8b_sft_config",
    "--mode lora",
    "-tp 2",
    "--seq_length 8192",
    "--config-file conf/a.yaml",
    "--dataset squad",
)


@lru_cache(maxsize=1)
def keys() -> tuple[str, ...]:
    """Dotted keys of some releases, and of none."""
    found = {"model.seq_length", "dataset.a.b.c", "typo.x", "model", "dataset", "_target_", "a"}
    for release in ("0.3", "0.5", "0.6", "0.7"):
        known = schema(release)
        for section, kinds in SECTIONS.items():
            for kind in kinds:
                found.update(f"{section}.{name}" for name in known.fields(kind) or ())
    return tuple(sorted(found))


SECTIONS = {
    "model": ("GPTModelProvider",),
    "train": ("TrainingConfig",),
    "validation": ("ValidationConfig",),
    "dataset": (
        "FinetuningDatasetConfig",
        "GPTSFTDatasetConfig",
        "DirectHFSFTDatasetConfig",
        "EnergonProvider",
        "MockVLMConversationProvider",
    ),
    "dataset.offline_packing_specs": ("PackedSequenceSpecs", "OfflinePackingSpecs"),
    "dataset.packed_sequence_specs": ("PackedSequenceSpecs",),
    "ddp": ("DistributedDataParallelConfig",),
    "checkpoint": ("CheckpointConfig",),
    "scheduler": ("SchedulerConfig",),
    "tokenizer": ("TokenizerConfig",),
    "comm_overlap": ("CommOverlapConfig",),
    "peft": ("LoRA",),
}


def _piece(rng: Random) -> str:
    return rng.choice(_WORDS) if rng.random() < 0.85 else rng.choice(TOKENS).decode("utf-8", "surrogatepass")


def document(rng: Random) -> str:
    """A document of real keys with odd values, flow and block mixed, now and then with something thrown in."""
    lines: list[str] = []
    if rng.random() < 0.7:
        lines.append(
            f"# mbpack: bridge={rng.choice(('0.3', '0.4', '0.5', '0.6', '0.7', 'nightly'))} gpus={rng.choice((1, 8, 0, 10**9))}"
        )
        if rng.random() < 0.6:
            lines[-1] += f" recipe={rng.choice(('llama3_8b_sft_config', 'qwen3_vl_8b_sft_config', 'qwen3_30b_a3b_sft_config'))}"
    for _ in range(rng.randint(1, 12)):
        *sections, name = rng.choice(keys()).split(".")
        lines += [f"{'  ' * depth}{section}:" for depth, section in enumerate(sections)]
        indent = "  " * len(sections)
        for _ in range(rng.randint(1, 4)):
            lines.append(f"{indent}{name}: {_value(rng, len(sections) + 1)}")
            name = rng.choice(keys()).rpartition(".")[2]
    if rng.random() < 0.5:
        return "\n".join(_grouped(lines))
    return rng.choice(("\n", "\n", "\r\n", "\r", "\u2028")).join(lines) + rng.choice(("\n", ""))


def _grouped(lines: list[str]) -> list[str]:
    """Sections that stand there twice are put together, so that not every text is refused for them."""
    sections: dict[str, list[str]] = {}
    name = ""
    for line in lines:
        if line and not line.startswith((" ", "#")):
            name = line if line.endswith(":") else name
            sections.setdefault(name, [] if line.endswith(":") else [line])
            continue
        group = sections.setdefault(name, [])
        if line.partition(":")[0] not in {other.partition(":")[0] for other in group}:
            group.append(line)
    return [line for head, group in sections.items() for line in ((head, *group) if head else group)]


def _value(rng: Random, depth: int) -> str:
    kind = rng.random()
    if kind < 0.75 or depth > 4:
        return rng.choice(_WORDS)
    if kind < 0.85:
        return f"[{', '.join(rng.choice(_WORDS) for _ in range(rng.randint(0, 4)))}]"
    if kind < 0.93:
        pairs = (f"{rng.choice(keys()).rpartition('.')[2]}: {rng.choice(_WORDS)}" for _ in range(rng.randint(0, 3)))
        return f"{{{', '.join(pairs)}}}"
    return "\n" + "\n".join("  " * depth + f"{_piece(rng)}: {_piece(rng)}" for _ in range(rng.randint(1, 3)))


_SIGNS = (
    "=",
    "==",
    ".",
    ",",
    "[",
    "]",
    "{",
    "}",
    "(",
    ")",
    ":",
    "'",
    '"',
    "\\",
    "${",
    "}",
    "~",
    "+",
    "++",
    "@",
    "*",
    "?",
    " ",
    "\n",
    "",
)
_VALUES = (
    *("choice(1,2)", "glob(*)", "range(1,5)", "int('3')", "1,2,3", "[1,[2,{a:3}]]", "{a:1,b:{c:[]}}", "'it''s'", "'a\\'b'"),
    *(
        '"x y"',
        "\\ x",
        "a\\,b",
        "null",
        "1e3",
        "-inf",
        "nan",
        "0x1F",
        "1_0",
        "${model.seq_length}",
        "${a:${b}}",
        "???",
        "${oc.env:X,'1'}",
    ),
    *("extend_list(1)", "sort(3,2)", "interval(0,1)", "json_str(1)", "tag(a,1)", "shuffle([1,2])", "str(1,2)", "٣", "\ud800"),
)


def pairs(rng: Random) -> list[str]:
    """Arguments as people, shells and mistakes give them."""
    found: list[str] = []
    path = rng.choice(keys())
    for _ in range(rng.choice((1, 1, 2, 3, 6))):
        sign = rng.choice(("", "", "", "+", "++", "~"))
        value = rng.choice(_VALUES) if rng.random() < 0.5 else rng.choice(_WORDS)
        word = sign + path if sign == "~" and rng.random() < 0.5 else f"{sign}{path}={value}"
        path = _near(rng, path) if rng.random() < 0.5 else rng.choice(keys())
        if rng.random() < 0.35:
            for _ in range(rng.randint(1, 4)):
                at = rng.randint(0, len(word))
                word = word[:at] + rng.choice(_SIGNS) + word[at + rng.randint(0, 1) :]
        if rng.random() < 0.03:
            word = word.replace("=", "=" + rng.choice(("[", "{a:", "(", "${", "'", "\\")) * rng.choice((20, 500)))
        if word.startswith(("/", "..")) or not word:
            word = "x" + word  # no walk over the whole disk
        found.append(word)
    return found


def _near(rng: Random, path: str) -> str:
    """The same key again, what holds it, something below it, or a key beside it."""
    owner = path.rpartition(".")[0]
    return rng.choice((path, path, owner or path, f"{path}.x", f"{path}.0", f"{owner}.x" if owner else "x"))


SCRIPTS: tuple[bytes, ...] = tuple(
    text.encode()
    for text in (
        "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --gpus-per-node=8\nexport GBS=${GBS:-32}\nARGS=(\n  model.seq_length=4096 # tokens\n"
        "  train.global_batch_size=$GBS\n)\nARGS+=('dataset.path=/a b')\nsrun torchrun --nnodes=$SLURM_JOB_NUM_NODES "
        '--nproc_per_node=8 run_recipe.py --recipe llama3_8b_sft_config "${ARGS[@]}" "$@" 2>&1 | tee log.txt\n',
        'CMD="uv run torchrun --nproc_per_node=8 scripts/training/run_recipe.py --recipe qwen3_8b_sft_config"\nCMD="$CMD '
        'model.context_parallel_size=2"\nif [ -n "$LR" ]; then CMD="$CMD optimizer.lr=$LR"; else CMD+=" optimizer.lr=1e-5"; fi\n'
        'srun -N2 --container-image=x bash -c "$CMD"\n',
        "run() {\n  local tp=$1\n  python -m torch.distributed.run --nproc_per_node ${G:-4} my_train.py --config-file conf/a.yaml \\\n"
        '    model.tensor_model_parallel_size=$tp \\\n    "${@:2}"\n}\nfor TP in 1 2 4; do\n  run $TP train.micro_batch_size=1\ndone\n',
        "cat > conf/a.yaml <<EOF\nmodel:\n  seq_length: $SEQ\nEOF\ncase $MODE in\n  lora) R=llama3_8b_peft_config ;;\n  *) R=x ;;\nesac\n"
        "mpirun -np 16 python run_recipe.py --recipe $R model.seq_length=$((4 * 1024)) dataset.seq_length=$(nproc) || exit 1\n",
        'set -euo pipefail\nif x; then\n  A=1\nelif y; then\n  A=2\nfi\n: ${CP:=4}\nX="a b"\npython run_recipe.py --recipe r '
        "+model.context_parallel_size=$CP ~dataset.split ++x.y=\"${X// /_}\" 'model.cp_comm_type=[p2p,a2a]' &\nwait\n",
        "./scripts/training/train.sh --nodes 2 --gpus-per-node 8 --recipe llama3_8b_sft_config -- model.seq_length=8192\n",
    )
)
_SHELL = (
    *(
        "A=1",
        "A=${B:-2}",
        'export X="$A $B"',
        "A+=(x=1 'y=2')",
        "if true; then",
        "else",
        "fi",
        "for i in 1 2; do",
        "done",
        "esac",
    ),
    *(
        "while read x; do",
        "case $A in",
        "a|b) X=1 ;;",
        "f() {",
        "}",
        "(",
        ")",
        "{",
        "cat <<'E'",
        "E",
        "cat <<-E | sh",
        'eval "$CMD"',
    ),
    *(
        "srun",
        "torchrun --nproc_per_node=8",
        "python run_recipe.py --recipe r",
        "model.a=$A",
        '"${A[@]}"',
        "${A[0]}",
        "${#A}",
        "${A%x}",
    ),
    *(
        "$((1+2))",
        "$(echo x)",
        "`ls`",
        "&&",
        "||",
        "|",
        ";",
        "&",
        "\\",
        "'",
        '"',
        "$'\\n'",
        '$"x"',
        "#SBATCH -N 2",
        "# x",
        "<<<",
        "2>&1",
    ),
    *(
        "${A:-${B:-${C}}}",
        "[[ -f x ]]",
        '[ -n "$A" ]',
        "unset A",
        "shift",
        "source x.sh",
        "local a=1",
        "!",
        "time",
        "function g",
        "select x",
    ),
)


def script(rng: Random) -> str:
    """A launch script: a usual one, or its pieces in any order."""
    if rng.random() < 0.5:
        return rng.choice(SCRIPTS).decode()
    pieces = []
    for _ in range(rng.randint(1, 30)):
        pieces.append(rng.choice(_SHELL))
        pieces.append(rng.choice((" ", " ", "\n", " \\\n", ";", "")))
    command = f"python run_recipe.py {rng.choice(_FLAGS)} {' '.join(pairs(rng))} {rng.choice(_SHELL)}\n"
    at = rng.randint(0, len(pieces))
    return "".join([*pieces[:at], "\n", command, *pieces[at:]])


_ODD_ANSWERS = (
    *(
        "0",
        "1",
        "2",
        "3",
        "8",
        "64",
        "1000000",
        "999999999999",
        "8k",
        "8m",
        "none",
        "yes",
        "no",
        "",
        "~",
        "[]",
        "{}",
        "1.5",
        "-1",
    ),
    *(
        "a b",
        "'",
        "${oc.env:X}",
        "#c",
        "0x10",
        "1e3",
        "/data/x",
        "llama3_8b_sft_config",
        "qwen3_vl_8b_sft_config",
        "qwen3",
        "0.3",
        "0.6",
    ),
)


def answers(rng: Random) -> str:
    """An answers file: a release and a recipe, then any answers."""
    release = rng.choice(("0.3", "0.5", "0.6", "0.7"))
    lines = [
        f"bridge: {release}",
        f"recipe: {rng.choice(('llama3_8b_sft_config', 'qwen3_8b_peft_config', 'qwen3_vl_8b_sft_config'))}",
    ]
    for name in rng.sample(sorted(KINDS), rng.randint(0, 6)):
        kind = KINDS[name]
        words = kind.words if kind.kind == WORD and rng.random() < 0.8 else _ODD_ANSWERS
        lines.append(f"{name if rng.random() < 0.95 else name.replace('_', '-') + 'x'}: {rng.choice(words)}")
    return "\n".join(lines) + "\n"


TOPICS = (
    *("ALN101", "batch/offline-mbs-one", "offline", "in_batch", "model.context_parallel_size", "dataset.offline_packing_specs"),
    *(
        "pitfall 3",
        "3",
        "qwen3_vl",
        "llama3_8b_sft_config",
        "cp",
        "pad_seq_to_mult",
        "0.6",
        "run_recipe",
        "vlm_step",
        "8",
        "json",
    ),
)
