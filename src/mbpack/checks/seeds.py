"""What a configuration writes that its start-up may stumble over: where looking at the tables begins.

Most files write the same few sizes, and for everything that a start-up asks of those there are rules with words. The tables are
looked at from the other keys on, and from every value of an unusual kind.
"""

from __future__ import annotations

from math import isfinite
from typing import Any, NamedTuple

from mbpack.checks.values import OPEN, Values, canonical
from mbpack.config.document import MISSING, Interpolation, Item
from mbpack.config.object_classes import walk
from mbpack.config.run import Run
from mbpack.facts.checks import Checks
from mbpack.facts.schema import Field

#: The part of a model that holds Megatron-Core's settings; they count as the model's own.
NESTED = "transformer"
#: Sections that every configuration has.
_ALWAYS = frozenset(
    "model dataset train optimizer scheduler ddp checkpoint logger tokenizer rng dist validation env_vars".split()
)
#: Keys whose every check has a rule of its own.
_SPOKEN_FOR = frozenset(
    """
    model.seq_length model.tensor_model_parallel_size model.pipeline_model_parallel_size model.context_parallel_size
    model.expert_model_parallel_size model.sequence_parallel model.num_layers model.hidden_size model.num_attention_heads
    model.num_query_groups model.pipeline_dtype model.params_dtype model.bf16 model.apply_rope_fusion
    model.gradient_accumulation_fusion model.calculate_per_token_loss model.cp_comm_type model.cuda_graph_impl model.use_te_rng_tracker model.add_bias_linear
    model.num_moe_experts model.moe_token_dispatcher_type model.gated_linear_unit
    model.vocab_size model.deterministic_mode model.cross_entropy_loss_fusion
    dataset.seq_length dataset.dataset_root dataset.num_workers dataset.path dataset.random_seed
    dataset.reset_position_ids dataset.reset_attention_mask dataset.eod_mask_loss dataset.micro_batch_size dataset.data_path
    dataset.enable_in_batch_packing dataset.pack_sequences_in_batch dataset.enable_offline_packing dataset.do_validation
    dataset.pad_to_max_length
    train.global_batch_size train.micro_batch_size train.train_iters train.eval_iters train.eval_interval
    optimizer.lr optimizer.use_distributed_optimizer scheduler.lr_warmup_iters scheduler.lr_decay_style scheduler.lr_decay_iters
    ddp.average_in_collective ddp.use_distributed_optimizer ddp.overlap_grad_reduce ddp.use_megatron_fsdp
    ddp.data_parallel_sharding_strategy dist.use_megatron_fsdp validation.eval_iters validation.eval_interval
    validation.eval_global_batch_size validation.eval_micro_batch_size checkpoint.save checkpoint.save_interval
    checkpoint.ckpt_format checkpoint.pretrained_checkpoint logger.log_interval rng.te_rng_tracker
    rerun_state_machine.check_for_nan_in_loss mixed_precision peft peft.dim model.virtual_pipeline_model_parallel_size
    model.hidden_dropout model.attention_dropout comm_overlap.tp_comm_overlap model.hierarchical_context_parallel_sizes
    model.hybrid_override_pattern model.hybrid_layer_pattern train.train_samples
    """.split()
)
#: Those of them that files on recipes hardly ever give, the shape of the model, or for which an entry of words speaks: written over a
#: recipe, one of them is enough for a check of that entry to hold.
_COMPLETE_ONLY = frozenset(
    """
    model.num_layers model.hidden_size model.num_attention_heads model.num_query_groups model.add_bias_linear
    model.num_moe_experts model.moe_token_dispatcher_type model.expert_model_parallel_size
    model.gated_linear_unit model.cp_comm_type model.attention_dropout model.gradient_accumulation_fusion
    model.virtual_pipeline_model_parallel_size model.cuda_graph_impl model.apply_rope_fusion model.deterministic_mode
    dataset.num_workers dataset.reset_position_ids dataset.reset_attention_mask dataset.eod_mask_loss
    ddp.use_distributed_optimizer ddp.use_megatron_fsdp dist.use_megatron_fsdp optimizer.use_distributed_optimizer
    mixed_precision
    """.split()
)
_SPOKEN_BELOW = ("dataset.offline_packing_specs", "dataset.packed_sequence_specs", "dataset.dataset_kwargs", "peft", "env_vars")


#: Where looked-up paths lie among what is kept for a table, and how many are.
_ASKED, _MOST_KNOWN = "asked for", 10_000


class Seeds(NamedTuple):
    """The keys that looking begins at, and those of them that hold a value of an unusual kind."""

    touched: set[str]
    odd: set[str]
    #: The keys that the tables read, as their blocks name them.
    asked: frozenset[str]
    #: What else decides which blocks run: the classes that are named and the sections that are null.
    named: list[str]
    #: Paths that were looked up among the keys that the tables read; shared by all files.
    known: dict[str, bool]


def seeds(run: Run, values: Values, table: Checks) -> Seeds:
    """Where looking at the tables begins for a run; nothing where rules say all there is to say."""
    found = _nothing(table)
    for layer in run.settings.layers:
        _collect(run, values, layer.root, "", found)
    return found


def _nothing(table: Checks) -> Seeds:
    known: dict[str, bool] = table.memo.setdefault(_ASKED, {})
    if len(known) > _MOST_KNOWN:
        known.clear()
    return Seeds(set(), set(), table.asked, [], known)


