"""From a configuration to a :class:`~mbpack.memory.setup.Setup`: what is read, what is assumed, and what is open.

A key that nobody gave, in a recipe of which not everything is known, is unknown and not false: it gets a stated assumption
and widens the range.
"""

from __future__ import annotations

import math
from typing import Any

from msgspec import Struct, field, structs

from mbpack.config.precision import applied, fp8_in_effect
from mbpack.config.run import Run
from mbpack.config.settings import ABSENT, Object, Origin, Unknown, WrongKind
from mbpack.facts import recipes
from mbpack.facts.recipes import Recipe
from mbpack.facts.releases import R07
from mbpack.facts.schema import Opaque
from mbpack.facts.shapes import Shape
from mbpack.facts.stage_layout import DECODER, MTP, TooLong, parse
from mbpack.memory.layers import layer_kinds
from mbpack.memory.setup import Attention, Entropy, Lora, Recompute, Setup
from mbpack.memory.sizes import Found, NotModelled, find_shape

_BYTES = {"float32": 4, "fp32": 4, "bfloat16": 2, "bf16": 2, "float16": 2, "fp16": 2, "uint8": 1, "fp8": 1}
#: Modules under the names of adapters that train parts of a fused weight one by one.
_CANONICAL = {
    "linear_q": "linear_qkv",
    "linear_k": "linear_qkv",
    "linear_v": "linear_qkv",
    "linear_fc1_up": "linear_fc1",
    "linear_fc1_gate": "linear_fc1",
}
_UNKNOWN = object()
#: GPUs that no run has, and stages a layer that no pipeline has (standalone embeddings and losses have stages of their own).
_MOST_GPUS, _MOST_STAGES = 1_000_000, 2
_DEFAULT_TARGETS = ("linear_qkv", "linear_proj", "linear_fc1", "linear_fc2")


class Described(Struct, frozen=True):
    """A set-up with where it comes from.

    `assumed`: one line for each value that nobody gave. `unsure`: reasons why the range is wider than that of runs that were
    recorded. `notes`: what is true of the figures, such as an encoder on top.
    """

    setup: Setup
    model: Found
    assumed: tuple[str, ...] = ()
    unsure: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class _Reader(Struct):
    """Reads settings with assumptions; `older`: the recipe of the same name in a release of which everything is on record."""

    run: Run
    older: Recipe | None = None
    assumed: list[str] = field(default_factory=list)

    def get(self, key: str, otherwise: Any, what: str | None = None) -> Any:
        """The value of a key; what is unknown is assumed, and said when `what` names it."""
        value = self.known(key)
        if value is _UNKNOWN:
            if what is not None:
                self.assumed.append(f"{key} is not known: {what} assumed")
            return otherwise
        return otherwise if value is ABSENT or isinstance(value, (Object, dict)) else value

    def known(self, key: str) -> Any:
        """The value of a key, ABSENT, or that it is unknown: a default where a recipe is not on record in full is no value."""
        recipe = self.run.settings.recipe
        try:
            setting = self.run.setting(key)
        except Unknown:
            return _UNKNOWN
        if setting.origin is Origin.DEFAULT and recipe is not None and not recipe.complete:
            return _UNKNOWN if self.older is None else self.older.value(key)
        return setting.value

    def size(self, name: str) -> int:
        """A parallel size of the run; without a recipe one that nobody wrote is 1, as in every class.

        Raises:
            WrongKind: text stands in the place of a number.
        """
        try:
            value = getattr(self.run, name)
        except Unknown as unknown:
            self.assumed.append(f"{unknown.key} is not known: 1 assumed")
            return 1
        return 1 if value is None else int(value)

    def precision(self, section: str, name: str) -> Any:
        """A field of the mixed-precision setting as it will be in effect, None where it is unknown."""
        held = self.known("mixed_precision")
        if isinstance(held, Object):
            value = self.known(f"mixed_precision.{name}")
        elif isinstance(held, str):
            return applied(self.run, section, name)
        else:
            value = self.known(f"{section}.{name}")
        return None if value is _UNKNOWN or value is ABSENT else value

    def number(self, key: str, otherwise: int) -> int:
        value = self.get(key, otherwise)
        return value if value.__class__ is int and value > 0 else otherwise

    def flag(self, key: str, otherwise: bool = False, what: str | None = None) -> bool:
        return bool(self.get(key, otherwise, what))

    def width(self, key: str, otherwise: int) -> int:
        """Bytes of a number format by the name of its type."""
        value = self.get(key, None)
        text = value.text if isinstance(value, Opaque) else str(value)
        return _BYTES.get(text.strip("<>").split(" ")[-1].rpartition(".")[2], otherwise)


