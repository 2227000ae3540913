"""Proposed answers, each with the reason it is proposed. A default may look only at questions asked earlier."""

from __future__ import annotations

from collections.abc import Callable

from mbpack.config.beside import find_beside
from mbpack.facts import formulas
from mbpack.facts.buffers import FIRST_BUFFER, buffer_for
from mbpack.facts.classes import DatasetKind
from mbpack.facts.keys import SPECS
from mbpack.facts.modes import GLOBAL_BATCH, IN_BATCH, MODES, NONE, Mode
from mbpack.facts.releases import DEFAULT, R06
from mbpack.wizard import catalog, sources
from mbpack.wizard.answers import AUTO, CHAT, ENERGON_DATA, HF, JSONL, NO_GRAPHS, SCRIPT, SFT
from mbpack.wizard.draft import NO_DEFAULT, Default, Draft
from mbpack.wizard.machine import machine
from mbpack.wizard.seen import look
from mbpack.wizard.topology import has_own_split

#: Pack length proposed for text, tokens.
TEXT_LENGTH = 8192
#: Share of a step that pipeline stages may stand idle before a bigger batch is proposed.
IDLE_LIMIT = 1 / 3


def bridge(draft: Draft) -> Default:
    found = find_beside()
    if found is not None:
        return Default(found.version.release.name, f"{found.version.patch}: {found.where}")
    return Default(DEFAULT.name, "newest release whose package mbpack has run; 0.5 and older use other key names")


def launcher(draft: Draft) -> Default:
    return Default(SCRIPT, "what the file says is what trains; run_recipe.py takes KEY=VALUE and repairs some values itself")


def workload(draft: Draft) -> Default:
    """What the recipe trains, where one was named."""
    if draft.given("recipe"):
        from mbpack.facts import recipes

        found = recipes.find(draft.release.name, draft.get("recipe"))
        if found is not None:
            return Default(catalog.workload_of(found), "what the recipe trains")
    return Default(SFT, "SFT and LoRA pack the same way; pretraining already fills its sequences")


def modality(draft: Draft) -> Default:
    if draft.given("recipe") or draft.given("family"):
        return Default(catalog.modality(draft.recipe), "what the recipe reads")
    return Default("text")


def family(draft: Draft) -> Default:
    return NO_DEFAULT


def recipe(draft: Draft) -> Default:
    """The recipe of a family that needs the fewest GPUs; none where neither is named."""
    if not draft.given("family"):
        return NO_DEFAULT
    name = catalog.find_family(draft.release, draft.get("family"))
    wanted = draft.get("modality") if draft.given("modality") else None
    found = catalog.matching(draft.release, draft.get("workload"), name, wanted) if name is not None else []
    if draft.given("data"):
        wanted_kind = draft.get("data") == ENERGON_DATA
        found = sorted(found, key=lambda one: ("Energon" in (one.dataset_class or "")) != wanted_kind)
    else:
        found = sorted(found, key=lambda one: "Energon" in (one.dataset_class or ""))
    if not found:
        return NO_DEFAULT
    return Default(found[0].name, "of this family, it needs the fewest GPUs")


def data(draft: Draft) -> Default:
    """What the data are: told by themselves where a path was named, else the recipe's own."""
    allowed = sources.choices(draft)
    if draft.given("data_path"):
        found = look(draft.get("data_path"))
        if found.kind in allowed:
            return Default(found.kind, found.why)
        return Default(allowed[0], "what the recipe reads") if len(allowed) == 1 else NO_DEFAULT
    if HF in allowed:
        return Default(HF, "the recipe's own dataset; a first run needs nothing else")
    return Default(allowed[0], "what the recipe reads")


def data_path(draft: Draft) -> Default:
    """A placeholder where local data were named without their place; else none, which is the recipe's own data."""
    allowed = sources.choices(draft)
    if not draft.given("data") and HF in allowed:
        return Default(None, "a first run needs nothing else")
    paths = {JSONL: "data/sft", ENERGON_DATA: "data/energon"}
    if draft.get("data") == CHAT:
        return Default("data/sft" if draft.recipe_kind is DatasetKind.GPT_SFT else "data/train.jsonl", "a placeholder")
    path = paths.get(draft.get("data"))
    if path is None and not draft.given("data"):
        return Default(None)
    return Default(path, "a placeholder: every node must see the folder") if path else NO_DEFAULT


