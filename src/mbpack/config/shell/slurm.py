"""How many nodes and GPUs a launch command asks for: torchrun, srun, mpirun, ``#SBATCH`` lines and train.sh."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from mbpack.config.shell.text import Text, Value
from mbpack.facts.launchers import NODE_FLAGS, PER_NODE_FLAGS, PERFORMANCE_GPUS, PERFORMANCE_PER_NODE, TOTAL_FLAGS

_DIRECTIVE = re.compile(r"^#SBATCH[ \t]+([^#\r\n]*)", re.MULTILINE)
_ATTACHED = re.compile(r"(-[NnG])(\d+)$")
_GRES = re.compile(r"gpu(?::[A-Za-z]\w*)?:(\d+)$")
_TORCHRUN = frozenset({"torchrun", "torch.distributed.run", "torch.distributed.launch"})
_JOB_VARIABLES = {
    "nodes": ("SLURM_JOB_NUM_NODES", "SLURM_NNODES", "SLURM_JOB_NODES"),
    "gpus_per_node": ("SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE"),
    "tasks_per_node": ("SLURM_NTASKS_PER_NODE",),
    "tasks": ("SLURM_NTASKS", "SLURM_NPROCS"),
}


class Counts(Struct, frozen=True):
    """Nodes, GPUs (processes) a node, and GPUs in all; None where the script does not say.

    ``defaults`` are the variables whose defaults they rest on.
    """

    nodes: int | None = None
    gpus_per_node: int | None = None
    gpus: int | None = None
    defaults: tuple[str, ...] = ()


def directives(source: str) -> list[Text]:
    """The words of all ``#SBATCH`` lines."""
    words = []
    for match in _DIRECTIVE.finditer(source):
        for word in re.finditer(r"\S+", match[1]):
            start = match.start(1) + word.start()
            words.append(Text(word[0], range(start, start + len(word[0]))))
    return words


def job_variables(batch: Sequence[Text]) -> dict[str, Value]:
    """What Slurm sets inside the job, from its ``#SBATCH`` lines."""
    options = _options(batch)
    variables: dict[str, Value] = {}
    for name, spellings in _JOB_VARIABLES.items():
        value = options.get(name)
        if value is not None and value.known:
            variables.update(dict.fromkeys(spellings, value))
    return variables


def gpu_count(words: Sequence[Text], batch: Sequence[Text], submitted: bool) -> Counts:
    """Nodes and GPUs of a command whose launcher words are given, inside a job with these ``#SBATCH`` words."""
    own, job = _options(words), _options(batch)
    counts = _counts(words, own, job, submitted)
    return replace(counts, defaults=tuple(dict.fromkeys(name for word in own.values() for name in word.defaults)))


def benchmark_gpus(words: Sequence[Text]) -> Counts:
    """Nodes and GPUs that the options of a performance script ask for."""
    found: dict[str, Text] = {}
    for word, following in zip(words, [*words[1:], None], strict=True):
        name, equals, _ = word.chars.partition("=")
        value = word.part(len(name) + 1) if equals else following
        for kind, names in (("gpus", PERFORMANCE_GPUS), ("gpus_per_node", PERFORMANCE_PER_NODE)):
            if name in names and value is not None:
                found[kind] = value
    total, per_node = _int(found.get("gpus")), _int(found.get("gpus_per_node"))
    nodes = total // per_node if total is not None and per_node is not None and total % per_node == 0 else None
    return Counts(nodes, per_node, total, tuple(dict.fromkeys(name for word in found.values() for name in word.defaults)))


