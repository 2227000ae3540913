"""How a launch command starts its processes: what torchrun does not do by itself."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.run import Run
from mbpack.rules.base import Finding, Fix, Outcome, Rule

STOPS = Outcome("error", "crash", "validate")
#: More GPUs than most nodes have.
_MANY = 8


def known_of(run: Run, name: str) -> int | None:
    """A number that the command gives its torchrun or srun; None where it is not written."""
    text = run.context.flags.get(f"torchrun {name}", "")
    return int(text) if text.isdecimal() else None


class TasksStartTorchrun(Rule):
    """Slurm starts torchrun once a GPU, and each torchrun starts all processes again.

    Eight tasks a node with eight processes each are 64 processes for 8 GPUs; all but the first torchrun stop because the
    address is in use. torchrun needs one task a node; without torchrun, one task a GPU is right.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6
    # launch: srun --ntasks-per-node=8 torchrun --nproc_per_node=8 scripts/training/run_recipe.py --recipe llama3_8b_sft_config
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6
    # launch: srun --ntasks-per-node=1 torchrun --nproc_per_node=8 scripts/training/run_recipe.py --recipe llama3_8b_sft_config
    ```

    ## Upstream
    - 0.3 to 0.7: `utils/common_utils.py`, `get_rank_safe` (ranks from Slurm, where no torchrun sets them)
    """

    code, slug = "RUN103", "run/tasks-start-torchrun"

    def check(self, run: Run) -> Iterator[Finding]:
        tasks = known_of(run, "tasks")
        if tasks is None or tasks < 2:
            return
        processes = known_of(run, "processes") or 1
        yield self.finding(
            run,
            STOPS,
            "",
            f"srun starts torchrun {tasks} times a node, and each starts {processes} processes: {tasks * processes} in all",
            why="All but the first find their address in use.",
            fix=Fix("--ntasks-per-node=1 with torchrun, or srun with plain python and one task a GPU"),
        )


class NodesUntold(Rule):
    """With several nodes, torchrun has to be told where they meet.

    Its defaults are a static rendezvous, node rank 0 and the address 127.0.0.1: each node waits for the others at itself,
    until the start times out.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6
    # launch: torchrun --nnodes=2 --nproc_per_node=8 scripts/training/run_recipe.py --recipe llama3_8b_sft_config
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6
    # launch: torchrun --nnodes=2 --nproc_per_node=8 --rdzv_backend=c10d --rdzv_endpoint=node1:29500 scripts/training/run_recipe.py --recipe llama3_8b_sft_config
    ```

    ## Upstream
    - torch, all releases: `torch/distributed/run.py`, `get_args_parser` (defaults of node_rank, rdzv_endpoint, master_addr)
    """

    code, slug = "RUN104", "run/nodes-untold"

    def check(self, run: Run) -> Iterator[Finding]:
        nodes = known_of(run, "nodes")
        if nodes is None or nodes < 2 or "torchrun untold" not in run.context.flags:
            return
        yield self.finding(
            run,
            STOPS,
            "",
            f"torchrun is to start {nodes} nodes and is told neither its node's rank nor where they meet",
            why="Its defaults are node rank 0 and 127.0.0.1: every node waits for the others at itself.",
            fix=Fix("--rdzv_backend=c10d --rdzv_endpoint=FIRST_NODE:29500, or --node_rank and --master_addr, on every node"),
        )


class ProcessesPerNode(Rule):
    """A node runs one process a GPU, so it cannot run more than it has GPUs.

    More processes than GPUs stop when the second one takes the same device. Twelve GPUs on nodes of eight are two nodes with
    six processes each.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6
    # launch: torchrun --nproc_per_node=12 scripts/training/run_recipe.py --recipe llama3_8b_sft_config
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6
    # launch: torchrun --nproc_per_node=8 scripts/training/run_recipe.py --recipe llama3_8b_sft_config
    ```

    ## Upstream
    - 0.3 to 0.7: `training/initialize.py` (one device a local rank)
    """

    code, slug = "RUN105", "run/processes-per-node"

    def check(self, run: Run) -> Iterator[Finding]:
        processes, gpus = known_of(run, "processes"), known_of(run, "gpus")
        if processes is None or processes <= (gpus or _MANY):
            return
        if gpus is not None:
            outcome, message = STOPS, f"{processes} processes a node, and the job asks for {gpus} GPUs a node"
        else:
            outcome = STOPS.as_warning()
            message = f"{processes} processes on one node: hardly any node has so many GPUs"
        yield self.finding(run, outcome, "", message, fix=Fix("as many processes as the node has GPUs, on more nodes"))


RULES: tuple[Rule, ...] = (TasksStartTorchrun(), NodesUntold(), ProcessesPerNode())
