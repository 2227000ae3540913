"""The settings an override needs for one packing mode, in the order they are written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from mbpack.facts import formulas
from mbpack.facts.attention import WIDE_HEAD
from mbpack.facts.classes import DatasetKind
from mbpack.facts.keys import OFFLINE_SWITCH, SPECS, specs_target
from mbpack.facts.modes import ENERGON, GLOBAL_BATCH, IN_BATCH, NONE, OFFLINE, Mode
from mbpack.facts.releases import NIGHTLY, R06
from mbpack.facts.widths import ROW_ROUNDING, dynamic_width_aligned
from mbpack.wizard import catalog, graphs, sources, topology
from mbpack.wizard.answers import FULL_ITERATION, NO_GRAPHS
from mbpack.wizard.draft import Draft, Refused
from mbpack.wizard.steps import step_function
from mbpack.wizard.yaml_text import Line

IN_BATCH_KEY, DEFER = "dataset.enable_in_batch_packing", "dataset.defer_in_batch_packing_to_step"
FIXED, CYCLIC = "dataset.dataset_kwargs.pad_to_max_length", "cyclic"
TOKENIZER_WORKERS, FSDP_FORMAT = 16, "fsdp_dtensor"
_SECTIONS = "model train dataset ddp dist checkpoint comm_overlap rerun_state_machine validation".split()


@dataclass(frozen=True, slots=True)
class Job:
    """A draft whose packing mode is settled."""

    draft: Draft
    mode: Mode

    @property
    def packed(self) -> bool:
        return self.mode is not NONE

    @property
    def step(self) -> str:
        return step_function(self.draft, self.mode)


def compose(job: Job) -> list[Line]:
    """Every setting of the override, sections in writing order.

    Raises:
        Refused: an answer that no configuration can hold.
    """
    draft = job.draft
    found = [
        *topology.lines(draft),
        Line("model.seq_length", draft.get("seq_length")),
        *topology.communication_lines(draft, job.packed),
        *_capacity_lines(job),
        *_layer_lines(job),
        *topology.loss_lines(draft, job.mode in (ENERGON, GLOBAL_BATCH)),
        *graphs.lines(draft, job.packed),
        *_batch_lines(job),
        *sources.lines(draft),
        *_length_lines(job),
        *_PACKING[job.mode.name](job),
        *_checkpoint_lines(draft),
        *_format_lines(draft),
    ]
    order = {section: position for position, section in enumerate(_SECTIONS)}
    return sorted(found, key=lambda line: order.get(line.key.partition(".")[0], len(order)))


# ---------------------------------------------------------------------- length and batch


def _length_lines(job: Job) -> Iterator[Line]:
    """The dataset's sequence length; pretraining datasets took ``seq_length`` over as a field of their own in 0.6."""
    draft = job.draft
    length = draft.get("seq_length")
    if draft.kind is DatasetKind.PRETRAIN and draft.release < R06:
        yield Line("dataset.sequence_length", length, "equal to model.seq_length")
    else:
        yield Line("dataset.seq_length", length, "equal to model.seq_length")


def _batch_lines(job: Job) -> Iterator[Line]:
    draft = job.draft
    mbs, batch = draft.get("mbs"), draft.get("gbs")
    why = {OFFLINE: "a pack is a full row", ENERGON: "a pack is a full row", IN_BATCH: "these rows become one"}
    yield Line("train.micro_batch_size", mbs, why.get(job.mode, ""))
    yield Line("train.global_batch_size", batch, _batch_reason(job, mbs, batch))
    if draft.kind is DatasetKind.ENERGON:
        yield Line("dataset.micro_batch_size", mbs, "the loader's own; must equal train.micro_batch_size")
        if draft.release < R06:
            yield Line("dataset.global_batch_size", batch, "the loader's own")
    for name, value in (("eval_micro_batch_size", mbs), ("eval_global_batch_size", batch)):
        own = draft.recipe_value(f"validation.{name}")
        if own is not None and own != value:
            yield Line(f"validation.{name}", value, "the recipe's own does not fit")