def begins_at(run: Run, table: Checks, path: tuple[str, ...]) -> bool:
    """Whether looking at the tables would begin at one path of a configuration, or at a section that holds it."""
    names = tuple(name for depth, name in enumerate(path) if (depth, name) != (1, NESTED))
    if not run.settings.complete and any(
        whole not in _ALWAYS and not whole.startswith(_SPOKEN_BELOW)
        for whole in (".".join(names[:depth]) for depth in range(1, len(names)))
    ):
        return True
    found, values = _nothing(table), Values(run)
    for layer in run.settings.layers:
        item = walk(layer.root, path)
        if item is not None:
            _collect(run, values, item, ".".join(names), found)
    return bool(found.touched)


def _collect(run: Run, values: Values, item: Item, path: str, found: Seeds) -> None:
    children = item.value
    if children.__class__ is not dict:
        if path not in found.touched and path != "_target_":
            _leaf(run, values, item, path, found)
        return
    if path and path not in _ALWAYS and not path.startswith(_SPOKEN_BELOW) and not run.settings.complete:
        found.touched.add(path)
    asked = run.settings.complete and path.count(".") == 1 and _is_asked(path, found.asked, found.known)
    if asked and _holds_one(run, values, path):
        found.touched.add(path)
        found.odd.add(path)
    for name, child in children.items():
        if name.__class__ is not str:
            continue
        if name == NESTED and path == "model":
            _collect(run, values, child, path, found)
        else:
            _collect(run, values, child, f"{path}.{name}" if path else name, found)


def _leaf(run: Run, values: Values, item: Item, path: str, found: Seeds) -> None:
    complete = run.settings.complete
    held, spoken = item.value, is_spoken_for(path, complete)
    if spoken and (held is True or held is False or (held.__class__ is int and held > 0)):
        return
    owner, _, name = path.rpartition(".")
    if name == "_target_" or (held is None and not owner):
        found.named.append(f"{path} {held}")
    if held is MISSING or not _is_asked(path, found.asked, found.known):
        return
    field = _field(run, values, owner, name)
    if field is not None:
        default = _below(run, path, field)
        if held.__class__ is default.__class__ and held == default and (complete or held is not None):
            return
        if (held is None and not complete) or _is_odd(values, path, item, field):
            found.touched.add(path)
            found.odd.add(path)
            return
        if held.__class__ is str and held.startswith("torch.") and values.read(path) == values.default(default):
            return
    if not spoken and not path.startswith(_SPOKEN_BELOW) and (field is not None or values.class_of(owner) is None):
        found.touched.add(path)


def is_spoken_for(path: str, complete: bool) -> bool:
    """Whether looking does not begin at a key with a usual value: all that it may bring about has a rule of its own."""
    return path in _SPOKEN_FOR and (complete or path not in _COMPLETE_ONLY)


def _holds_one(run: Run, values: Values, path: str) -> bool:
    """Whether a field holds a number or a text by its class, where a mapping is written."""
    owner, _, name = path.rpartition(".")
    field = _field(run, values, owner, name)
    return field is not None and field.default.__class__ in (bool, int, float, str)


def _is_asked(path: str, asked: frozenset[str], known: dict[str, bool]) -> bool:
    """Whether some block asks for a key: by its whole path, or by what comes behind the object that the block is about."""
    found = known.get(path)
    if found is None:
        rest = path
        while rest and rest not in asked:
            rest = rest.partition(".")[2]
        found = known[path] = bool(rest)
    return found


def _field(run: Run, values: Values, owner: str, name: str) -> Field | None:
    schema = run.settings.schema
    cls = values.class_of(owner)
    if cls is None:
        return schema.sections.get(name) if not owner else None
    found = (schema.fields(cls) or {}).get(name)
    inner = schema.transformer_class(cls)
    return found if found is not None or inner is None else (schema.fields(inner) or {}).get(name)


def _below(run: Run, path: str, field: Field) -> Any:
    """What stands under a key when nothing is written: the recipe's value, else that of the class."""
    recipe = run.settings.recipe
    if recipe is None:
        return field.default
    key = canonical(run.release, path)
    found = recipe.values.get(key, recipe.values.get(key.replace("model.", "model.transformer.", 1), _NONE))
    return field.default if found is _NONE else found


_NONE: Any = object()
_KINDS: dict[type, tuple[str, ...]] = {
    bool: ("bool",),
    int: ("int", "float"),
    float: ("float",),
    str: ("str",),
    list: ("list", "tuple"),
    dict: ("dict",),
    type(None): ("null",),
}
_SIMPLE = frozenset(kind for kinds in _KINDS.values() for kind in kinds)
#: Sizes that may be zero.
_MAY_BE_ZERO = ("num_workers", "eval_iters", "lr_warmup_iters", "lr_warmup_samples")


def _is_odd(values: Values, path: str, item: Item, field: Field) -> bool:
    """Whether a value is of another kind than its field, or no size although the field is one."""
    held: Any = item.value
    if isinstance(held, Interpolation):
        held = values.read(path)
        if held is OPEN:
            return False
    if held.__class__ not in _KINDS:
        return False
    default = field.default
    if held.__class__ is int and held <= 0 and (default is None or (default.__class__ is int and default > 0)):
        return held < 0 or not path.endswith(_MAY_BE_ZERO)
    if held.__class__ is float and not isfinite(held):
        return True
    kinds = [kind.strip().partition("[")[0] for kind in field.type.split("|")]
    return _SIMPLE.issuperset(kinds) and not any(kind in _KINDS[held.__class__] for kind in kinds)
