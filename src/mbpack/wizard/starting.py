"""How the processes of a job are started: torchrun on one node or several, or Slurm with a process a GPU."""

from __future__ import annotations

from mbpack.facts import commands
from mbpack.facts.launchers import flag_in, scheme_flags
from mbpack.wizard.answers import DORA
from mbpack.wizard.key_value import command_words
from mbpack.wizard.plan import Plan

GPUS_PER_NODE = 8
PORT = 29500
HEAD = "HEAD_NODE"


def spread(gpus: int) -> tuple[int, int]:
    """Nodes, and GPUs on each: all the same, as many as a node has and the count allows.

    >>> [spread(gpus) for gpus in (8, 16, 12, 20, 13)]
    [(1, 8), (2, 8), (2, 6), (4, 5), (13, 1)]
    """
    if gpus <= GPUS_PER_NODE:
        return 1, gpus
    per_node = max(count for count in range(1, GPUS_PER_NODE + 1) if gpus % count == 0)
    return gpus // per_node, per_node


def torchrun(gpus: int) -> str:
    """The start of a command for one node, or for every node of several.

    Without a rendezvous, torchrun's own defaults make each node wait for itself: rank 0 at 127.0.0.1.
    """
    nodes, per_node = spread(gpus)
    words = ["uv run python -m torch.distributed.run"]
    if nodes > 1:
        words += [f"--nnodes={nodes}", f"--nproc_per_node={per_node}"]
        words += ["--rdzv_backend=c10d", f'--rdzv_endpoint="${{{HEAD}:?name the first node}}:{PORT}"']
    else:
        words.append(f"--nproc_per_node={per_node}")
    return " ".join(words)


def where(gpus: int) -> str:
    """On which nodes the command has to be given."""
    nodes, _ = spread(gpus)
    return "" if nodes == 1 else f", on each of the {nodes} nodes, with {HEAD} the name of one of them (Slurm: init --as sbatch)"


def recipe_words(plan: Plan) -> list[str]:
    """The launcher of a checkout with the recipe and its options."""
    draft = plan.draft
    words = [commands.RUN_RECIPE_SCRIPT, "--recipe", draft.recipe.name.removeprefix("perf:")]
    if draft.get("workload") == DORA:
        words += [scheme_flags(draft.release)[0], DORA]
    if flag_in(draft.release, "--step_func") and plan.job.step != "gpt_step":
        words += ["--step_func", plan.job.step]
    return words


def sbatch(plan: Plan) -> str:
    """A whole Slurm script: Slurm starts one process a GPU, and Megatron-Bridge takes rank and address from Slurm.

    Source: `utils/common_utils.py`, `get_rank_safe` and its neighbours (0.3 to 0.7), called by `training/initialize.py`.
    """
    draft = plan.draft
    nodes, per_node = spread(draft.get("gpus"))
    launch = " \\\n    ".join([f"srun uv run --no-sync python {' '.join(recipe_words(plan))}", *command_words(plan)])
    return "\n".join(
        [
            "#!/bin/bash",
            f"#SBATCH --job-name={draft.recipe.name.removeprefix('perf:').removesuffix('_config')}",
            f"#SBATCH --nodes={nodes}",
            f"#SBATCH --ntasks-per-node={per_node}",
            f"#SBATCH --gpus-per-node={per_node}",
            "#SBATCH --exclusive",
            f"# mbpack: bridge={draft.version.text}",
            "# Add what your site asks for (account, partition, time, container), and submit it from a checkout of that release.",
            "# Slurm starts one process a GPU: no torchrun, which would start as many again in each of them.",
            "set -euo pipefail",
            "",
            launch,
            "",
        ]
    )
