"""Commands to run next, for this release and launcher: weights, packs, launch, check."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from mbpack.facts import commands
from mbpack.facts.modes import OFFLINE
from mbpack.facts.releases import R06
from mbpack.wizard import starting
from mbpack.wizard.answers import DORA, PRETRAIN, RUN_RECIPE
from mbpack.wizard.key_value import command_words
from mbpack.wizard.plan import Plan


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do: what for, and the shell text."""

    what: str
    shell: str


def steps(plan: Plan, path: str, submitted: bool = False) -> Iterator[Step]:
    """Everything between the written file and a running job, in order. ``path`` is the file as written, with ``submitted`` a
    Slurm script."""
    draft = plan.draft
    if not draft.pretraining and draft.recipe.hf_id:
        convert = commands.convert_command(draft.release, draft.recipe.hf_id, shlex.quote(draft.get("checkpoint")))
        yield Step("import the weights, once", convert)
    if submitted:
        yield Step("check it, on the login node", f"mbpack doctor {shlex.quote(path)} --strict")
        yield Step("submit it, from a checkout of Megatron-Bridge", f"sbatch {shlex.quote(path)}")
        return
    if plan.job.mode is OFFLINE:
        yield Step("build the packs, once, outside the job", prepare_script(plan, path))
    yield Step("launch" + starting.where(draft.get("gpus")), _launch(plan, path))
    yield Step("check again, on the login node", f"mbpack doctor {shlex.quote(path)} --strict")


def prepare_script(plan: Plan, path: str) -> str:
    """A shell here-document that builds the packs this very file asks for.

    Upstream's own script packs what the recipe says, not what an override says.
    """
    return f"uv run python - <<'PY'\n{prepare_program(plan, path)}PY"


def prepare_program(plan: Plan, path: str) -> str:
    """The Python program inside :func:`prepare_script`."""
    draft = plan.draft
    module, builder = commands.builder_import(draft.release, draft.dataset_class == "HFDatasetConfig")
    lines = [
        f"from {module} import {builder}",
        f"from {_recipe_module(plan)} import {_recipe(plan)} as recipe",
        f"from {commands.TOKENIZER_MODULE} import build_tokenizer",
        f"from {commands.OVERRIDES_MODULE} import process_config_with_overrides",
        "",
        f"config = process_config_with_overrides({_called(plan)}, {path!r})",
        "tokenizer = build_tokenizer(config.tokenizer)",
    ]
    if draft.release >= R06:
        lines.append(f"{builder}(config=config.dataset, tokenizer=tokenizer).prepare_data()")
    else:
        lines[:0] = ["from dataclasses import fields"]
        lines.insert(4, "from megatron.bridge.training.config import DataloaderConfig")
        lines += [
            "loader = {field.name for field in fields(DataloaderConfig)}",
            "settings = {f.name: getattr(config.dataset, f.name) for f in fields(config.dataset) if f.name not in loader}",
            f"{builder}(tokenizer=tokenizer, **settings).prepare_data()",
        ]
    return "\n".join(lines) + "\n"


def _launch(plan: Plan, path: str) -> str:
    draft = plan.draft
    if draft.get("launcher") != RUN_RECIPE:
        program = launch_program(plan, path)
        return f"cat > train_packed.py <<'PY'\n{program}PY\n{starting.torchrun(draft.get('gpus'))} train_packed.py"
    words = [starting.torchrun(draft.get("gpus")), *starting.recipe_words(plan)]
    return " \\\n    ".join([" ".join(words), *command_words(plan)])


def launch_program(plan: Plan, path: str) -> str:
    """A launch script that loads the file: the whole of it."""
    draft = plan.draft
    entry = "pretrain" if draft.get("workload") == PRETRAIN else "finetune"
    return "\n".join(
        [
            f"from {_recipe_module(plan)} import {_recipe(plan)} as recipe",
            f"from megatron.bridge.training.{entry} import {entry}",
            f"from {commands.OVERRIDES_MODULE} import process_config_with_overrides",
            f"from {commands.step_module(plan.job.step)} import forward_step",
            "",
            f"{entry}(process_config_with_overrides({_called(plan)}, {path!r}), forward_step)",
            "",
        ]
    )


def _called(plan: Plan) -> str:
    """The call of the recipe: the adapter is chosen there, an override cannot exchange it."""
    return f"recipe(peft_scheme={DORA!r})" if plan.draft.get("workload") == DORA else "recipe()"


def _recipe(plan: Plan) -> str:
    """The name of the recipe function; performance recipes that share a name are told apart here by a prefix."""
    return plan.draft.recipe.name.removeprefix("perf:")


def _recipe_module(plan: Plan) -> str:
    return plan.draft.recipe.module or "megatron.bridge.recipes"
