"""Runs inside one release's environment: rows come in on stdin, one JSON object a line, verdicts go out on stdout.

    python worker.py --release 0.6 --transformer-engine 2.17.1 judge < rows.jsonl
    python worker.py --release 0.6 --transformer-engine 2.17.1 recipes
    python worker.py --release 0.6 --transformer-engine 2.17.1 dumps

A row with `config` is a complete configuration and takes the way of a saved run_config.yaml: the strict loader
(`ConfigContainer.from_dict`). A row with `recipe` is that recipe with override text (`yaml`) and, after it, the pairs in
`overrides`: the release's own override machinery (`process_config_with_overrides`). Both then pass
`runtime_config_update`, which is what `pretrain()` and `finetune()` call first and which ends in `validate()`.

A verdict: {"id", "accepted", "stage": load|recipe|override|validate, "errors": [{"type", "message", "where",
"function"}], "derived"}. The errors are the chain of causes, outermost first; `where` is file:line of the innermost frame
inside the Megatron packages. This file uses only what the environment has and never imports mbpack.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import json
import logging
import math
import os
import re
import sys
import tempfile
import time
import traceback
import types
import typing
import warnings
from pathlib import Path
from typing import Any

import offline_hub
import standins

BASE_CHECKPOINT = "/checkpoints/base"  # exists on the machine that trains
# Environment variables that validation looks at; a row may set them in its `env_vars` section only.
ENVIRONMENT = (
    "NCCL_ALGO",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "NVTE_CPU_OFFLOAD_V1",
    "SLURM_NTASKS",
    "SLURM_PROCID",
    "WORLD_SIZE",
    "RANK",
)
SET = re.compile(r"^ *\w+: !!set(?: \{[^}]*\})?\n(?: +\? .*\n(?: +: .*\n)?| +\S+: null\n)*", re.MULTILINE)
# Sections whose class is fixed: a row may leave their `_target_` out.
SECTIONS = {
    "train": "TrainingConfig",
    "optimizer": "OptimizerConfig",
    "scheduler": "SchedulerConfig",
    "dist": "DistributedInitConfig",
    "ddp": "DistributedDataParallelConfig",
    "checkpoint": "CheckpointConfig",
    "rng": "RNGConfig",
    "logger": "LoggerConfig",
    "rerun_state_machine": "RerunStateMachineConfig",
    "validation": "ValidationConfig",
    "profiling": "ProfilingConfig",
}


class Session:
    """The imported packages of one release, and the two ways into its validation."""

    def __init__(self, scratch: Path, gpu: str) -> None:
        import torch
        from megatron.bridge.training import config
        from megatron.bridge.training.tokenizers.config import TokenizerConfig
        from megatron.bridge.training.utils import omegaconf_utils

        standins.pretend_gpu(gpu)
        offline_hub.no_processors()
        self.torch, self.config, self.overrides = torch, config, omegaconf_utils
        self.targets = {name: f"{config.__name__}.{cls}" for name, cls in SECTIONS.items() if hasattr(config, cls)}
        self.targets["tokenizer"] = f"{TokenizerConfig.__module__}.{TokenizerConfig.__qualname__}"
        self.checkpoint = scratch / "checkpoint"
        self.checkpoint.mkdir()
        self.override_file = scratch / "override.yaml"
        self.built: dict[str, Any] = {}

    def complete(self, tree: dict[str, Any]) -> dict[str, Any]:
        """The row's mapping as the loader gets it: classes of the sections filled in, dtype names as the loader spells them."""
        for name in ("logger", "tokenizer"):
            tree.setdefault(name, {})
        for name, target in self.targets.items():
            if isinstance(tree.get(name), dict):
                tree[name].setdefault("_target_", target)
        for name in ("model", "optimizer"):
            _dtypes(tree.get(name))
        return tree

    def recipe_function(self, name: str) -> Any:
        import importlib

        recipes = importlib.import_module("megatron.bridge.recipes")
        function = getattr(recipes, name, None)
        if function is None:  # defined in a module that the package does not re-export
            root = Path(recipes.__file__).parent
            for path in sorted(root.rglob("*.py")):
                if re.search(rf"^def {re.escape(name)}\(", path.read_text(), re.MULTILINE):
                    dotted = ".".join(path.relative_to(root).with_suffix("").parts)
                    function = getattr(importlib.import_module(f"megatron.bridge.recipes.{dotted}"), name)
                    break
        if function is None:
            raise LookupError(f"no recipe {name}")
        return function

    def recipe(self, name: str) -> Any:
        """A fresh copy of what the recipe returns."""
        if name not in self.built:
            self.built[name] = self.recipe_function(name)()
        fresh = copy.deepcopy(self.built[name])
        if type(fresh.model) is type(self.built[name].model):
            return fresh
        return self.recipe_function(name)()  # 0.7: a model with a transformer inside is copied as that alone

    def judge(self, row: dict[str, Any]) -> dict[str, Any]:
        verdict: dict[str, Any] = {"id": row["id"], "accepted": False, "stage": "load", "errors": [], "derived": {}}
        before = dict(os.environ)
        os.environ.update(WORLD_SIZE=str(row["gpus"]), RANK="0")
        try:
            if "recipe" in row:
                verdict["stage"] = "recipe"
                cfg = self.recipe(row["recipe"])
                verdict["stage"] = "override"
                text = row.get("yaml")
                if text is not None:
                    self.override_file.write_text(text.replace(BASE_CHECKPOINT, str(self.checkpoint)))
                cfg = self.overrides.process_config_with_overrides(
                    cfg,
                    str(self.override_file) if text is not None else None,
                    [pair.replace(BASE_CHECKPOINT, str(self.checkpoint)) for pair in row.get("overrides", ())],
                )
            elif "file" in row:
                cfg = self.config.ConfigContainer.from_yaml(row["file"])
            else:
                tree = json.loads(json.dumps(row["config"]).replace(BASE_CHECKPOINT, str(self.checkpoint)))
                cfg = self.config.ConfigContainer.from_dict(self.complete(tree))
            verdict["stage"] = "validate"
            self.config.runtime_config_update(cfg)
            verdict["accepted"] = True
            verdict["derived"] = derived(cfg)
        except (Exception, SystemExit) as error:
            verdict["errors"] = [self._describe(e) for e in _causes(error)]
        finally:
            os.environ.clear()
            os.environ.update(before)
            self.torch.use_deterministic_algorithms(False)
        return verdict

    def dump(self, name: str) -> dict[str, Any]:
        """What the recipe looks like when its own `to_yaml` saves it, and the verdict on the saved file: read and started."""
        try:
            cfg = self.recipe(name)
            cfg.to_yaml(str(self.override_file))
        except Exception as error:
            return {"id": name, "unavailable": f"{type(error).__name__}: {str(error)[:200]}"}
        text = self.override_file.read_text().replace(os.getcwd(), "/workspace")  # where results go by default
        gpus = smallest_world(cfg.model)
        saved = {"yaml": text, "gpus": gpus, **self.judge({"id": name, "file": str(self.override_file), "gpus": gpus})}
        readable = SET.sub("", text)
        if readable != text:  # the releases write sets of PEFT objects and refuse to read them
            self.override_file.write_text(readable)
            saved["without_sets"] = self.judge({"id": name, "file": str(self.override_file), "gpus": gpus})
        return saved

    def _describe(self, error: BaseException) -> dict[str, str]:
        frames = traceback.extract_tb(error.__traceback__)
        own = [f for f in frames if "/megatron/" in f.filename.replace(os.sep, "/")]
        where = f"{'megatron/' + own[-1].filename.rsplit('/megatron/', 1)[1]}:{own[-1].lineno}" if own else ""
        return {
            "type": type(error).__name__,
            "message": str(error).replace(str(self.checkpoint), BASE_CHECKPOINT)[:600],
            "where": where,
            "function": frames[-1].name if frames else "",
            "caller": own[-1].name if own else "",
        }


