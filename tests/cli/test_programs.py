"""Python programs as inputs of the doctor."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

Call = Any
TRAIN = """\
# -*- coding: utf-8 -*-
from megatron.bridge.recipes.llama import llama3_8b_sft_config
from megatron.bridge.training.finetune import finetune
from megatron.bridge.training.gpt_step import forward_step

# mbpack: bridge=0.6 gpus=8
SEQ = 4096


def main():
    cfg = llama3_8b_sft_config()
    cfg.model.seq_length = SEQ  # größer ist langsamer
    cfg.dataset.seq_length = 4096
    cfg.train.micro_batch_size = 2
    cfg.train.global_batch_size = 128
    finetune(cfg, forward_step)


if __name__ == "__main__":
    main()
"""


def test_a_program_is_judged_at_its_lines(doctor: Call, folder: Path) -> None:
    (folder / "train.py").write_text(TRAIN)
    answer = doctor("train.py")
    (entry,) = answer.data["files"]
    assert (answer.code, entry["path"], entry["verdict"]) == (1, "train.py", "rejected")
    context = entry["context"]
    assert (context["bridge"], context["recipe"], context["gpus"]) == ("0.6", "llama3_8b_sft_config", 8)
    assert context["launcher"] == "script"
    (found,) = [finding for finding in entry["findings"] if finding["code"] == "BAT101"]
    assert (found["line"], found["column"], found["end_column"], found["fires_first"]) == (14, 34, 35, True)
    assert "cfg.train.micro_batch_size = 1" in found["fix"]["title"]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_literals_are_mended_in_place(mbpack: Call, folder: Path, newline: str, mark: str) -> None:
    source = (mark + TRAIN.replace("\n", newline)).encode()
    (folder / "train.py").write_bytes(source)
    assert mbpack("doctor", "train.py", "--fix").code == 0
    wanted = source.replace(b"micro_batch_size = 2", b"micro_batch_size = 1")
    assert (folder / "train.py").read_bytes() == wanted
    assert mbpack("doctor", "train.py", "--fix").code == 0
    assert (folder / "train.py").read_bytes() == wanted


def test_what_is_no_literal_is_left_to_its_author(mbpack: Call, folder: Path) -> None:
    source = TRAIN.replace("micro_batch_size = 2", "micro_batch_size = SEQ // 2048")
    (folder / "train.py").write_text(source)
    answer = mbpack("doctor", "train.py", "--fix")
    assert answer.code == 1
    assert (folder / "train.py").read_text() == source
    assert "by hand" in answer.out + answer.err


def test_one_value_for_two_keys_is_left_to_its_author(mbpack: Call, folder: Path) -> None:
    source = TRAIN.replace("cfg.train.micro_batch_size = 2", "cfg.train.micro_batch_size = cfg.train.eval_iters = 2")
    (folder / "train.py").write_text(source)
    assert mbpack("doctor", "train.py", "--fix").code == 1
    assert (folder / "train.py").read_text() == source


def test_a_folder_is_searched_for_programs_and_scripts(doctor: Call, folder: Path) -> None:
    (folder / "train.py").write_text(TRAIN)
    (folder / "tools.py").write_text("import megatron.bridge\n\n\ndef f(x):\n    return x\n")
    (folder / "other.py").write_text("print('nothing of ours')\n")
    (folder / "site-packages").mkdir()
    (folder / "site-packages" / "copy.py").write_text(TRAIN)
    (folder / "run.sh").write_text("torchrun run_recipe.py --recipe llama3_8b_sft_config train.micro_batch_size=2\n")
    (folder / "notes.sh").write_text("echo megatron\n")
    answer = doctor(".")
    assert [entry["path"] for entry in answer.data["files"]] == ["run.sh", "train.py"]
    assert answer.err == ""


def test_defaults_are_no_certainty(doctor: Call, folder: Path) -> None:
    source = TRAIN.replace("def main():\n", "def main(mbs=int(__import__('os').environ.get('MBS', 2))):\n")
    source = TRAIN.replace("micro_batch_size = 2", "micro_batch_size = int(os.environ.get('MBS', '2'))").replace(
        "\nSEQ", "\nimport os\nSEQ"
    )
    (folder / "train.py").write_text(source)
    answer = doctor("train.py")
    (found,) = [finding for finding in answer.data["files"][0]["findings"] if finding["code"] == "BAT101"]
    assert (found["severity"], found["consequence"]) == ("warning", "crash")
    assert "with the default $MBS '2'" in found["message"]
    assert (answer.code, answer.data["files"][0]["verdict"]) == (0, "unknown")


def test_a_file_that_is_merged_in_is_a_layer(doctor: Call, folder: Path) -> None:
    (folder / "packing.yaml").write_text("train: {micro_batch_size: 2}\n")
    (folder / "train.py").write_text(
        "from megatron.bridge.recipes.llama import llama3_8b_sft_config as recipe\n"
        "from megatron.bridge.training.finetune import finetune\n"
        "from megatron.bridge.training.utils.omegaconf_utils import process_config_with_overrides\n"
        "from megatron.bridge.training.gpt_step import forward_step\n\n"
        "finetune(process_config_with_overrides(recipe(), 'packing.yaml'), forward_step)\n"
    )
    answer = doctor("train.py", "--gpus", "8")
    (found,) = [finding for finding in answer.data["files"][0]["findings"] if finding["code"] == "BAT101"]
    assert (found["path"], found["line"]) == ("packing.yaml", 1)
    assert found["severity"] == "error"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("print(1)\n", "does not import megatron.bridge"),
        ("import megatron.bridge\ndef f(:\n", "train.py:2:"),
        (
            "from megatron.bridge.training.finetune import finetune\nfinetune(load(), None)\n",
            "cannot be read without running it"[:12],
        ),
    ],
)
def test_what_is_no_configuration_is_said_in_one_line(mbpack: Call, folder: Path, source: str, words: str) -> None:
    (folder / "train.py").write_text(source)
    answer = mbpack("doctor", "train.py")
    assert answer.code == 2
    assert answer.err.count("\n") == 1
    assert words in answer.err or "that can be read without running it" in answer.err


def test_the_same_program_as_json_and_text(mbpack: Call, folder: Path) -> None:
    (folder / "train.py").write_text(TRAIN)
    text = mbpack("doctor", "train.py").out
    assert "14 |     cfg.train.micro_batch_size = 2" in text
    data = json.loads(mbpack("doctor", "train.py", "--format", "sarif").out)
    regions = [
        result["locations"][0]["physicalLocation"]["region"]["startLine"]
        for result in data["runs"][0]["results"]
        if result["ruleId"] == "BAT101"
    ]
    assert regions == [14]


OWN = """\
import argparse
from megatron.bridge.recipes.llama import llama3_8b_sft_config
from megatron.bridge.training.finetune import finetune
from megatron.bridge.training.gpt_step import forward_step