def checkpoint(draft: Draft) -> Default:
    model = (draft.recipe.hf_id or draft.recipe.family or "base").rpartition("/")[2]
    return Default(f"checkpoints/{model}", "where the import command below puts it")


# ---------------------------------------------------------------------- topology


def gpu(draft: Draft) -> Default:
    from mbpack.wizard.memory import USUAL_GPU, own_gpu

    here = machine()
    if here is not None and here.kind is not None:
        return Default(here.kind, "this machine's")
    found = own_gpu(draft)
    return (
        Default(found, "in the recipe's name") if found is not None else Default(USUAL_GPU, "what most recipes are written for")
    )


def gpus(draft: Draft) -> Default:
    from mbpack.wizard.memory import enough_gpus

    needed = catalog.model_parallel(draft.recipe)
    own = bool(draft.recipe.gpus) and (draft.recipe.gpus or 0) % needed == 0
    start = draft.recipe.gpus if own and draft.recipe.gpus else needed
    here = machine()
    if here is not None and here.gpus % needed == 0 and enough_gpus(draft, here.gpus) in (None, here.gpus):
        return Default(here.gpus, "this machine's")
    enough = enough_gpus(draft, start)
    if enough is not None and enough > start:
        return Default(enough, f"the smallest number on which it fits; on {start}, as in the recipe, it does not")
    if own:
        return Default(start, "the recipe's own count")
    return Default(needed, "what one copy of the model takes with the recipe's topology")


def _fitting(draft: Draft, name: str, own: Default) -> Default:
    """The size of the smallest topology that fits, where the recipe's own does not."""
    from mbpack.wizard import memory

    if memory.own_fits(draft, int(draft.get("gpus"))) is not False:
        return own
    found = memory.smallest(draft, int(draft.get("gpus")))
    size = getattr(found, name) if found is not None else own.value
    return own if size == own.value else Default(size, "the smallest topology that fits; the recipe's own does not")


def tp(draft: Draft) -> Default:
    return _fitting(draft, "tp", _share(draft, "tensor_model", 1))


def pp(draft: Draft) -> Default:
    return _fitting(draft, "pp", _own_pp(draft))


def _own_pp(draft: Draft) -> Default:
    found = _share(draft, "pipeline_model", draft.tp)
    layers = draft.recipe_value("model.num_layers")
    if not isinstance(layers, int) or layers % found.value == 0 or has_own_split(draft, found.value):
        return found
    room = draft.get("gpus") // draft.tp
    size = next(n for n in range(found.value, 0, -1) if room % n == 0 and layers % n == 0)
    return Default(size, f"{layers} layers do not divide over {found.value} stages")


def cp(draft: Draft) -> Default:
    return _fitting(draft, "cp", _share(draft, "context", formulas.product((draft.tp, draft.pp))))


def _share(draft: Draft, key: str, taken: int) -> Default:
    """The recipe's parallel size where the GPUs allow it, else the largest divisor of it that they allow."""
    own = draft.recipe_count(f"model.{key}_parallel_size")
    room, rest = divmod(draft.get("gpus"), taken)
    if rest:
        return Default(1, "the GPUs do not divide")
    fitting = [size for size in range(own, 0, -1) if own % size == 0 and room % size == 0]
    size = fitting[0] if fitting else 1
    return Default(size, "as in the recipe" if size == own else f"the recipe's {own} does not divide the GPUs left")


def vpp(draft: Draft) -> Default:
    own = draft.recipe_value("model.virtual_pipeline_model_parallel_size")
    same = draft.pp == draft.recipe_count("model.pipeline_model_parallel_size")
    if isinstance(own, int) and own > 1 and same:
        return Default(own, "as in the recipe")
    return Default(None, "one stage a rank")


def ep(draft: Draft) -> Default:
    return _fitting(draft, "ep", _own_ep(draft))