def smallest_world(model: Any) -> int:
    """The smallest number of GPUs that both the dense and the expert layout divide."""
    inner = getattr(model, "transformer", model)

    def size(name: str) -> int:
        return getattr(inner, f"{name}_parallel_size", None) or 1

    tp, pp, ep = size("tensor_model"), size("pipeline_model"), size("expert_model")
    etp = getattr(inner, "expert_tensor_parallel_size", None) or (1 if ep > 1 else tp)
    return math.lcm(tp * pp * size("context"), etp * ep * pp)


def derived(cfg: Any) -> dict[str, int]:
    """What the update wrote, under the names of mbpack's report."""
    values: dict[str, int] = {"data_parallel_size": cfg.data_parallel_size}
    dataset = cfg.dataset
    if not hasattr(dataset, "in_batch_packing_pad_to_multiple_of"):
        return values
    if getattr(dataset, "enable_in_batch_packing", False) or _native_energon(dataset):
        values["collate_alignment"] = dataset.in_batch_packing_pad_to_multiple_of
    elif hasattr(dataset, "pad_to_multiple_of"):
        values["pad_to_multiple_of"] = dataset.pad_to_multiple_of
    return values


def _native_energon(dataset: Any) -> bool:
    return getattr(dataset, "packing_buffer_size", None) is not None and hasattr(type(dataset), "enable_native_packing")


