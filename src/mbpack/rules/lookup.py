"""Questions about a run that several rule modules ask: its step function, model family, overlap, packing key.

Each raises :class:`~mbpack.config.settings.Unknown` when an input is unknown, like the properties of a run.
"""

from __future__ import annotations

from mbpack.config import in_effect
from mbpack.config.run import Run
from mbpack.config.settings import Setting, Unknown
from mbpack.config.shared import shared
from mbpack.config.unknown_keys import unknown_keys
from mbpack.facts import hard_blocks
from mbpack.facts.attention import GATED_DELTA_NET
from mbpack.facts.classes import DatasetKind
from mbpack.facts.hard_blocks import belongs, is_hybrid_class, launcher_step, step_name
from mbpack.facts.keys import OFFLINE_SWITCH, SPECS
from mbpack.facts.modes import ENERGON, GLOBAL_BATCH, OFFLINE
from mbpack.facts.releases import NIGHTLY, R06, R07
from mbpack.rules.base import Edit, Fix, set_to

#: Dataset kinds that can hold images.
VLM_KINDS = (DatasetKind.DIRECT_HF, DatasetKind.CONVERSATION, DatasetKind.ENERGON, DatasetKind.MOCK_VLM)
OVERLAP, DELAYED = "overlap_moe_expert_parallel_comm", "delay_wgrad_compute"
VARIANT = "model.experimental_attention_variant"
IN_BATCH = "dataset.enable_in_batch_packing"


@shared
def step_of(run: Run) -> str:
    """The step function: as given, else what ``run_recipe.py`` takes for the recipe. Unknown in a user's own script."""
    if run.context.step is not None:
        return step_name(run.context.step)
    recipe = run.settings.recipe
    if run.context.launcher == "run_recipe" and recipe is not None:
        return launcher_step(run.release, recipe.name, run.release >= R07 and run.energon_packing)
    raise Unknown("step", ("step",))


@shared
def is_family(run: Run, marks: hard_blocks.Marks) -> bool:
    """Whether the model is of a family, told by the recipe's module or the model class."""
    return belongs(marks, *model_marks(run))


def model_marks(run: Run) -> tuple[str | None, str | None]:
    """The recipe's module and the model class, whichever is known; Unknown when neither is."""
    recipe, cls = run.settings.recipe, run.settings.class_at("model")
    if recipe is None and cls is None and not run.complete and run.settings.target_at("model") is None:
        raise Unknown("model._target_", ("recipe",))
    return recipe.module if recipe is not None else None, cls


@shared
def is_hybrid(run: Run) -> bool:
    """Whether the model mixes Mamba layers with attention."""
    cls = run.settings.class_at("model")
    if cls is None:
        return run.is_true("model.is_hybrid_model")
    return is_hybrid_class(run.settings.schema, cls) or run.maybe("model.is_hybrid_model") is True


@shared
def has_gated_delta_net(run: Run) -> bool:
    """Whether the model has gated-delta-net layers (Qwen3-Next, Qwen3.5)."""
    module, cls = run.settings.recipe.module if run.settings.recipe else None, run.settings.class_at("model")
    if belongs(hard_blocks.GATED_DELTA_NET, module, cls):
        return True
    return bool(run.value(VARIANT) == GATED_DELTA_NET)


@shared
def splits_contiguously(run: Run) -> bool:
    """Whether context parallel ranks get consecutive tokens: as written, else in the one recipe that asks for it."""
    mode, recipe = run.value("model.cp_partition_mode"), run.settings.recipe
    if mode is not None or run.release < R06:
        return bool(mode == "contiguous")
    return recipe is not None and recipe.is_called(hard_blocks.DSV4_PACKED_RECIPE)


@shared
def overlap_key(run: Run) -> str | None:
    """The key that asks for expert-communication overlap, None when it is off.

    A ``comm_overlap`` section decides alone: it writes its own value over the model's.
    """
    if run.value("comm_overlap") is not None:
        key = f"comm_overlap.{OVERLAP}"
        return key if run.flag(key) else None
    key = f"model.{OVERLAP}"
    return key if run.flag(key) else None


def overlap_off(run: Run, key: str) -> tuple[Edit, ...]:
    """Edits that switch an overlap off, and with it what needs the overlap."""
    section = key.partition(".")[0]
    keys = [f"{section}.{name}" for name in (OVERLAP, DELAYED)]
    return set_to(run, *((name, False) for name in keys if name == key or run.maybe(name) is True))


@shared
def uses_megatron_fsdp(run: Run) -> bool:
    """Whether Megatron-FSDP shards the model; either section can ask for it."""
    return run.flag("ddp.use_megatron_fsdp") or run.flag("dist.use_megatron_fsdp")


@shared
def second_version(run: Run) -> bool:
    """Whether the second version of Megatron-FSDP is asked for (0.7 and later); it has rules of its own."""
    return bool(run.release >= R07 and run.number("ddp.megatron_fsdp_version", 1) == 2)


@shared
def rows_have_one_width(run: Run) -> bool:
    """Whether all packed rows get the same width."""
    return in_effect.fixed_width(run) if run.mode is OFFLINE else in_effect.in_batch_fixed(run)


@shared
def row_width(run: Run) -> int | None:
    """Tokens of a full row: the pack size in effect, else the dataset's sequence length."""
    return in_effect.pack_size(run) if run.mode is OFFLINE else in_effect.count(run, in_effect.DATA_SEQ)


@shared
def sample_multiple(run: Run) -> int:
    """What every packed sample's length is padded to, in tokens: as prepared offline, else by the topology."""
    if run.mode is OFFLINE:
        multiple = in_effect.pad_multiple(run)
        return multiple if multiple is not None and multiple > 0 else 1
    return in_effect.needed_multiple(run).value


def foreign(run: Run, key: str) -> Setting | None:
    """What the user wrote under a section's key that its class does not have, None when there is no such entry."""
    section, _, name = key.partition(".")
    for layer in run.settings.layers:
        holder = layer.root.value.get(section) if isinstance(layer.root.value, dict) else None
        if holder is not None and isinstance(holder.value, dict) and name in holder.value:
            return next((found.setting for found in unknown_keys(run.settings) if found.path == key), None)
    return None


def packing_key(run: Run) -> str:
    """The key that switches the packing of a run on."""
    if run.mode is OFFLINE:
        return OFFLINE_SWITCH if run.release >= R06 else f"{SPECS}.packed_sequence_size"
    return {GLOBAL_BATCH: "dataset.enable_global_batch_packing", ENERGON: "dataset.packing_buffer_size"}.get(run.mode, IN_BATCH)


def unpack(run: Run) -> Fix:
    """The fix that switches packing off."""
    if run.mode is OFFLINE:
        off = ((OFFLINE_SWITCH, False), (SPECS, None)) if run.release >= R06 else ((SPECS, None),)
        return Fix("packing off (micro_batch_size may grow again)", set_to(run, *off))
    key = packing_key(run)
    return Fix("packing off", set_to(run, (key, None if run.mode is ENERGON else False)))


@shared
def packs_online(run: Run) -> bool:
    """Whether global-batch packing is on and the dataset can deliver unpacked samples."""
    if not run.global_batch:
        return False
    return run.dataset is DatasetKind.GPT_SFT or (run.release >= NIGHTLY and run.dataset is DatasetKind.PRETRAIN)


@shared
def launcher_mends_loss(run: Run) -> bool:
    """Whether ``run_recipe.py`` sets both loss switches by itself: it does so with context parallelism only."""
    return run.repaired and (run.cp > 1 or (run.eval_cp or 1) > 1)