def _own_ep(draft: Draft) -> Default:
    own = draft.recipe_count("model.expert_model_parallel_size")
    etp_size = draft.recipe_value("model.expert_tensor_parallel_size")
    etp_size = etp_size if isinstance(etp_size, int) else 1 if draft.release >= R06 else draft.tp  # as ETP is when nobody sets it
    room, rest = divmod(draft.get("gpus"), formulas.product((draft.pp, etp_size)))
    if rest:
        return Default(1, "the GPUs do not divide")
    size = next((n for n in range(own, 0, -1) if own % n == 0 and room % n == 0), 1)
    return Default(size, "as in the recipe" if size == own else f"the recipe's {own} does not divide the GPUs")


def etp(draft: Draft) -> Default:
    own = draft.recipe_value("model.expert_tensor_parallel_size")
    if isinstance(own, int):
        return Default(own, "as in the recipe")
    if draft.tp > 1 and draft.recipe_value("model.add_bias_linear", True) is True:
        return Default(1, "experts with biases cannot be split over tensor parallel ranks")
    return Default(None, "not set: 1 with expert parallelism from 0.6 on, before that the tensor parallel size")


def sp(draft: Draft) -> Default:
    if draft.tp == 1:
        return Default(False, "nothing to split at TP 1")
    if draft.moe:
        return Default(True, "experts with tensor parallelism need it")
    return Default(True, "splits activations over the tensor parallel ranks at no cost")


# ---------------------------------------------------------------------- length and batch


def length_unit(draft: Draft) -> formulas.Derived:
    """What the sequence length must be a multiple of: the pad multiple, twice CP, and the FP8 block where FP8 is on."""
    unit = draft.mult
    fp8 = fp8_unit(draft)
    if fp8 is not None:
        return formulas.Derived(formulas.lcm(unit.value, fp8.value), f"lcm({unit.because}, FP8 {fp8.because})")
    return unit


def fp8_unit(draft: Draft) -> formulas.Derived | None:
    """The width multiple of FP8, None without it."""
    from mbpack.config.precision import fp8_in_effect
    from mbpack.config.settings import Unknown, WrongKind

    try:
        fp8 = fp8_in_effect(draft.base)
    except (Unknown, WrongKind):
        return None
    return None if fp8 is None else formulas.fp8_width_multiple(fp8.block, draft.tp, draft.cp, draft.sp)


def wanted_length(draft: Draft) -> tuple[int, str]:
    """The length that is proposed before it is rounded to what the topology needs, and why."""
    own = draft.recipe_count("dataset.seq_length", draft.recipe_count("model.seq_length", TEXT_LENGTH))
    text = draft.recipe_kind is DatasetKind.GPT_SFT
    wanted = max(own, TEXT_LENGTH) if text else own
    return wanted, "start here for text when memory allows" if text and wanted == TEXT_LENGTH else "as in the recipe"


def seq_length(draft: Draft) -> Default:
    wanted, why = wanted_length(draft)
    unit = length_unit(draft).value
    value = formulas.round_up(wanted, unit)
    return Default(value, why if value == wanted else f"{wanted} rounded up to a multiple of {unit}")


def long_samples(draft: Draft) -> Default:
    return Default(False, "then packing would find nothing to join")


def packing(draft: Draft) -> Default:
    return Default(AUTO, "decided from the data, the family and the release")


def mbs_for(draft: Draft, mode: Mode) -> Default:
    """The micro batch size of a packing mode."""
    own = draft.recipe_count("train.micro_batch_size")
    if mode is NONE:
        value = 1 if draft.recipe_value(SPECS) is not None else own
        return Default(value, "one row a microbatch" if value != own else "as in the recipe")
    if mode is IN_BATCH:
        return Default(max(2, own), "in-batch packing joins the rows of one microbatch, so it needs two or more")
    return Default(1, "a packed row is full already")


def mbs(draft: Draft) -> Default:
    from mbpack.wizard.modes import chosen_mode

    return mbs_for(draft, chosen_mode(draft))


def batch_unit(draft: Draft) -> int:
    """What the global batch must be a multiple of: MBS x DP."""
    return formulas.product((int(draft.get("mbs")), draft.dp.value))