def _batch_reason(job: Job, mbs: int, batch: int) -> str:
    """Token slots of a step and microbatches, with their arithmetic."""
    draft = job.draft
    unit = formulas.product((mbs, draft.dp.value))
    try:
        count = formulas.num_microbatches(batch, mbs, draft.dp.value)
    except ValueError as error:
        raise Refused(str(error), "gbs") from None
    slots = formulas.token_slots(draft.get("seq_length"), batch)
    if job.mode is GLOBAL_BATCH:
        return f"samples a step, a multiple of MBS x DP = {unit}; the number of packs varies"
    return f"{slots.value:,} token slots a step = {slots.because}; {microbatches(count)}"


def microbatches(count: formulas.Derived) -> str:
    """Their number in words, with the arithmetic."""
    return f"{count.value} microbatch{'es' if count.value != 1 else ''} = {count.because}"


# ---------------------------------------------------------------------- packing modes


def _offline_lines(job: Job) -> Iterator[Line]:
    draft = job.draft
    yield from _in_batch_off(draft)
    if draft.release >= R06:
        yield Line(OFFLINE_SWITCH, True)
    yield from _specs_lines(draft)
    why = fixed_width_reason(draft)
    if why is not None:
        yield Line(FIXED, True, why)


def _specs_lines(draft: Draft) -> Iterator[Line]:
    length = draft.get("seq_length")
    yield Line(f"{SPECS}._target_", specs_target(draft.release))
    yield Line(f"{SPECS}.packed_sequence_size", length, "the sequence length: model, dataset and pack must agree")
    yield Line(f"{SPECS}.pad_seq_to_mult", draft.pack_mult.value, draft.pack_mult.because)
    if draft.release >= R06:
        yield Line(f"{SPECS}.num_tokenizer_workers", TOKENIZER_WORKERS, "the default -1 tokenises in one process from 0.6 on")
    if draft.recipe_value(f"{SPECS}.max_single_sequence_length") is not None:
        yield Line(f"{SPECS}.max_single_sequence_length", None, "the recipe's limit was for its own pack size")
    if pads_boundaries(draft):
        yield Line(f"{SPECS}.pad_cu_seqlens", True, "a captured iteration needs boundaries of static length")
    elif draft.recipe_value(f"{SPECS}.pad_cu_seqlens") is True:
        yield Line(f"{SPECS}.pad_cu_seqlens", False, "only a captured iteration needs it")


def pads_boundaries(draft: Draft) -> bool:
    """Whether the boundary array must have a static length: only when the whole iteration is captured."""
    return bool(draft.get("cuda_graphs") == FULL_ITERATION)


def fixed_width_reason(draft: Draft) -> str | None:
    """What needs every packed row to have the same width, None when nothing does."""
    from mbpack.wizard.defaults import fp8_unit

    if draft.get("cuda_graphs") != NO_GRAPHS:
        return "captured graphs need rows of one width"
    backend = draft.recipe_value("model.moe_flex_dispatcher_backend")
    if draft.moe and draft.recipe_value("model.moe_token_dispatcher_type") == "flex" and backend == "hybridep":
        return "HybridEP expects the same number of tokens on every rank"
    fp8 = fp8_unit(draft)
    rounding = draft.recipe_value("dataset.dataset_kwargs.pad_seq_length_to_mult")
    rounding = rounding if isinstance(rounding, int) and rounding > 0 else ROW_ROUNDING
    if fp8 is not None and rounding % fp8.value:
        return f"FP8 needs a width that divides by {fp8}"
    if not dynamic_width_aligned(rounding, draft.pack_mult.value, draft.mult.value):
        return f"rows of varying width are rounded to {rounding}, which {draft.mult.value} does not divide"
    if draft.pp > 1 and draft.recipe_value("model.is_hybrid_model") is True:
        return "middle stages of a Mamba hybrid count on rows of model.seq_length"
    loader = draft.recipe_value("dataset.dataloader_type")
    if draft.pp > 1 and loader not in (None, "batch"):
        return f"pipeline stages expect rows of model.seq_length with dataloader_type {loader}"
    return None


def _in_batch_lines(job: Job) -> Iterator[Line]:
    draft = job.draft
    yield from _offline_off(draft)
    yield Line(IN_BATCH_KEY, True)
    if draft.kind is DatasetKind.GPT_SFT:
        yield Line("dataset.dataloader_type", CYCLIC, "the batch loader would join the whole global batch into one row")
    elif draft.release >= R06:
        owns = job.step == "qwen3_vl_step"
        own = draft.recipe_value(DEFER) is True and draft.dataset_class == draft.recipe.dataset_class
        if owns != own:
            yield Line(DEFER, owns, f"{job.step} packs by itself" if owns else f"{job.step} needs rows packed before it")


