"""What torchrun does not do by itself: one start a node, nodes that find each other, a process a GPU."""

from __future__ import annotations

import pytest

from mbpack.config.context import Given
from mbpack.config.document import Document
from mbpack.config.shell import read_launch
from mbpack.engine.doctor import Request, judge

PROGRAM = "scripts/training/run_recipe.py --recipe llama3_8b_sft_config"
JOB = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=8\n#SBATCH --gpus-per-node=8\n"
RUN = "uv run python -m torch.distributed.run"


def found(text: str) -> list[tuple[str, str]]:
    launch = read_launch(text)
    assert launch is not None
    result = judge(Request(flags=Given("0.6"), launch=launch, script=Document("train.sh", text, None)))
    assert not result.failed_rules
    return [(f.rule.code, f.outcome.severity) for f in result.findings if f.rule.code in ("RUN103", "RUN104", "RUN105")]


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        (f"{JOB}srun {RUN} --nnodes=2 --nproc_per_node=8 --rdzv_endpoint=$HEAD:1 {PROGRAM}\n", [("RUN103", "error")]),
        (f"{JOB}srun bash -c '{RUN} --nproc_per_node=8 --nnodes=2 --node_rank=$SLURM_NODEID {PROGRAM}'\n", [("RUN103", "error")]),
        (f"{JOB}srun --ntasks-per-node=1 {RUN} --nnodes=2 --nproc_per_node=8 --node_rank=$R {PROGRAM}\n", []),
        (f"{JOB}srun --ntasks=2 {RUN} --nnodes=2 --nproc_per_node=8 --node_rank=$R {PROGRAM}\n", []),
        (f"{JOB}srun uv run python {PROGRAM}\n", []),
        (f"{RUN} --nnodes=2 --nproc_per_node=8 {PROGRAM}\n", [("RUN104", "error")]),
        (f"torchrun --nnodes 4 --nproc-per-node 8 {PROGRAM}\n", [("RUN104", "error")]),
        (f"torchrun --nnodes 4 --nproc-per-node 8 --node-rank 0 --master-addr a {PROGRAM}\n", []),
        (f"torchrun --nnodes 4 --nproc-per-node 8 --rdzv-endpoint a:1 {PROGRAM}\n", []),
        (f"torchrun --nnodes 4 --nproc-per-node 8 $DISTRIBUTED {PROGRAM}\n", []),
        (f"export PET_NODE_RANK=1\ntorchrun --nnodes 4 --nproc-per-node 8 {PROGRAM}\n", []),
        (f"torchrun --nnodes $N --nproc-per-node 8 {PROGRAM}\n", []),
        (f"torchrun --nnodes 1 --nproc-per-node 8 {PROGRAM}\n", []),
        (f"torchrun --nproc_per_node=12 {PROGRAM}\n", [("RUN105", "warning")]),
        (f"torchrun --nproc_per_node=8 {PROGRAM}\n", []),
        (f"#SBATCH --gpus-per-node=4\ntorchrun --nproc_per_node=8 {PROGRAM}\n", [("RUN105", "error")]),
        (f"torchrun --nproc_per_node=gpu {PROGRAM}\n", []),
    ],
)
def test_what_is_said_of_a_command(text: str, codes: list[tuple[str, str]]) -> None:
    assert found(text) == codes
