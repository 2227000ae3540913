"""CUDA graph settings in the spelling that the release and the recipe understand."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.facts.releases import R05
from mbpack.wizard.answers import ATTN, FULL_ITERATION, MLP, NO_GRAPHS
from mbpack.wizard.draft import Draft, Refused
from mbpack.wizard.yaml_text import Line

IMPL, SCOPE, MODULES = "model.cuda_graph_impl", "model.cuda_graph_scope", "model.cuda_graph_modules"
ATTENTION_REFUSED = (
    "attention cannot be captured when rows are packed: Megatron-Core's replay takes no sample boundaries and stops at the"
    " first one; capture the MLP only (mlp), the full iteration (full_iteration), or nothing"
)


def lines(draft: Draft, packed: bool) -> Iterator[Line]:
    """The settings of the chosen capture.

    Raises:
        Refused: attention capture with packed rows.
    """
    wanted = draft.get("cuda_graphs")
    if wanted == NO_GRAPHS:
        if draft.recipe_value(IMPL, "none") not in (None, "none"):
            yield Line(IMPL, "none", "the recipe's capture does not fit")
        return
    if wanted == ATTN and packed:
        raise Refused(ATTENTION_REFUSED, "cuda_graphs")
    _check_dropout(draft, wanted)
    if wanted == FULL_ITERATION:
        yield from _full_iteration(draft)
    else:
        yield Line(IMPL, "transformer_engine")
        yield from _scope(draft, MLP if wanted == MLP else ATTN)
    yield Line("model.use_te_rng_tracker", True, "captured graphs need it")


def _check_dropout(draft: Draft, wanted: str) -> None:
    """Recomputed attention inside a graph cannot draw random numbers (Megatron-Core's transformer configuration)."""
    dropout = draft.recipe_value("model.attention_dropout", 0)
    recomputed = draft.recipe_value("model.recompute_granularity") == "selective" and "core_attn" in (
        draft.recipe_value("model.recompute_modules") or ["core_attn"]
    )
    if wanted in (FULL_ITERATION, ATTN) and dropout and recomputed:
        raise Refused(
            f"the recipe recomputes attention with a dropout of {dropout}, which a captured graph cannot do;"
            " capture the MLP only (mlp) or nothing",
            "cuda_graphs",
        )


def _scope(draft: Draft, name: str) -> Iterator[Line]:
    """The scope under the key the recipe already uses: both keys together are refused from 0.5 on."""
    key = SCOPE if draft.release < R05 or draft.recipe_value(SCOPE) is not None else MODULES
    yield Line(key, [name], "the key the recipe uses" if key == SCOPE and draft.release >= R05 else "")


def _full_iteration(draft: Draft) -> Iterator[Line]:
    if draft.release < R05:
        yield Line(IMPL, "local", f"{draft.release} spells full-iteration capture this way")
        yield Line(SCOPE, [FULL_ITERATION])
    else:
        yield Line(IMPL, FULL_ITERATION)
        if isinstance(draft.recipe_value(SCOPE), list):
            yield Line(SCOPE, None, "full-iteration capture takes no scope")
        if isinstance(draft.recipe_value(MODULES), list) and draft.recipe_value(MODULES):
            yield Line(MODULES, None, "full-iteration capture takes no scope")
    yield Line("rerun_state_machine.check_for_nan_in_loss", False, "the check cannot run inside a captured iteration")