def describe(run: Run, gpus: int | None = None, length: int | None = None, own: Shape | None = None) -> Described:
    """The set-up of a configuration.

    `gpus`, `length`: instead of the configuration's. `own`: a shape from a model's config.json.

    Raises:
        NotModelled: the model's shape or an essential size is not known, or the GPUs do not hold the topology.
    """
    found = find_shape(run, own)
    recipe = run.settings.recipe
    reader = _Reader(run, None if recipe is None or recipe.complete else recipes.find("0.6", recipe.name))
    sizes = _topology(reader, gpus, found.shape)
    setup = Setup(found.shape, **sizes)
    setup = structs.replace(setup, **_batch(reader, setup, length), **_stages(reader, setup))
    setup = structs.replace(setup, **_recompute(reader), **_optimizer(reader), **_kernels(reader), **_router(reader))
    setup = structs.replace(setup, lora=_lora(reader), padded_vocab=_vocabulary(reader, setup))
    return Described(setup, found, tuple(reader.assumed), tuple(_unsure(reader, setup)), tuple(_notes(setup)))


def _topology(reader: _Reader, gpus: int | None, shape: Shape) -> dict[str, Any]:
    run = reader.run
    try:
        sizes = {name: reader.size(name) for name in ("tp", "pp", "cp", "ep")}
        sizes["etp"] = reader.size("etp") if shape.num_moe_experts else 1
        vpp = reader.size("vpp")
    except WrongKind as wrong:
        raise NotModelled(f"{wrong.setting.key} is no whole number") from None
    if min(*sizes.values(), vpp) < 1:
        raise NotModelled("a parallel size below 1 has no memory to estimate; `mbpack doctor` says more")
    if max(*sizes.values(), vpp) > _MOST_GPUS or sizes["pp"] * vpp > max(1, len(layer_kinds(shape))) * _MOST_STAGES:
        raise NotModelled("more ranks or pipeline stages than any run has; `mbpack doctor` says more")
    smallest = math.lcm(sizes["tp"] * sizes["pp"] * sizes["cp"], sizes["pp"] * sizes["ep"] * sizes["etp"])
    stated = gpus or run.context.gpus or (run.settings.recipe.gpus if run.settings.recipe is not None else None)
    if stated is None:
        reader.assumed.append(f"GPUs are not given: {smallest}, the smallest number that holds the topology, assumed")
        stated = smallest
    elif stated % smallest:
        if gpus or run.context.gpus:
            raise NotModelled(f"{stated} GPUs are no multiple of {smallest}, which this topology needs")
        reader.assumed.append(f"the recipe's name says {stated} GPUs, which its topology does not divide: {smallest} assumed")
        stated = smallest
    major, _, minor = run.release.name.partition(".") if run.release.name != "nightly" else ("0", ".", "7")
    release = (int(major), int(minor))
    return {
        **sizes,
        "vpp": vpp,
        "gpus": stated,
        "sp": reader.flag("model.sequence_parallel"),
        "release": release,
        "te": (2, 18) if run.release >= R07 else (2, 17),
    }


