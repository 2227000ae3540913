"""Questions about a run that several rule modules ask: its step function, its model family, its overlap and sharding.

Each raises :class:`~mbpack.config.settings.Unknown` when an input is unknown, like the properties of a run.
"""

from __future__ import annotations

from mbpack.config.run import COLLATING, Run
from mbpack.config.settings import Unknown
from mbpack.facts import hard_blocks
from mbpack.facts.classes import DatasetKind
from mbpack.facts.hard_blocks import belongs, is_hybrid_class, launcher_step, step_name
from mbpack.facts.releases import R06, R07

#: Dataset kinds that can hold images.
VLM_KINDS = (DatasetKind.DIRECT_HF, DatasetKind.CONVERSATION, DatasetKind.ENERGON, DatasetKind.MOCK_VLM)
OVERLAP = "overlap_moe_expert_parallel_comm"
VARIANT = "model.experimental_attention_variant"


def step_of(run: Run) -> str:
    """The step function: as given, else what ``run_recipe.py`` takes for the recipe. Unknown in a user's own script."""
    if run.context.step is not None:
        return step_name(run.context.step)
    recipe = run.settings.recipe
    if run.context.launcher == "run_recipe" and recipe is not None:
        return launcher_step(run.release, recipe.name, run.release >= R07 and run.energon_packing)
    raise Unknown("step", ("step",))


def is_family(run: Run, marks: hard_blocks.Marks) -> bool:
    """Whether the model is of a family, told by the recipe's module or the model class."""
    return belongs(marks, *model_marks(run))


def model_marks(run: Run) -> tuple[str | None, str | None]:
    """The recipe's module and the model class, whichever is known; Unknown when neither is."""
    recipe, cls = run.settings.recipe, run.settings.class_at("model")
    if recipe is None and cls is None and not run.complete and run.settings.target_at("model") is None:
        raise Unknown("model._target_", ("recipe",))
    return recipe.module if recipe is not None else None, cls


def is_hybrid(run: Run) -> bool:
    """Whether the model mixes Mamba layers with attention."""
    cls = run.settings.class_at("model")
    if cls is not None and is_hybrid_class(run.settings.schema, cls):
        return True
    return run.is_true("model.is_hybrid_model")


def has_gated_delta_net(run: Run) -> bool:
    """Whether the model has gated-delta-net layers (Qwen3-Next, Qwen3.5)."""
    module, cls = run.settings.recipe.module if run.settings.recipe else None, run.settings.class_at("model")
    if belongs(hard_blocks.GATED_DELTA_NET, module, cls):
        return True
    return run.value(VARIANT) in hard_blocks.GDN_VARIANTS


def overlap_key(run: Run) -> str | None:
    """The key that asks for expert-communication overlap, None when it is off.

    A ``comm_overlap`` section decides alone: it writes its own value over the model's.
    """
    if run.value("comm_overlap") is not None:
        key = f"comm_overlap.{OVERLAP}"
        return key if run.is_true(key) else None
    key = f"model.{OVERLAP}"
    return key if run.flag(key) else None


def uses_megatron_fsdp(run: Run) -> bool:
    """Whether Megatron-FSDP shards the model; either section can ask for it."""
    return run.flag("ddp.use_megatron_fsdp") or run.flag("dist.use_megatron_fsdp")


def rows_have_one_width(run: Run) -> bool:
    """Whether all rows get the same width: as set, or (0.6 and later) because PP or EP above 1 makes it so."""
    if run.fixed_width:
        return True
    return run.release >= R06 and run.dataset in COLLATING and (run.pp > 1 or run.ep > 1)


def sample_multiple(run: Run) -> int:
    """What every packed sample's length is padded to, in tokens: as prepared offline, else by the topology."""
    if run.offline:
        multiple = run.number("dataset.offline_packing_specs.pad_seq_to_mult")
        return multiple if isinstance(multiple, int) and multiple > 0 else 1
    return run.mult.value