parser = argparse.ArgumentParser()
parser.add_argument("--mbs", type=int, default=1)
args = parser.parse_args()
cfg = llama3_8b_sft_config()
cfg.train.micro_batch_size = args.mbs
finetune(cfg, forward_step)
"""


def test_a_script_that_starts_a_program_gives_it_its_arguments(doctor: Call, folder: Path) -> None:
    (folder / "own.py").write_text(OWN)
    (folder / "run.sh").write_text("#SBATCH --nodes=2 --gpus-per-node=8\nsrun --ntasks-per-node=8 python own.py --mbs 4\n")
    (entry,) = doctor("run.sh").data["files"]
    (found,) = [finding for finding in entry["findings"] if finding["code"] == "BAT101"]
    assert (found["severity"], found["path"], found["line"]) == ("error", "own.py", 10)
    assert entry["context"]["gpus"] == 16
    (folder / "run.sh").write_text("torchrun --nproc_per_node=8 own.py\n")
    assert doctor("run.sh").code == 0


@pytest.mark.parametrize(
    "script",
    [
        "cat > job.py <<'PY'\n{}PY\ntorchrun --nproc_per_node=8 job.py --mbs 4\n",
        "cat <<'PY' | tee job.py\n{}PY\ntorchrun --nproc_per_node=8 ./job.py --mbs 4\n",
        "uv run python -m torch.distributed.run --nproc_per_node=8 - --mbs 4 <<'PY'\n{}PY\n",
        "srun --container-image=a.sqsh \\\n  --ntasks-per-node=8 python3 - --mbs 4 <<PY\n{}PY\n",
        "read -r -d '' CODE <<'PY'\n{}PY\nsrun --ntasks-per-node=8 --container-image=a.sqsh python -u -c \"$CODE\" --mbs 4\n",
        "read -rd '' CODE <<'PY' || true\n{}PY\nsrun --ntasks-per-node=8 python3 -c \"${{CODE}}\" --mbs 4\n",
        "CODE=$(cat <<'PY'\n{}PY\n)\nOTHER=$(cat <<'PY'\nprint(1)\nPY\n)\nsrun -n 8 python -c \"$CODE\" --mbs 4\n",
    ],
)
def test_programs_written_in_a_script(doctor: Call, folder: Path, script: str) -> None:
    (folder / "run.sh").write_text(script.format(OWN))
    (entry,) = doctor("run.sh").data["files"]
    (found,) = [finding for finding in entry["findings"] if finding["code"] == "BAT101"]
    lines = script.format(OWN).split("\n")
    assert lines[found["line"] - 1] == "cfg.train.micro_batch_size = args.mbs"
    assert found["severity"] == "error"


def test_shell_variables_in_a_program_are_put_in_where_they_are_known(doctor: Call, folder: Path) -> None:
    program = OWN.replace("args.mbs", "$MBS")
    (folder / "run.sh").write_text(f"MBS=4\ntorchrun - <<PY\n{program}PY\n")
    codes = [finding["code"] for finding in doctor("run.sh").data["files"][0]["findings"]]
    assert "BAT101" in codes
    (folder / "run.sh").write_text(f"torchrun - <<PY\n{program}PY\n")
    assert doctor("run.sh").code == 2


def test_a_program_that_is_not_there_is_named(mbpack: Call, folder: Path) -> None:
    (folder / "run.sh").write_text("torchrun --nproc_per_node=8 finetune_mine.py --mbs 2\n")
    answer = mbpack("doctor", "run.sh")
    assert answer.code == 2
    assert "finetune_mine.py" in answer.err


NEMO_RUN = """\
import nemo_run as run


