"""No attention backend takes this: the answer of Transformer Engine's own selection, asked for what a run may be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from mbpack.config.in_effect import count, cp_size, needed_multiple, pad_multiple
from mbpack.config.precision import fp8_in_effect
from mbpack.config.run import Run
from mbpack.config.settings import Object, Origin, Unknown
from mbpack.config.shared import shared
from mbpack.facts.attention import A2A, MLA_P2P_ONLY_UNTIL, usable_comm_types
from mbpack.facts.attention import has_window as limits
from mbpack.facts.attention_backends import (
    ANY,
    FLASH,
    FUSED,
    GENERATIONS,
    UNFUSED,
    Input,
    Place,
    available,
    known_heads,
)
from mbpack.facts.modes import GLOBAL_BATCH, IN_BATCH, OFFLINE
from mbpack.facts.releases import NIGHTLY, R05, R06
from mbpack.facts.schema import Opaque
from mbpack.rules.attention.cp_comm import MLA, SOFTMAX, WINDOW, comm_types, own_attention
from mbpack.rules.packs.lookup import forgets_multiple

BACKEND, ENUM = "model.attention_backend", "AttnBackend"
FOLD = "dataset.fold_alignment_padding"
#: Generations that releases are trained on.
USUAL = (90, 100)
#: What a backend leaves of the choice.
_LEFT = {"flash": FLASH, "fused": FUSED, "unfused": UNFUSED, "auto": ANY}
_FP8 = {"delayed": "delayed", "tensorwise": "float8_current_scaling", "mxfp8": "mxfp8"}


class Answer(NamedTuple):
    """Where nothing is left. ``certain``: on every GPU the run may be on, whatever the cuDNN.

    ``cause`` is what alone would mend it: fp8, softmax, backend, heads, padding, or "" where nothing alone does.
    ``always`` are the generations on which no cuDNN helps, ``sometimes`` those where a newer one does.
    """

    cause: str
    certain: bool
    always: tuple[int, ...]
    sometimes: tuple[int, ...]

    @property
    def where(self) -> str:
        """The generations as text, "" where all are meant."""
        return "" if self.certain else " and ".join(GENERATIONS[number] for number in self.always or self.sometimes)


def judge(run: Run, backend: str | None = None) -> Answer | None:
    """What Transformer Engine's selection leaves of a packed run, None where something is left everywhere.

    ``backend``: asked as if this one were chosen.

    Raises:
        Unknown: an input is unknown, or the answer depends on the GPU.
    """
    if not run.packed or own_attention(run) or _own_core(run) or run.maybe("model.flash_attention_version") in (3, 4):
        return None
    asked, left = list(_inputs(run)), _LEFT.get(backend or chosen_backend(run) or "auto")
    if not asked or left is None:
        return None
    failing = {place for place in available(run.release, asked[0]) if _fails(run, asked, left, place)}
    generations = run.generations
    held = {number: [place for place in failing if place.generation == number] for number in generations}
    all_cudnn = len(available(run.release, asked[0])) // len(GENERATIONS)
    always = tuple(number for number in generations if len(held[number]) == all_cudnn)
    sometimes = tuple(number for number in generations if 0 < len(held[number]) < all_cudnn)
    if not always and not sometimes:
        return None
    if always != generations and len(generations) > 1:  # nobody names the GPU: the usual ones are worth a word
        always, sometimes = (tuple(number for number in held if number in USUAL) for held in (always, sometimes))
        if 100 not in always and sometimes != USUAL:
            raise Unknown("gpu", ("gpu",), "which attention backends there are depends on the GPU")
    places = [place for number in (always or sometimes) for place in held[number]]
    return Answer(_cause(run, asked, left, places), always == generations, always, sometimes)


@shared
def chosen_backend(run: Run) -> str | None:
    """The name of the enum member in effect: as written, else the class's default; None for null, text and the unknown."""
    setting = run.settings.peek(BACKEND)
    if setting is None:
        return None
    value = setting.value
    if setting.origin is Origin.DEFAULT and isinstance(value, Opaque):
        return value.text.rpartition(".")[2].rstrip(">")
    if not isinstance(value, Object):
        return value if value == "local" and run.release >= R06 and "Hybrid" in (run.settings.class_at("model") or "") else None
    if value.call and value.name == ENUM and value.args:
        members = run.settings.schema.enums.get(ENUM, {})
        return next((name for name, number in members.items() if number == value.args[0]), None)
    target = str(value.target)
    return target.rpartition(".")[2] if f".{ENUM}." in target else None