def gbs(draft: Draft) -> Default:
    """As many tokens a step as the recipe has; more rows where the pipeline would stand idle."""
    if draft.given("token_slots"):
        return _gbs_of_slots(draft)
    unit, own = batch_unit(draft), draft.recipe_count("train.global_batch_size", batch_unit(draft))
    total, each, what = _step_of_the_recipe(draft, own)
    value = max(unit, min(formulas.nearest_multiples(total // each, unit), default=unit))
    why = f"about {what}"
    if 2 * abs(value * each - total) > total:
        why = f"the smallest multiple of MBS x DP; {value * each / total:.3g} x {what}"
    if value == own and not what.endswith(_FULL):
        why = "as in the recipe"
    while _idle(draft, value) > IDLE_LIMIT:
        value += unit
        why = "enough microbatches to keep the pipeline stages busy"
    return Default(value, why)


#: Said where samples stand for the recipe's packs and nobody told their length.
_FULL = ", were every sample full"


def _step_of_the_recipe(draft: Draft, own: int) -> tuple[int, int, str]:
    """What one step of the recipe holds, how much of it a row of this run has, and its name.

    Rows are packs or samples, in the recipe and in this run. Packs, and the rows of pretraining, are full; a sample has the mean
    length, where that was told, and is no more when the sequence is longer.
    """
    length, mean = int(draft.get("seq_length")), draft.get("mean_length")
    packs = draft.recipe_count(f"{SPECS}.packed_sequence_size", 0)
    slots = formulas.token_slots(packs or draft.recipe_count("dataset.seq_length", length), own).value
    name = f"the recipe's {slots:,} token slots a step"
    if draft.pretraining or draft.recipe_value("dataset.packing_buffer_size") is not None:
        return slots, length, name
    from mbpack.wizard.modes import chosen_mode

    asked = draft.get("packing")
    samples = (chosen_mode(draft) if asked == AUTO else MODES[asked]) in (IN_BATCH, GLOBAL_BATCH, NONE)
    if samples and not packs:
        return own, 1, f"the recipe's {own:,} samples a step"
    if samples:
        return slots, min(mean or length, length), f"{name}, in samples of {mean:,} tokens" if mean else f"{name}{_FULL}"
    if not packs and mean is not None:
        tokens = formulas.token_slots(min(mean, length), own).value
        return tokens, length, f"the recipe's {own:,} samples of {mean:,} tokens a step"
    return slots, length, name


def _idle(draft: Draft, batch: int) -> float:
    if draft.pp == 1:
        return 0.0
    count = formulas.num_microbatches(batch, int(draft.get("mbs")), draft.dp.value).value
    return formulas.bubble_share(draft.pp, count, draft.get("vpp") or 1).value


def _gbs_of_slots(draft: Draft) -> Default:
    from mbpack.wizard.draft import Refused

    slots, length, unit = draft.get("token_slots"), int(draft.get("seq_length")), batch_unit(draft)
    pairs = formulas.equal_slot_alternatives(slots, [length], unit)
    if pairs:
        return Default(pairs[0][1], f"{slots:,} token slots / {length:,}")
    near = [formulas.token_slots(length, batch).value for batch in formulas.nearest_multiples(slots // length, unit)]
    words = " or ".join(f"{number:,}" for number in near)
    raise Refused(
        f"{slots:,} token slots are no whole number of batches of {unit} rows (MBS x DP) of {length:,} tokens; nearest: {words}",
        "token_slots",
    )


def token_slots(draft: Draft) -> Default:
    return NO_DEFAULT


def mean_length(draft: Draft) -> Default:
    return NO_DEFAULT


def cuda_graphs(draft: Draft) -> Default:
    return Default(NO_GRAPHS, "packed attention cannot be captured; MLP-only or full-iteration can")


def buffer(draft: Draft) -> Default:
    """Samples in the buffer of native Energon packing: with a mean sample of an eighth of the pack, about 95% full."""
    length = int(draft.get("seq_length"))
    return Default(buffer_for(length, max(1, length // 8)).value, f"{FIRST_BUFFER} leaves packs half empty")


Rule = Callable[[Draft], Default]
DEFAULTS: dict[str, Rule] = {
    function.__name__: function
    for function in (
        bridge,
        launcher,
        workload,
        modality,
        family,
        recipe,
        data,
        data_path,
        checkpoint,
        gpus,
        gpu,
        tp,
        pp,
        cp,
        vpp,
        ep,
        etp,
        sp,
        seq_length,
        long_samples,
        packing,
        mbs,
        gbs,
        token_slots,
        mean_length,
        cuda_graphs,
        buffer,
    )
}