def _energon_lines(job: Job) -> Iterator[Line]:
    draft = job.draft
    buffer = draft.get("buffer")
    yield Line("dataset.packing_buffer_size", buffer, "samples a worker holds back to fill its packs")
    yield from _in_batch_off(draft)
    if draft.recipe_value(DEFER) is True:
        yield Line(DEFER, False, "the loader packs, not the step")


def _global_batch_lines(job: Job) -> Iterator[Line]:
    draft = job.draft
    yield from _offline_off(draft)
    yield from _in_batch_off(draft)
    yield Line("dataset.enable_global_batch_packing", True)
    yield Line("dataset.dataloader_type", CYCLIC, "the scheduler draws single samples")
    width = draft.recipe_value("model.kv_channels")
    if draft.release >= NIGHTLY and isinstance(width, int) and width >= WIDE_HEAD:
        yield Line("dataset.fold_alignment_padding", True, f"heads of {width} refuse padding between samples")


def _capacity_lines(job: Job) -> Iterator[Line]:
    """Tokens one rank may hold in global-batch packing: enough for the longest sample, shared over CP."""
    if job.mode is not GLOBAL_BATCH:
        return
    draft = job.draft
    per_rank = formulas.round_up(draft.get("seq_length"), draft.mult.value) // draft.cp
    capacity = formulas.pack_capacity(per_rank, draft.cp)
    yield Line("model.max_seqlen_per_dp_cp_rank", per_rank, f"pack capacity {capacity.value:,} = {capacity.because}")


def _layer_lines(job: Job) -> Iterator[Line]:
    """What packed rows need of particular layers."""
    draft = job.draft
    if job.packed and draft.recipe_value("model.use_mamba_mem_eff_path") is False:
        yield Line("model.use_mamba_mem_eff_path", True, "the other path of Mamba layers refuses packed rows")


def _no_packing_lines(job: Job) -> Iterator[Line]:
    yield from _offline_off(job.draft)
    yield from _in_batch_off(job.draft)


def _offline_off(draft: Draft) -> Iterator[Line]:
    """Both halves of the switch: from 0.6 on one without the other is refused."""
    if draft.recipe_value(OFFLINE_SWITCH) is True:
        yield Line(OFFLINE_SWITCH, False, "the recipe packs offline")
    if draft.recipe_value(SPECS) is not None:
        yield Line(SPECS, None, "refused while the switch is off" if draft.release >= R06 else "the recipe packs offline")


def _in_batch_off(draft: Draft) -> Iterator[Line]:
    if draft.recipe_value(IN_BATCH_KEY) is True:
        yield Line(IN_BATCH_KEY, False, "the recipe packs in the batch")


_PACKING: dict[str, Callable[[Job], Iterator[Line]]] = {
    OFFLINE.name: _offline_lines,
    IN_BATCH.name: _in_batch_lines,
    ENERGON.name: _energon_lines,
    GLOBAL_BATCH.name: _global_batch_lines,
    NONE.name: _no_packing_lines,
}


# ---------------------------------------------------------------------- weights and adapters


def _checkpoint_lines(draft: Draft) -> Iterator[Line]:
    if not draft.pretraining:
        why = "PEFT starts from it" if catalog.task(draft.recipe) == catalog.PEFT else "fine-tuning starts from it"
        yield Line("checkpoint.pretrained_checkpoint", draft.get("checkpoint"), why)


def _format_lines(draft: Draft) -> Iterator[Line]:
    """The checkpoint format of Megatron FSDP; a recipe may shard with it and save in another format."""
    fsdp = draft.recipe_value("ddp.use_megatron_fsdp") is True or draft.recipe_value("dist.use_megatron_fsdp") is True
    if fsdp and draft.recipe_value("checkpoint.ckpt_format") != FSDP_FORMAT:
        yield Line("checkpoint.ckpt_format", FSDP_FORMAT, "Megatron FSDP, which the recipe uses, saves in no other format")