def _batch(reader: _Reader, setup: Setup, length: int | None) -> dict[str, Any]:
    run = reader.run
    if length is None:
        length = _length(run)
    if length is None:
        raise NotModelled("the length of a row is not known: give it with --seq-length")
    mbs = reader.number("train.micro_batch_size", 1)
    batch = reader.get("train.global_batch_size", None)
    rows = mbs * setup.dp
    microbatches = max(1, batch // rows) if batch.__class__ is int and batch > 0 else 4 * setup.pp
    return {"length": length, "mbs": mbs, "microbatches": microbatches}


def _length(run: Run) -> int | None:
    """Tokens a row: the pack size when packed offline, the dataset's, else the model's sequence length."""
    for key in ("", "dataset.seq_length", "model.seq_length"):
        try:
            value = run.number(key) if key else run.width
        except (Unknown, WrongKind):
            continue
        if value.__class__ is int and value > 0:
            return int(value)
    return None


def _stages(reader: _Reader, setup: Setup) -> dict[str, Any]:
    """Layers of every virtual stage where the split is not even."""
    layout = reader.get("model.pipeline_model_parallel_layout", None)
    total, layers = setup.pp * setup.vpp, len(layer_kinds(setup.shape))
    if layout:
        try:
            parts = parse(layout) if isinstance(layout, str) else layout
            counts = tuple(sum(name == DECODER for name in part) for part in parts)
            depths = [index for index, part in enumerate(parts) if MTP in part]
        except (TooLong, KeyError, TypeError):
            counts, depths = (), []
        if counts and len(counts) % setup.pp == 0 and sum(counts) == layers:
            return {"stages": counts, "vpp": len(counts) // setup.pp, "mtp_stage": depths[0] if depths else None}
        reader.assumed.append("model.pipeline_model_parallel_layout is not one this topology can have: an even split assumed")
    first = reader.get("model.num_layers_in_first_pipeline_stage", None)
    last = reader.get("model.num_layers_in_last_pipeline_stage", None)
    embedding = reader.flag("model.account_for_embedding_in_pipeline_split")
    loss = reader.flag("model.account_for_loss_in_pipeline_split")
    if setup.pp == 1 or not (first or last or embedding or loss):
        return {}
    if embedding or loss:
        each = (layers + embedding + loss) // total
        counts = tuple(each - (embedding and index == 0) - (loss and index == total - 1) for index in range(total))
    else:
        counts = _uneven(layers, setup, first, last)
    return {"stages": counts} if sum(counts) == layers and min(counts) >= 0 else {}


def _uneven(layers: int, setup: Setup, first: Any, last: Any) -> tuple[int, ...]:
    ends = [count if count.__class__ is int else None for count in (first, last)]
    rest = setup.pp - sum(count is not None for count in ends)
    middle = (layers - sum(count or 0 for count in ends)) // rest if rest else 0
    ranks = [middle] * setup.pp
    if ends[0] is not None:
        ranks[0] = ends[0]
    if ends[1] is not None:
        ranks[-1] = ends[1]
    return tuple(ranks[index % setup.pp] // setup.vpp for index in range(setup.pp * setup.vpp))


def _recompute(reader: _Reader) -> dict[str, Any]:
    granularity = reader.get("model.recompute_granularity", None, "no recompute")
    method = reader.get("model.recompute_method", None)
    number = reader.get("model.recompute_num_layers", None)
    if granularity == "full":
        kind = Recompute.BLOCK if method == "block" else Recompute.UNIFORM
        return {"recompute": kind, "recompute_layers": number if number.__class__ is int and number > 0 else 1}
    if granularity == "selective":
        modules = reader.get("model.recompute_modules", None)
        named = modules if isinstance(modules, list) and modules else ["core_attn"]
        return {"recompute": Recompute.SELECTIVE, "modules": frozenset(name for name in named if isinstance(name, str))}
    return {}


def _optimizer(reader: _Reader) -> dict[str, Any]:
    sharded = reader.flag("optimizer.use_distributed_optimizer") or reader.flag(
        "ddp.use_distributed_optimizer", True, "the distributed optimizer"
    )
    fp32 = reader.precision("ddp", "grad_reduce_in_fp32")
    if fp32 is None:
        reader.assumed.append("ddp.grad_reduce_in_fp32 is not known: gradients in FP32 assumed")
        fp32 = True
    aware = reader.flag("optimizer.use_precision_aware_optimizer")
    moments, master = 8, 4
    if aware:
        moments = reader.width("optimizer.exp_avg_dtype", 4) + reader.width("optimizer.exp_avg_sq_dtype", 4)
        master = reader.width("optimizer.main_params_dtype", 4)
    offload = 0.0
    if reader.flag("optimizer.optimizer_cpu_offload"):
        share = reader.get("optimizer.optimizer_offload_fraction", 1.0)
        offload = float(min(1, max(0, share))) if isinstance(share, (int, float)) else 1.0
    return {
        "sharded": sharded,
        "optimizer_instances": reader.number("ddp.num_distributed_optimizer_instances", 1),
        "grad_bytes": 4 if fp32 else 2,
        "precision_aware": aware,
        "moment_bytes": moments,
        "master_bytes": master,
        "offload": offload,
        "fsdp": reader.flag("ddp.use_megatron_fsdp") or reader.flag("dist.use_megatron_fsdp"),
        **_fp8(reader),
    }


def _fp8(reader: _Reader) -> dict[str, Any]:
    try:
        fp8 = fp8_in_effect(reader.run)
    except (Unknown, WrongKind):
        reader.assumed.append("the number format is not known: BF16 assumed")
        return {}
    return {"fp8": fp8 is not None, "fp8_params": fp8 is not None and bool(reader.precision("model", "fp8_param"))}


def _name(value: Any) -> str:
    """The last word of an enumeration's text or of a plain value."""
    text = value.text.strip("<>").split()[-1] if isinstance(value, Opaque) else str(value)
    return text.rpartition(".")[2].lower()


def _kernels(reader: _Reader) -> dict[str, Any]:
    fused = reader.flag("model.cross_entropy_loss_fusion", True, "the fused loss")
    kind = _name(reader.get("model.cross_entropy_fusion_impl", "native"))
    backend = _name(reader.get("model.attention_backend", None))
    return {
        "entropy": Entropy.UNFUSED if not fused else Entropy.TE if kind == "te" else Entropy.FUSED,
        "attention": Attention.UNFUSED if backend in ("unfused", "local") else Attention.FLASH,
        "activation_fused": reader.flag("model.bias_activation_fusion", False, "an unfused activation"),
        "squared_relu_fused": reader.flag("model.use_fused_weighted_squared_relu"),
        "rope_fused": reader.flag("model.apply_rope_fusion"),
        "dropout": _positive(reader.get("model.hidden_dropout", 0)),
        "attention_dropout": _positive(reader.get("model.attention_dropout", 0)),
        "graphs": _graphs(reader),
        "deferred_head": _deferred(reader),
    }


def _deferred(reader: _Reader) -> int | None:
    """Microbatches whose gradient of the output layer is put off, 0 for all of them, None where none is."""
    for section in ("comm_overlap", "model"):
        if reader.flag(f"{section}.defer_embedding_wgrad_compute"):
            limit = reader.get(f"{section}.wgrad_deferral_limit", 0)
            return limit if limit.__class__ is int and limit > 0 else 0
    return None


def _positive(value: Any) -> bool:
    return isinstance(value, (int, float)) and value > 0


def _graphs(reader: _Reader) -> bool:
    impl = _name(reader.get("model.cuda_graph_impl", "none"))
    return impl not in ("none", "") or reader.flag("model.enable_cuda_graph") or reader.flag("model.external_cuda_graph")


def _router(reader: _Reader) -> dict[str, Any]:
    kinds = reader.get("model.moe_router_load_balancing_type", "")
    kind = kinds[0] if isinstance(kinds, list) and kinds else kinds
    weight = reader.get("model.moe_aux_loss_coeff", 0)
    weight = (
        max((value for value in weight if isinstance(value, (int, float))), default=0) if isinstance(weight, list) else weight
    )
    balanced = kind in ("aux_loss", "seq_aux_loss", "global_aux_loss") and _positive(weight)
    return {
        "router_fp32": _name(reader.get("model.moe_router_dtype", None)) in ("fp32", "fp64"),
        "router_pre_softmax": reader.flag("model.moe_router_pre_softmax"),
        "router_sigmoid": _name(reader.get("model.moe_router_score_function", "softmax")) == "sigmoid",
        "aux_loss": kind if balanced else "",
        "router_z_loss": _positive(reader.get("model.moe_z_loss_coeff", None)),
        "router_groups": reader.number("model.moe_router_num_groups", 0),
        "router_group_topk": reader.number("model.moe_router_group_topk", 0),
        "allgather": _name(reader.get("model.moe_token_dispatcher_type", "alltoall")) == "allgather",
        "shared_overlap": reader.flag("model.moe_shared_expert_overlap"),
        "expert_overlap": reader.flag("model.overlap_moe_expert_parallel_comm")
        or reader.flag("comm_overlap.overlap_moe_expert_parallel_comm"),
        "forced_balance": reader.flag("model.moe_router_force_load_balancing"),
        "grouped_gemm": reader.flag("model.moe_grouped_gemm", True),
    }


def _lora(reader: _Reader) -> Lora | None:
    try:
        setting = reader.run.setting("peft")
    except Unknown:
        reader.assumed.append("whether an adapter is trained is not known: full training assumed")
        return None
    if not isinstance(setting.value, Object):
        return None
    targets = reader.get("peft.target_modules", None)
    named = targets if isinstance(targets, list) and targets else list(_DEFAULT_TARGETS)
    plain = {str(name).rpartition(".")[2] for name in named}
    return Lora(
        dim=reader.number("peft.dim", 32),
        targets=frozenset(_CANONICAL.get(name, name) for name in plain),
        regather=reader.flag("peft.sequence_parallel_input_regather"),
        dropout=_positive(reader.get("peft.dropout", 0)),
    )


def _vocabulary(reader: _Reader, setup: Setup) -> int:
    if not reader.flag("model.should_pad_vocab"):
        return 0
    multiple = reader.number("model.make_vocab_size_divisible_by", 128) * setup.tp
    return -(-setup.shape.vocab_size // multiple) * multiple


def _unsure(reader: _Reader, setup: Setup) -> list[str]:
    shape, found = setup.shape, []
    if shape.num_moe_experts and setup.ep > 1 and not setup.forced_balance:
        found.append("routing: one rank may get more tokens than the others")
    if setup.fp8:
        found.append("FP8: few runs are on record")
    if setup.graphs:
        found.append("CUDA graphs keep pools of their own")
    if setup.fsdp:
        found.append("Megatron-FSDP is not modelled: counted like the distributed optimizer")
    if shape.linear_attention_freq or "G" in shape.hybrid_layer_pattern:
        found.append("the gated delta net's rows were compared with one recorded model alone")
    if shape.encoder is not None:
        found.append("the encoder is not modelled: its states count in the high end alone")
    if reader.assumed:
        found.append("values that nobody gave are assumed")
    return found


def _notes(setup: Setup) -> list[str]:
    shape, found = setup.shape, []
    if shape.encoder is not None:
        size = f" (about {shape.encoder / 1e9:.2f} B parameters)" if shape.encoder else ""
        found.append(f"the encoder{size} beside the text model is not modelled")
    if shape.not_modelled:
        found.append(f"{shape.not_modelled} is not modelled")
    return found