@shared
def _own_core(run: Run) -> bool:
    """Whether the core attention is a module of the family's own."""
    recipe = run.settings.recipe
    return "Gemma2" in (run.settings.class_at("model") or "") or (recipe is not None and "gemma2" in str(recipe.module))


def _fails(run: Run, asked: list[Input], left: int, place: Place) -> bool:
    return all(not available(run.release, one)[place] & left for one in asked)


def _cause(run: Run, asked: list[Input], left: int, places: list[Place]) -> str:
    def mended(changed: list[Input], allowed: int) -> bool:
        return any(not _fails(run, changed, allowed, place) for place in places)

    plain = {"fp8": [one._replace(fp8="none") for one in asked], "softmax": [one._replace(softmax="vanilla") for one in asked]}
    for name, changed in plain.items():
        if changed != asked and mended(changed, left):
            return name
    if left != ANY and mended(asked, ANY):
        return "backend"
    narrow = [one._replace(width=128, values=128) for one in asked]
    if narrow != asked and mended(narrow, left):
        return "heads"
    if mended([one._replace(rows="thd") for one in asked], left):
        return "padding"
    return ""


def _inputs(run: Run) -> Iterator[Input]:
    """What the selection may be asked for; several where a size or the padding is not known."""
    window, softmax, latent = limits(run.maybe(WINDOW)), run.maybe(SOFTMAX, "vanilla"), run.maybe(MLA, False) is True
    if not isinstance(softmax, str):
        return
    fp8 = fp8_in_effect(run)
    kind = "none" if fp8 is None or not fp8.attention else _FP8.get(fp8.recipe or "delayed")
    if kind is None:
        return
    comm = "none"
    if cp_size(run) > 1:
        usable = usable_comm_types(run.release, True, window=window, softmax_offset=softmax != "vanilla", mla=latent)
        refused = [name for name in comm_types(run) if name not in usable]
        comm = "none" if refused else next(iter(comm_types(run)), "none")  # the rule about the type speaks of it
        if latent and run.release <= MLA_P2P_ONLY_UNTIL and comm == A2A:
            comm = "none"
    padded = pads_between(run)
    for rows in ("thd", "thd+padding") if padded is None else ("thd+padding",) if padded else ("thd",):
        for width, values in _heads(run, latent):
            yield Input(rows, comm, width, values, softmax, window, kind)


@shared
def pads_between(run: Run) -> bool | None:
    """Whether there is padding between the samples of a row; None where that cannot be told."""
    if run.mode is OFFLINE:
        multiple = pad_multiple(run)
        return multiple is not None and multiple > 1 and not forgets_multiple(run)
    if run.mode is GLOBAL_BATCH and run.release >= NIGHTLY and run.maybe(FOLD) is True:
        return False
    if run.mode is IN_BATCH and run.release < R06:
        return None
    return needed_multiple(run).value > 1


@shared
def _heads(run: Run, latent: bool) -> list[tuple[int, int]]:
    """Widths of a head; those of packed latent attention are padded to one from 0.5 on."""
    if latent:
        parts = [run.maybe(f"model.{name}") for name in ("qk_head_dim", "qk_pos_emb_head_dim", "v_head_dim")]
        if not all(isinstance(part, int) for part in parts):
            return []
        width, values = parts[0] + parts[1], parts[2]
        pair = (width, width) if run.release >= R05 else (width, values)
        return [pair] if known_heads(*pair) else []
    own = head_width(run)
    if own is None:
        return [(128, 128), (256, 256)]
    return [(own, own)] if known_heads(own, own) else []


@shared
def head_width(run: Run) -> int | None:
    """Elements of one attention head, None where neither file nor recipe tells."""
    try:
        width = count(run, "model.kv_channels")
        if width is not None:
            return width
        hidden, heads = count(run, "model.hidden_size"), count(run, "model.num_attention_heads")
    except Unknown:
        return None
    return hidden // heads if hidden and heads and heads > 0 else None
