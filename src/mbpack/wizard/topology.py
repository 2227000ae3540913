"""Settings of the parallel topology, and what a recipe holds that contradicts another topology."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.facts import formulas
from mbpack.facts.attention import A2A, P2P, has_window, usable_comm_types
from mbpack.facts.classes import DatasetKind
from mbpack.wizard.draft import Draft
from mbpack.wizard.yaml_text import Line

COMM_TYPE = "model.cp_comm_type"
OVERLAP = "overlap_moe_expert_parallel_comm"
_LAYOUT = "model.pipeline_model_parallel_layout"
_UNEVEN = ("num_layers_in_first_pipeline_stage", "num_layers_in_last_pipeline_stage")
_ACCOUNT = ("account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split")
_VPP = "model.virtual_pipeline_model_parallel_size"


def lines(draft: Draft) -> Iterator[Line]:
    """Parallel sizes, and the recipe's own layout where it no longer fits."""
    yield Line("model.tensor_model_parallel_size", draft.tp)
    if draft.tp > 1 or draft.recipe_value("model.sequence_parallel") is True:
        yield Line("model.sequence_parallel", draft.sp)
    yield Line("model.pipeline_model_parallel_size", draft.pp)
    vpp = draft.get("vpp")
    if vpp != draft.recipe_value(_VPP):
        yield Line(_VPP, vpp)
    yield from _layout_lines(draft)
    yield Line("model.context_parallel_size", draft.cp)
    if draft.moe:
        yield Line("model.expert_model_parallel_size", draft.ep)
        if draft.get("etp") is not None:
            yield Line("model.expert_tensor_parallel_size", draft.get("etp"))


def _layout_lines(draft: Draft) -> Iterator[Line]:
    pp = draft.recipe_count("model.pipeline_model_parallel_size")
    same = draft.pp == pp and draft.get("vpp") == draft.recipe_value(_VPP)
    if same:
        return
    why = f"the recipe's own is for PP {pp}"
    for name in (_LAYOUT, *(f"model.{name}" for name in _UNEVEN)):
        if draft.recipe_value(name) is not None:
            yield Line(name, None, why)
    for name in _ACCOUNT:
        if draft.recipe_value(f"model.{name}") is True:
            yield Line(f"model.{name}", False, why)


def has_own_split(draft: Draft, pp: int) -> bool:
    """Whether the recipe says how its layers are spread over this many stages."""
    if pp != draft.recipe_count("model.pipeline_model_parallel_size"):
        return False
    keys = (_LAYOUT, *(f"model.{name}" for name in (*_UNEVEN, *_ACCOUNT)))
    return any(draft.recipe_value(key) not in (None, False) for key in keys)


def comm_type(draft: Draft, packed: bool) -> str | None:
    """The ``cp_comm_type`` that works where the recipe's own does not, None where nothing needs to change.

    Attention variants with rules of their own are left alone.
    """
    if draft.cp == 1 or draft.recipe_value("model.experimental_attention_variant") is not None:
        return None
    own = draft.recipe_value(COMM_TYPE)
    usable = usable_comm_types(
        draft.release,
        packed,
        window=has_window(draft.recipe_value("model.window_size")),
        softmax_offset=draft.recipe_value("model.softmax_type", "vanilla") not in (None, "vanilla"),
        mla=draft.recipe_value("model.multi_latent_attention") is True,
    )
    own_works = own in usable or (own is None and P2P in usable)
    if not usable or (own_works and (own != A2A or _heads_split(draft))):
        return None
    if own_works:
        return P2P if P2P in usable else None
    return usable[0]


def _heads_split(draft: Draft) -> bool:
    """Whether a2a can hand every rank whole heads and key-value groups."""
    heads = draft.recipe_value("model.num_attention_heads")
    groups = draft.recipe_value("model.num_query_groups") or heads
    ranks = formulas.product((draft.tp, draft.cp))
    return all(not isinstance(number, int) or number % ranks == 0 for number in (heads, groups))


def communication_lines(draft: Draft, packed: bool) -> Iterator[Line]:
    """Context parallel exchange, and overlaps that packed rows or another topology exclude."""
    chosen = comm_type(draft, packed)
    if chosen is not None:
        rows = "packed rows of this attention" if packed else "this attention"
        yield Line(COMM_TYPE, chosen, f"the exchange that {rows} works with")
    yield from _overlap_lines(draft, packed)
    yield from _deferral_lines(draft)


def _overlap_lines(draft: Draft, packed: bool) -> Iterator[Line]:
    for section in ("model", "comm_overlap"):
        key = f"{section}.{OVERLAP}"
        if draft.recipe_value(key) is not True:
            continue
        if packed or draft.ep == 1 or (draft.pp > 1 and draft.get("vpp") is None):
            why = "the overlapped schedule drops sample boundaries" if packed else "needs EP above 1, and VPP with PP"
            yield Line(key, False, why)
            delay = f"{section}.delay_wgrad_compute"
            if draft.recipe_value(delay) is True:
                yield Line(delay, False, "only works with that overlap")


def _deferral_lines(draft: Draft) -> Iterator[Line]:
    """Deferred embedding gradients need a pipeline to hide in."""
    for section in ("model", "comm_overlap"):
        key = f"{section}.defer_embedding_wgrad_compute"
        if draft.pp == 1 and draft.recipe_value(key) is True:
            yield Line(key, False, "needs pipeline parallelism")
            yield Line(f"{section}.wgrad_deferral_limit", 0)


def loss_lines(draft: Draft, always: bool) -> Iterator[Line]:
    """Per-token loss and no averaging in the collective: context parallel fine-tuning, and modes that ask for it."""
    if not always and (draft.cp == 1 or draft.kind is DatasetKind.PRETRAIN):
        return
    why = "required by this packing mode" if always else "fine-tuning with context parallelism needs it"
    yield Line("model.calculate_per_token_loss", True, why)
    yield Line("ddp.average_in_collective", False, "goes with per-token loss")