def _counts(words: Sequence[Text], own: Mapping[str, Text], job: Mapping[str, Text], submitted: bool) -> Counts:
    names = {word.plain.rpartition("/")[2] for word in words}
    if submitted:
        nodes, per_node = (_int(own.get("nodes")) if "nodes" in own else 1), _int(own.get("gpus_per_node"))
        return Counts(nodes, per_node, _product(nodes, per_node))
    if "nodes" in own:
        nodes = _int(own["nodes"])
    elif "nodes" in job:
        nodes = _int(job["nodes"])
    else:
        nodes = None
    if names & _TORCHRUN:
        per_node = _int(own.get("gpus_per_node"))
        if per_node is None and "gpus_per_node" not in own:
            per_node = 1  # torchrun's own default
        nodes = 1 if nodes is None and "nodes" not in own else nodes
        return Counts(nodes, per_node, _product(nodes, per_node))
    if not names & {"srun", "mpirun", "mpiexec"}:
        return Counts(nodes, _int(job.get("gpus_per_node")), None)
    tasks_key = next((source["tasks"] for source in (own, job) if "tasks" in source), None)
    kinds = ("tasks_per_node", "gpus_per_node")
    per_node = next((_int(source[kind]) for source in (own, job) for kind in kinds if kind in source), None)
    total = _int(tasks_key) if tasks_key is not None else _product(nodes, per_node)
    if nodes is None and total is not None and per_node and total % per_node == 0:
        nodes = total // per_node
    return Counts(nodes, per_node, total)


#: Options and variables by which a process of torchrun learns of the other nodes.
_TELLING = re.compile(r"--(?:node[_-]rank|rdzv[_-]endpoint)(?:=|$)")
_TELLING_VARIABLES = ("PET_NODE_RANK", "PET_RDZV_ENDPOINT")


def torchrun_facts(words: Sequence[Text], batch: Sequence[Text], exported: Collection[str]) -> dict[str, str]:
    """What is known of a torchrun in front of a program, by names that are no options; nothing without a torchrun.

    ``tasks``: how often srun starts it on a node; ``nodes``, ``processes``: what it asks for; ``gpus``: GPUs of a node that
    the job asks for; ``untold``: nothing tells its processes of the other nodes.
    """
    names = {word.plain.rpartition("/")[2] for word in words}
    if not names & _TORCHRUN:
        return {}
    first = next(i for i, word in enumerate(words) if word.plain.rpartition("/")[2] in _TORCHRUN)
    outside, own, job = _options(words[:first]), _options(words[first:]), _options(batch)
    facts = {"torchrun": ""}
    if "srun" in names and "tasks" not in outside:
        tasks = _int(outside.get("tasks_per_node", job.get("tasks_per_node")))
        facts |= {"tasks": str(tasks)} if tasks is not None else {}
    for name, key, held in (("nodes", "nodes", own), ("processes", "gpus_per_node", own), ("gpus", "gpus_per_node", job)):
        count = _int(held.get(key))
        facts |= {name: str(count)} if count is not None else {}
    told = any(_TELLING.match(word.plain) or not word.known for word in words[first:])
    if not told and not any(name in exported for name in _TELLING_VARIABLES):
        facts["untold"] = ""
    return facts


def _options(words: Sequence[Text]) -> dict[str, Text]:
    """Counting options by what they count; the last of a kind wins."""
    options: dict[str, Text] = {}
    torchrun = any(word.plain.rpartition("/")[2] in _TORCHRUN for word in words)
    for i, word in enumerate(words):
        name, equals, _ = word.chars.partition("=")
        attached = _ATTACHED.match(word.bare)
        if attached:
            name, value = attached[1], word.part(2)
        elif equals:
            value = word.part(len(name) + 1)
        elif i + 1 < len(words):
            value = words[i + 1]
        else:
            continue
        if name in NODE_FLAGS:
            options["nodes"] = value
        elif name == "--gres" and _GRES.match(value.bare):
            options["gpus_per_node"] = value.part(value.chars.rindex(":") + 1)
        elif name == "--ntasks-per-node":
            options["tasks_per_node"] = value
        elif name in PER_NODE_FLAGS and not (torchrun and name.startswith("--gpus")):
            options["gpus_per_node"] = value
        elif name in TOTAL_FLAGS or name == "-np":
            options["tasks" if name in ("--ntasks", "-n", "-np") else "gpus"] = value
    return options


def _int(word: Text | None) -> int | None:
    if word is None or not word.known:
        return None
    text = word.plain
    return int(text) if text.isdecimal() and 0 < len(text) < 7 and int(text) > 0 else None


def _product(nodes: int | None, per_node: int | None) -> int | None:
    return None if nodes is None or per_node is None else nodes * per_node