def summary(cfg: Any) -> dict[str, Any]:
    """What a generator of overrides wants to know of a recipe."""
    model, dataset = cfg.model, cfg.dataset
    nested = getattr(model, "transformer", None)

    def of_model(name: str) -> Any:
        return getattr(model, name, getattr(nested, name, None))

    specs = getattr(dataset, "offline_packing_specs", None) or getattr(dataset, "packed_sequence_specs", None)
    return {
        "model_class": type(model).__name__,
        "dataset_class": type(dataset).__name__,
        "tp": of_model("tensor_model_parallel_size"),
        "pp": of_model("pipeline_model_parallel_size"),
        "cp": of_model("context_parallel_size"),
        "ep": of_model("expert_model_parallel_size"),
        "vpp": of_model("virtual_pipeline_model_parallel_size"),
        "heads": of_model("num_attention_heads"),
        "groups": of_model("num_query_groups"),
        "layers": of_model("num_layers"),
        "experts": of_model("num_moe_experts"),
        "seq_length": of_model("seq_length"),
        "dataset_seq_length": getattr(dataset, "seq_length", None),
        "mbs": cfg.train.micro_batch_size,
        "gbs": cfg.train.global_batch_size,
        "pack_size": getattr(specs, "packed_sequence_size", None),
        "per_token_loss": of_model("calculate_per_token_loss"),
        "peft": type(cfg.peft).__name__ if getattr(cfg, "peft", None) is not None else None,
        "graph_scope": repr(of_model("cuda_graph_scope")),
    }


def _dtypes(section: Any) -> None:
    if not isinstance(section, dict):
        return
    for key, value in section.items():
        if isinstance(value, str) and value.startswith("torch.") and key != "_target_":
            section[key] = {"_target_": value, "_call_": False}
        else:
            _dtypes(value)


def _causes(error: BaseException | None) -> list[BaseException]:
    chain: list[BaseException] = []
    while error is not None and error not in chain:
        chain.append(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return chain


@contextlib.contextmanager
def _own_stdout() -> typing.Iterator[typing.TextIO]:
    """Upstream code may print: keep the real stdout for verdicts, send everything else to nowhere."""
    keep = os.fdopen(os.dup(1), "w")
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    try:
        yield keep
    finally:
        keep.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--release", required=True)
    parser.add_argument("--transformer-engine", required=True)
    parser.add_argument("--gpu", default="H100", choices=standins.GPUS)
    parser.add_argument("command", choices=["judge", "recipes", "dumps"])
    args = parser.parse_args()

    for name in ENVIRONMENT:
        os.environ.pop(name, None)
    os.environ.update(CUDA_VISIBLE_DEVICES="", OMP_NUM_THREADS="1")
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    if not hasattr(typing, "override"):  # the packages ask for Python 3.12; this is all they need of it
        import typing_extensions

        typing.override = typing_extensions.override  # type: ignore[attr-defined]

    time.sleep = lambda seconds: None  # a model that is not in the cache is asked for again and again, with pauses
    with tempfile.TemporaryDirectory() as folder, _own_stdout() as out:
        scratch = Path(folder)
        standins.install(args.transformer_engine)
        offline_hub.write(scratch / "hub")
        session = Session(scratch, args.gpu)
        if args.command == "recipes":
            print(json.dumps(recipes(session)), file=out)
            return
        if args.command == "dumps":
            for name in recipe_names():
                print(json.dumps(session.dump(name), default=str), file=out, flush=True)
            return
        for line in sys.stdin:
            print(json.dumps(session.judge(json.loads(line)), default=str), file=out, flush=True)


def recipe_names() -> list[str]:
    """Names of the recipe functions that the package exports."""
    import importlib

    package = importlib.import_module("megatron.bridge.recipes")
    named = (name for name in sorted(dir(package)) if name.endswith("_config") and not name.startswith("_"))
    return [name for name in named if isinstance(getattr(package, name), types.FunctionType)]


def recipes(session: Session) -> dict[str, Any]:
    """Recipe name -> summary and the verdict on the unchanged recipe, or {"unavailable": reason} where it does not build."""
    found: dict[str, Any] = {}
    for name in recipe_names():
        try:
            found[name] = summary(session.recipe(name))
            gpus = math.prod(found[name][size] or 1 for size in ("tp", "pp", "cp"))
            found[name]["alone"] = session.judge({"id": name, "recipe": name, "gpus": gpus})
        except Exception as error:
            found[name] = {"unavailable": f"{type(error).__name__}: {str(error)[:200]}"}
    return found


if __name__ == "__main__":
    main()