def slurm(nodes: int, gpus: int = 8) -> run.SlurmExecutor:
    executor = run.SlurmExecutor(account="a", partition="p", nodes=nodes, ntasks_per_node=gpus, container_image="x.sqsh")
    executor.time = "04:00:00"
    return executor


ARGS = ["--recipe", "llama3_8b_sft_config"]
job = run.Script(path="scripts/training/run_recipe.py", entrypoint="python", args=[*ARGS, "train.micro_batch_size=3"])
with run.Experiment("one") as exp:
    exp.add(job, executor=slurm(nodes=2), name="sft")
    exp.run(detach=True)
"""


def test_jobs_of_nemo_run(doctor: Call, folder: Path) -> None:
    (folder / "launch.py").write_text(NEMO_RUN)
    (entry,) = doctor("launch.py").data["files"]
    context = entry["context"]
    assert (context["recipe"], context["gpus"], context["launcher"]) == ("llama3_8b_sft_config", 16, "run_recipe")
    assert {finding["line"] for finding in entry["findings"] if finding["key"] == "train.micro_batch_size"} == {13}
    (folder / "launch.py").write_text(
        NEMO_RUN.replace(
            'path="scripts/training/run_recipe.py"',
            'inline="torchrun run_recipe.py --recipe llama3_8b_sft_config train.micro_batch_size=3"',
        )
    )
    assert doctor("launch.py").data["files"][0]["context"]["gpus"] == 16


def test_jobs_of_nemo_run_that_start_a_program(doctor: Call, folder: Path) -> None:
    (folder / "own.py").write_text(OWN)
    source = NEMO_RUN.replace("scripts/training/run_recipe.py", "own.py").replace(
        '[*ARGS, "train.micro_batch_size=3"]', '["--mbs", "4"]'
    )
    (folder / "launch.py").write_text(source)
    (entry,) = doctor("launch.py").data["files"]
    assert entry["context"]["gpus"] == 16
    assert "BAT101" in [finding["code"] for finding in entry["findings"]]


def test_other_programs_and_scripts_are_passed_over_on_demand(mbpack: Call, folder: Path) -> None:
    (folder / "old.py").write_text("print 'python 2'\n")
    (folder / "other.py").write_text("import torch\n")
    (folder / "build.sh").write_text("make all\n")
    (folder / "train.py").write_text(TRAIN)
    answer = mbpack("doctor", "--skip-foreign", "old.py", "other.py", "build.sh")
    assert (answer.code, answer.out.strip(), answer.err) == (0, "", "")
    assert mbpack("doctor", "--skip-foreign", "old.py", "build.sh", "train.py").code == 1
    assert mbpack("doctor", "old.py").code == 2


def test_an_unknown_recipe_under_optional_layers_is_said_and_the_rest_judged(doctor: Call, folder: Path) -> None:
    (folder / "train.py").write_text(
        "import argparse, os\n"
        "from omegaconf import OmegaConf\n"
        "from megatron.bridge.recipes.own.models import pretrain_config\n"
        "from megatron.bridge.training.pretrain import pretrain\n"
        "from megatron.bridge.training.utils.omegaconf_utils import apply_overrides, create_omegaconf_dict_config\n"
        "parser = argparse.ArgumentParser()\n"
        "parser.add_argument('--config-file', default='conf/none.yaml')\n"
        "args, words = parser.parse_known_args()\n"
        "cfg = pretrain_config()\n"
        "merged, excluded = create_omegaconf_dict_config(cfg)\n"
        "if args.config_file and os.path.exists(args.config_file):\n"
        "    merged = OmegaConf.merge(merged, OmegaConf.load(args.config_file))\n"
        "apply_overrides(cfg, OmegaConf.to_container(merged, resolve=True), excluded)\n"
        "pretrain(config=cfg, forward_step_func=None)\n"
    )
    answer = doctor("train.py", "--bridge", "0.6")
    assert answer.code == 0
    assert [finding["code"] for finding in answer.data["files"][0]["findings"]] == ["SUP103"]


@pytest.mark.parametrize("base", ["llama3_8b_sft_config", ""])
def test_an_optimizer_that_the_program_makes_has_the_dtypes_of_its_class(doctor: Call, folder: Path, base: str) -> None:
    made = "OptimizerConfig(optimizer='adam', lr=1e-4)"
    lines = ["from megatron.bridge.training.config import ConfigContainer, OptimizerConfig"]
    if base:
        lines += [f"from megatron.bridge.recipes.llama import {base}", f"cfg = {base}()", f"cfg.optimizer = {made}"]
    else:
        lines += [f"cfg = ConfigContainer(optimizer={made})"]
    lines += ["from megatron.bridge.training.finetune import finetune", "finetune(cfg, None)", ""]
    (folder / "train.py").write_text("\n".join(lines))
    answer = doctor("train.py", "--bridge", "0.6")
    assert not [finding for finding in answer.data["files"][0]["findings"] if finding["code"] == "OPT101"]


@pytest.mark.parametrize(
    "start",
    [
        'HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"\ntorchrun --nproc_per_node=8 "$HERE/train.py"\n',
        "torchrun --nproc_per_node=8 jobs/llama/train.py\n",
        "cd /workspace\ntorchrun --nproc_per_node=8 ${ROOT}/jobs/llama/train.py\n",
    ],
)
def test_a_script_is_started_from_another_folder_than_its_own(
    doctor: Call, folder: Path, monkeypatch: pytest.MonkeyPatch, start: str
) -> None:
    place = folder / "jobs" / "llama"
    place.mkdir(parents=True)
    (place / "train.py").write_text(TRAIN)
    (place / "run.sh").write_text(start)
    monkeypatch.chdir(place)
    (entry,) = doctor("run.sh").data["files"]
    assert entry["context"]["recipe"] == "llama3_8b_sft_config"
    assert "BAT101" in [finding["code"] for finding in entry["findings"]]


def test_a_yaml_file_named_from_the_root_of_the_repository(doctor: Call, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = folder / "jobs" / "conf"
    place.mkdir(parents=True)
    (place / "a.yaml").write_text("train: {micro_batch_size: 4}\n")
    (folder / "jobs" / "run.sh").write_text(
        "torchrun --nproc_per_node=8 jobs/own.py --config-file jobs/conf/a.yaml --recipe llama3_8b_sft_config\n"
    )
    monkeypatch.chdir(folder / "jobs")
    (entry,) = doctor("run.sh", "--bridge", "0.6").data["files"]
    assert "BAT101" in [finding["code"] for finding in entry["findings"]]


def test_a_folder_that_is_not_known_is_shown_as_dots(doctor: Call, folder: Path) -> None:
    (folder / "run.sh").write_text("torchrun $(pwd)/far/train.py\n")
    answer = doctor("run.sh")
    assert answer.code == 2
    assert ".../far/train.py, not found beside it" in answer.err


def test_an_enum_is_spelled_in_python(mbpack: Call, folder: Path) -> None:
    (folder / "train.py").write_text(TRAIN.replace("cfg.train.micro_batch_size = 2", 'cfg.model.attention_backend = "fused"'))
    answer = mbpack("doctor", "train.py")
    assert "AttnBackend.fused of megatron.core.transformer.enums, or None" in " ".join(answer.out.split())
    assert "_target_" not in answer.out
