"""Launch scripts: what can be told by reading, and that nothing else is guessed."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mbpack.config.shell import ScriptError, read_launch, read_script
from mbpack.facts.releases import R05, R06


def overrides(script: str) -> list[str]:
    launch = read_launch(script)
    assert launch is not None
    return [override.text for override in launch.overrides]


RUN = "torchrun --nproc_per_node=8 scripts/training/run_recipe.py --recipe llama3_8b_sft_config "


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (
            RUN + "train.global_batch_size=16 model.seq_length=4096",
            ["train.global_batch_size=16", "model.seq_length=4096"],
        ),
        (
            RUN + "\\\n  train.global_batch_size=16 \\\n  model.seq_length=4096\n",
            ["train.global_batch_size=16", "model.seq_length=4096"],
        ),
        (RUN + "\\\r\n  train.global_batch_size=16\r\n", ["train.global_batch_size=16"]),
        (
            RUN + "'dataset.path=/a b' \"dataset.x=$HOME/d\" dataset.y=\\$z",
            ["dataset.path=/a b", "dataset.x=${shell:HOME}/d", "dataset.y=$z"],
        ),
        ("GBS=32\n" + RUN + "train.global_batch_size=$GBS", ["train.global_batch_size=32"]),
        ("export GBS=32; readonly B=${GBS}\n" + RUN + "train.global_batch_size=${B}", ["train.global_batch_size=32"]),
        ("GBS=${GBS:-64}\n" + RUN + 'train.global_batch_size="${GBS}"', ["train.global_batch_size=64"]),
        ("R=${R:-${W:-/w}/m}\n" + RUN + "checkpoint.save=$R", ["checkpoint.save=/w/m"]),
        (": ${CP:=4}\n" + RUN + "model.context_parallel_size=$CP", ["model.context_parallel_size=4"]),
        (
            "A=(model.a=1 'model.b=x y')\nA+=(model.c=3)\n" + RUN + '"${A[@]}" ${A[1]}',
            ["model.a=1", "model.b=x y", "model.c=3", "model.b=x"],
        ),
        ("A=(\n  model.a=1 # first\n  model.b=2\n)\n" + RUN + '"${A[@]}"', ["model.a=1", "model.b=2"]),
        (
            'X="model.a=1 model.b=2"\nX="$X model.c=3"\nX+=" model.d=4"\n' + RUN + "$X",
            ["model.a=1", "model.b=2", "model.c=3", "model.d=4"],
        ),
        ('X="\\\n   model.a=1 \\\n   model.b=2"\n' + RUN + "$X", ["model.a=1", "model.b=2"]),
        ('C="run_recipe.py --recipe r"\nC="$C model.a=1"\nsrun bash -c "$C"', ["model.a=1"]),
        (
            'C="model.a=1\n model.b=2"\nX="python run_recipe.py"\n'
            "X=\"$X $(echo \"$C\" | tr '\\n' ' ' | sed 's/  \\+/ /g')\"\neval $X",
            ["model.a=1", "model.b=2"],
        ),
        (RUN + "+model.a=1 ++model.b=2 ~dataset.split", ["+model.a=1", "++model.b=2", "~dataset.split"]),
        (RUN + "model.a=[1,2] 'model.b={x: 1}' > log.txt 2>&1 < /dev/null", ["model.a=[1,2]", "model.b={x: 1}"]),
        (RUN + "model.a=1 # model.b=2", ["model.a=1"]),
        ("for CP in 2; do\n" + RUN + "model.context_parallel_size=$CP\ndone", ["model.context_parallel_size=2"]),
        ("run() {\n" + RUN + 'model.a=1 "$@"\n}\nrun model.b=2', ["model.a=1"]),
        (
            "if true; then\n  TP=2\n  " + RUN + "model.tensor_model_parallel_size=$TP\nfi",
            ["model.tensor_model_parallel_size=2"],
        ),
        ("if true; then A=1; else A=1; fi\n" + RUN + "model.a=$A", ["model.a=1"]),
        (
            'X="model.a=1"\nif [ -n "$LR" ]; then X="$X optimizer.lr=$LR"; fi\n' + RUN + "$X",
            ["model.a=1", "optimizer.lr=${shell:X}"],
        ),
        (
            "X=(model.a=1)\nif true; then X+=(model.b=2 model.c=3); fi\n" + RUN + '"${X[@]}"',
            ["model.a=1", "model.b=${shell:X}", "model.c=${shell:X}"],
        ),
        (
            'if true; then X="model.a=1 model.b=2"; else X="model.b=2 model.c=3"; fi\n' + RUN + "$X",
            ["model.a=${shell:X}", "model.b=2", "model.c=${shell:X}"],
        ),
        ('if true; then X="model.a=1"; fi\n' + RUN + "$X", ["model.a=${shell:X}"]),
        ("A=2\ncat > job.sh <<EOF\n" + RUN + "model.a=$A\nEOF\nsbatch job.sh", ["model.a=2"]),
        ("C=$(cat <<- EOM\n  " + RUN + "\\\n    model.a=1\nEOM\n)\n" + 'echo "$C" > w.sh', ["model.a=1"]),
        ("cat <<EOF\n" + RUN + "model.a=2\nEOF\n" + RUN + "model.a=1", ["model.a=1"]),
    ],
)
def test_what_reading_can_tell(script: str, expected: list[str]) -> None:
    assert overrides(script) == expected


@pytest.mark.parametrize(
    "script",
    [
        RUN + "model.a=$X",
        RUN + "model.a=$1",
        RUN + "model.a=$((2 * 4))",
        "A=$((2*4))\n" + RUN + "model.a=$A",
        RUN + "model.a=$(nproc)",
        RUN + "model.a=`nproc`",
        "A=1\nif [ -f x ]; then A=2; fi\n" + RUN + "model.a=$A",
        "A=1\n[ -f x ] && A=2\n" + RUN + "model.a=$A",
        "case $D in\n a) A=1 ;;\n *) A=2 ;;\nesac\n" + RUN + "model.a=$A",
        "case $D in\n a) A=1 ;;\nesac\n" + RUN + "model.a=$A",
        "for A in 1 2; do\n" + RUN + "model.a=$A\ndone",
        'IFS=, read -r A B <<< "$C"\n' + RUN + "model.a=$A",
        "A=1\nwhile getopts a: O; do A=$OPTARG; done\n" + RUN + "model.a=$A",
        "f() { A=2; }\nA=1\nf() { A=3; }\nB=$A\n" + RUN + "model.a=${!B}",
        "A=abc\n" + RUN + "model.a=${A%c}",
        "A=abc\n" + RUN + "model.a=${#A}",
        "unset A\n" + RUN + "model.a=$A",
    ],
)
def test_what_only_running_can_tell_is_unknown(script: str) -> None:
    launch = read_launch(script)
    assert launch is not None
    (override,) = launch.overrides
    assert not override.value.known
    assert override.text.startswith("model.a=${shell:")


def test_a_default_is_likely_not_certain() -> None:
    launch = read_launch("A=${A:-1}\nB=2\n" + RUN + "model.a=$A model.b=$B")
    assert launch is not None
    assert [override.value.likely for override in launch.overrides] == [True, False]


def test_arguments_that_may_hold_more_overrides_are_listed() -> None:
    launch = read_launch(RUN + 'model.a=1 $EXTRA "$@" $EXTRA')
    assert launch is not None
    assert [(word.text, word.line) for word in launch.opaque] == [("${shell:EXTRA}", 1), ("${shell:argument}", 1)]


def test_every_override_has_its_place() -> None:
    script = 'TP=4\nMORE="model.b=2 \\\n    model.c=$TP"\n'
    script += "python run_recipe.py --recipe r \\\n    model.a=$TP \\\n    $MORE\n"
    launch = read_launch(script)
    assert launch is not None
    lines = script.splitlines()
    found = {}
    for override in launch.overrides:
        word, value = override.word, override.value
        found[override.text] = (
            lines[word.line - 1][word.column - 1 : word.end_column - 1],
            lines[value.line - 1][value.column - 1 : value.end_column - 1],
        )
    assert found == {
        "model.a=4": ("model.a=$TP", "$TP"),
        "model.b=2": ("model.b=2", "2"),
        "model.c=4": ("model.c=$TP", "$TP"),
    }


@pytest.mark.parametrize(
    ("script", "nodes", "gpus"),
    [
        ("torchrun --nproc_per_node=8 run_recipe.py --recipe r", 1, 8),
        ("torchrun --nproc-per-node 8 --nnodes 4 run_recipe.py --recipe r", 4, 32),
        ("N=2\npython -m torch.distributed.run --nnodes=$N --nproc_per_node=${G:-4} run_recipe.py --recipe r", 2, 8),
        ("torchrun --nproc_per_node=gpu run_recipe.py --recipe r", 1, None),
        ("torchrun --nnodes=1:4 --nproc_per_node=8 run_recipe.py --recipe r", None, None),
        ("torchrun --nproc_per_node=$G run_recipe.py --recipe r", 1, None),
        ("#SBATCH --nodes=2 # two\n#SBATCH --ntasks-per-node=8\nsrun python run_recipe.py --recipe r", 2, 16),
        ("#SBATCH -N 2\n#SBATCH --gpus-per-node=8\nsrun bash -c 'python run_recipe.py --recipe r'", 2, 16),
        ("#SBATCH --nodes=2\n#SBATCH --gres=gpu:h100:4\nsrun python run_recipe.py --recipe r", 2, 8),
        (
            "#SBATCH --nodes=2\n#SBATCH --gpus-per-node=8\n"
            "srun torchrun --nnodes=$SLURM_JOB_NUM_NODES "
            "--nproc_per_node=$SLURM_GPUS_PER_NODE run_recipe.py --recipe r",
            2,
            16,
        ),
        ("srun -N4 -n32 python run_recipe.py --recipe r", 4, 32),
        ("mpirun -np 16 python run_recipe.py --recipe r", None, 16),
        ("./scripts/training/train.sh --nodes 2 --gpus-per-node 8 --recipe r", 2, 16),
        ("python run_recipe.py --recipe r", None, None),
    ],
)
def test_gpus_where_the_script_says_them(script: str, nodes: int | None, gpus: int | None) -> None:
    launch = read_launch(script)
    assert launch is not None
    assert (launch.nodes, launch.gpus) == (nodes, gpus)


def test_a_users_own_script_and_its_config_file() -> None:
    launch = read_launch(
        "M=tiny\nuv run torchrun --nproc_per_node=2 03_finetune.py --config-file conf/$M.yaml train.train_iters=5"
    )
    assert launch is not None
    assert launch.launcher == "script"
    assert [word.text for word in launch.config_files] == ["conf/tiny.yaml"]
    assert [override.text for override in launch.overrides] == ["train.train_iters=5"]


def test_flags_that_are_short_for_keys_come_before_the_overrides() -> None:
    launch = read_launch(
        "python run_recipe.py --model llama3_8b --mode lora -tp 2 --seq_length 8192 --dataset squad model.seq_length=4096"
    )
    assert launch is not None
    assert launch.recipe() == "llama3_8b_peft_config"
    assert [override.text for override in launch.settings(R06)] == [
        "model.tensor_model_parallel_size=2",
        "dataset.seq_length=8192",
        "model.seq_length=4096",
    ]
    assert [override.text for override in launch.settings(R05)] == ["model.seq_length=4096"]
    assert launch.flag("--dataset").text == "squad"  # type: ignore[union-attr]


def test_a_switch_takes_no_value() -> None:
    launch = read_launch("python run_recipe.py --packed_sequence --recipe r model.a=1")
    assert launch is not None
    assert launch.recipe() == "r"
    assert [flag.name for flag in launch.flags if flag.value is None] == ["--packed_sequence"]


def test_the_recipe_behind_a_variable() -> None:
    launch = read_launch("M=qwen3_8b\npython run_recipe.py --recipe ${M}_sft_config --step_func gpt_step")
    assert launch is not None
    assert launch.recipe() == "qwen3_8b_sft_config"
    assert launch.step is not None
    assert launch.step.text == "gpt_step"
    unknown = read_launch("python run_recipe.py --recipe ${M}_sft_config")
    assert unknown is not None
    assert unknown.recipe() is None


def test_performance_scripts_are_another_launcher() -> None:
    launch = read_launch("python scripts/performance/run_recipe.py --recipe r")
    assert launch is not None
    assert launch.launcher is None


def test_each_launch_once_and_what_is_none() -> None:
    script = read_script(
        'C="python run_recipe.py --recipe a model.a=1"\necho "$C"\n'
        'if x; then srun bash -c "$C"; else bash -c "$C"; fi\n'
        "cat <<EOF > job.sh\npython run_recipe.py --recipe b\nEOF\n"
        "python convert_checkpoints.py --hf-model x\npython run_recipe.py --recipe c\n"
    )
    assert [launch.recipe() for launch in script.launches] == ["a", "c"]
    assert read_launch("echo hello\nls *.py\n") is None
    assert read_launch("python scripts/training/prepare_gpt_sft_packed_data.py --recipe r") is None


def test_comments_and_the_exported_environment() -> None:
    script = read_script(
        "#!/bin/bash\n# mbpack: bridge=0.6 gpus=16\nexport NEMO_HOME=/shared/nemo\nSECRET=1\n"
        "HF_HOME=/hf python run_recipe.py --recipe r\n"
    )
    assert (2, "# mbpack: bridge=0.6 gpus=16") in script.comments
    assert script.launches[0].environment == {"NEMO_HOME": "/shared/nemo", "HF_HOME": "/hf"}


def test_a_file_of_data_is_refused_in_one_line() -> None:
    with pytest.raises(ScriptError, match="too long for a launch script"):
        read_script("x" * 600_000, "big.sh")


HARD = [
    "$(" * 20_000,
    "${X:-" * 20_000,
    "(" * 20_000,
    "'\"" * 20_000,
    "${A:-'" * 10_000,
    "if true; then " * 5_000,
    "A=$A$A\n" * 5_000,
    "A=xx\n" + "A=$A$A\n" * 60 + "python run_recipe.py --recipe r $A",
    "\\\n" * 50_000,
    "<<E\n" * 10_000,
    "$(echo " * 10_000,
    "f() {" * 10_000,
    "a" * 100_000 + "=",
    '"' + "\\" * 100_000,
    "A=(" * 10_000,
    " ".join(f"model.k{i}=1" for i in range(20_000)),
]


@pytest.mark.parametrize("source", HARD, ids=range(len(HARD)))
def test_hostile_scripts_are_read_quickly(source: str) -> None:
    started = time.process_time()
    read_script("python run_recipe.py --recipe r " + source)
    read_script(source)
    assert time.process_time() - started < 5


PIECES = st.sampled_from(
    [
        "A=",
        "$A",
        "${A",
        "${A:-",
        "}",
        "(",
        ")",
        "((",
        "))",
        '"',
        "'",
        "`",
        "\\",
        "\n",
        "\r\n",
        " ",
        ";",
        ";;",
        "&&",
        "||",
        "|",
        "<<E",
        "<<<",
        ">",
        "2>&1",
        "E",
        "if",
        "then",
        "else",
        "fi",
        "case x in",
        "*)",
        "esac",
        "for A in",
        "do",
        "done",
        "{",
        "f()",
        "A+=(",
        "${A[@]}",
        "$(",
        "$((",
        "$'",
        "#",
        "model.a=",
        "1",
        "python run_recipe.py",
        "--recipe",
        "bash -c",
        "eval",
        "export",
        "#SBATCH --nodes=",
        "srun",
        "-n",
        "\0",
        "\1",
        "\2",
        "é",
    ]
)


@settings(max_examples=150, deadline=None)
@given(st.one_of(st.text(), st.lists(PIECES).map("".join), st.lists(PIECES).map(" ".join)))
def test_any_text_is_read(source: str) -> None:
    for launch in read_script(source).launches:
        for override in launch.settings(R06):
            assert 1 <= override.word.line <= source.count("\n") + 1
            assert 1 <= override.value.column < override.value.end_column
        launch.recipe()


def test_a_recipe_that_branches_choose_is_one_of_them() -> None:
    launch = read_launch(
        'M="gpt_oss_20b"\ncase $1 in\n packed) R="${R:-${M}_sft_packed_config}" ;;\n *) R="${M}_sft_config" ;;\nesac\n'
        "python run_recipe.py --recipe $R\n"
    )
    assert launch is not None
    assert launch.recipe() is None
    assert launch.recipes == ("gpt_oss_20b_sft_packed_config", "gpt_oss_20b_sft_config")


@pytest.mark.parametrize("script", [RUN + "model.a=1", "R=$1\npython run_recipe.py --recipe $R\n"])
def test_a_recipe_that_is_known_or_not_at_all_leaves_no_choice(script: str) -> None:
    launch = read_launch(script)
    assert launch is not None
    assert launch.recipes == ()


def test_every_word_of_a_default_is_likely() -> None:
    launch = read_launch(RUN + "${MORE:-model.a=1 model.b=2} model.c=3")
    assert launch is not None
    assert [(one.text, one.word.defaults) for one in launch.overrides] == [
        ("model.a=1", ("MORE",)),
        ("model.b=2", ("MORE",)),
        ("model.c=3", ()),
    ]
