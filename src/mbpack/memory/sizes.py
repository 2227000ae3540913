"""The shape of the model that a run trains: a public model's, with what the configuration says otherwise.

What a recipe's conversion of a public model was only inferred to set (`Setting.likely`) yields to the shape on record;
what the user wrote, and what the recipe's own code sets, does not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct, structs

from mbpack.config.run import Run
from mbpack.config.settings import ABSENT, Object, Origin, Setting
from mbpack.facts.schema import Opaque
from mbpack.facts.shapes import Shape, all_shapes, shape_of

#: Fields of a model configuration whose name and meaning a shape shares: whole numbers, and switches.
NUMBERS = (
    "num_layers hidden_size num_attention_heads num_query_groups kv_channels ffn_hidden_size vocab_size num_moe_experts "
    "moe_router_topk moe_ffn_hidden_size moe_shared_expert_intermediate_size moe_latent_size q_lora_rank kv_lora_rank qk_head_dim "
    "qk_pos_emb_head_dim v_head_dim mtp_num_layers mamba_num_heads mamba_head_dim mamba_num_groups mamba_state_dim "
    "linear_num_key_heads linear_num_value_heads linear_key_head_dim linear_value_head_dim"
).split()
SWITCHES = (
    "gated_linear_unit add_bias_linear add_qkv_bias qk_layernorm share_embeddings_and_output_weights multi_latent_attention "
    "attention_output_gate moe_shared_expert_gate"
).split()
#: Without these nothing can be counted.
_NEEDED = ("num_layers", "hidden_size", "num_attention_heads", "vocab_size")
#: Model families whose layers keep tensors that no formula here knows, by a part of their class or public name.
_NOT_MODELLED = (
    ("deepseek-v4", "DeepSeek-V4's sparse attention and hyper-connections"),
    ("wan", "diffusion models"),
    ("flux", "diffusion models"),
    ("dit", "diffusion models"),
    ("gemma-4", "Gemma 4's layers"),
    ("gemma4", "Gemma 4's layers"),
    ("minimax-m3", "MiniMax-M3's sparse attention"),
    ("minimaxm3", "MiniMax-M3's sparse attention"),
    ("step-3", "Step's layers"),
    ("step3", "Step's layers"),
)


class NotModelled(Exception):
    """No estimate is possible; the message says what is missing, and what would mend it."""


class Found(Struct, frozen=True):
    """A shape, the name it is known by, and the sizes that the configuration changed."""

    shape: Shape
    name: str
    changed: tuple[str, ...] = ()


def certain(setting: Setting | None) -> bool:
    """Whether a value was written by the user or set by the recipe's own code."""
    return setting is not None and setting.value is not ABSENT and setting.origin is not Origin.DEFAULT and not setting.likely


def find_shape(run: Run, own: Shape | None = None) -> Found:
    """The shape of a run's model; `own`: that of the user's config.json, in the place of a public model's.

    Raises:
        NotModelled: the model is not known, or its layers are none that are modelled.
    """
    recipe = run.settings.recipe
    hf_id = recipe.hf_id if recipe is not None else None
    cls = run.settings.class_at("model")
    _refuse(hf_id, cls)
    base = own or shape_of(hf_id, cls) or _by_tokenizer(run) or (_by_sizes(run) if hf_id is None else None)
    changes = dict(_changes(run, base))
    if base is None:
        shape = _from_values(changes, cls, hf_id)
        _check(shape)
        return Found(shape, hf_id or cls or "model")
    if own is not None:  # the file says what the model is; the recipe's sizes are those of another one
        changes = {name: value for name, value in changes.items() if _written(run, name)}
    changes = {name: value for name, value in changes.items() if getattr(base, name) != value}
    shape = structs.replace(base, **changes)
    _check(shape)
    return Found(shape, hf_id or base.name, tuple(changes))


#: Sizes that are counted with; beyond the last one no model has so many.
_LEAST_ONE = ("num_layers", "hidden_size", "num_attention_heads", "num_query_groups", "kv_channels", "vocab_size")
_LARGEST = 1 << 32


def _check(shape: Shape) -> None:
    """Refuse sizes that no model has.

    Raises:
        NotModelled: one of them is zero or beyond all measure, or experts have no width.
    """
    needed = list(_LEAST_ONE)
    if shape.num_moe_experts:
        needed += ["moe_ffn_hidden_size", "moe_router_topk"]
    if shape.multi_latent_attention:
        needed += ["kv_lora_rank", "qk_head_dim", "v_head_dim"]
    for name in (*needed, *NUMBERS):
        size = getattr(shape, name)
        if size > _LARGEST or (size < 1 and name in needed):
            raise NotModelled(f"model.{name} {size} is no size of a model")
    if shape.num_layers > _MOST_LAYERS or shape.mtp_num_layers > _MOST_LAYERS:
        raise NotModelled(f"model.num_layers {max(shape.num_layers, shape.mtp_num_layers)} is no size of a model")


_MOST_LAYERS = 2048  #: no model has more


def _written(run: Run, name: str) -> bool:
    return run.wrote(f"model.{name}")


def _refuse(hf_id: str | None, cls: str | None) -> None:
    for text in filter(None, (hf_id, cls)):
        for part, what in _NOT_MODELLED:
            if text.lower().split("/")[-1].startswith(part) or (part in text.lower() and part not in ("wan", "dit", "step3")):
                raise NotModelled(f"{text}: not modelled: {what}")


def _by_tokenizer(run: Run) -> Shape | None:
    """The public model that the tokenizer belongs to, when the sizes that are known are its own."""
    found = shape_of(_text(run.maybe("tokenizer.tokenizer_model")))
    if found is None:
        return None
    same = (run.maybe(f"model.{name}") == getattr(found, name) for name in ("num_layers", "hidden_size"))
    return found if all(same) else None


def _by_sizes(run: Run) -> Shape | None:
    """The one public model with the sizes that a recipe sets itself."""
    names = ("num_layers", "hidden_size", "num_attention_heads", "ffn_hidden_size")
    sizes = [run.maybe(f"model.{name}") for name in names]
    if None in sizes[:3]:
        return None
    same = [
        shape
        for shape in all_shapes()
        if all(size is None or getattr(shape, name) == size for name, size in zip(names, sizes, strict=True))
    ]
    return same[0] if len({(shape.vocab_size, shape.ffn_hidden_size) for shape in same}) == 1 else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _changes(run: Run, base: Shape | None) -> list[tuple[str, Any]]:
    """(field, value) of everything the configuration says for certain; without a base, of everything it says."""
    found: list[tuple[str, Any]] = []
    recipe = run.settings.recipe
    converted = recipe is not None and recipe.hf_id is not None  # its sizes are the public model's, which is not on record

    def take(name: str, key: str, convert: Callable[[Any], Any]) -> None:
        setting = run.settings.peek(f"model.{key}")
        if setting is None or setting.value is ABSENT or isinstance(setting.value, Object):
            return
        if not certain(setting) and (base is not None or converted or setting.likely):
            return
        value = convert(setting.value)
        if value is not None:
            found.append((name, value))

    for name in NUMBERS:
        take(name, name, _whole)
    for name in SWITCHES:
        take(name, name, lambda value: bool(value) if value is not None else None)
    if base is None and not converted and isinstance(run.maybe("tokenizer.vocab_size"), int):
        found.append(("vocab_size", run.maybe("tokenizer.vocab_size")))
    take("normalization", "normalization", _text)
    take("activation", "activation_func", _activation)
    if base is not None and not base.mtp_num_layers:  # depths of their own that a shape on record does not have
        for name, key in (("mtp_num_layers", "mtp_num_layers"), ("mtp_pattern", "mtp_hybrid_override_pattern")):
            value = run.maybe(f"model.{key}")
            value = _whole(value) if name == "mtp_num_layers" else _text(value)
            if value:
                found.append((name, value))
        found.append(("mtp_shared", run.maybe("model.mtp_use_repeated_layer") is True))
    take("mtp_shared", "mtp_use_repeated_layer", lambda value: bool(value) if value is not None else None)
    take("mtp_pattern", "mtp_hybrid_override_pattern", _text)
    take("moe_layer_freq", "moe_layer_freq", lambda value: _frequency(value, run))
    for key in ("hybrid_override_pattern", "hybrid_layer_pattern"):
        take("hybrid_layer_pattern", key, _text)
    return _settled(found, base)


def _settled(found: list[tuple[str, Any]], base: Shape | None) -> list[tuple[str, Any]]:
    """Values that go together: a new pattern sets the number of layers, a zero count of experts takes the rest along."""
    values = dict(found)
    pattern = values.get("hybrid_layer_pattern")
    if pattern:
        main, _, depth = pattern.partition("/")
        values["hybrid_layer_pattern"] = main
        if depth:
            values.setdefault("mtp_pattern", depth.partition("/")[0])
            values.setdefault("mtp_num_layers", depth.count("/") + 1)
    if base is not None and base.moe_layer_freq == () and "moe_layer_freq" in values:
        values["dense_first"] = 0
    return list(values.items())


def _whole(value: Any) -> int | None:
    if value is None:
        return None
    return value if value.__class__ is int and value >= 0 else None


def _activation(value: Any) -> str | None:
    text = value.text.strip("<>").split()[-1] if isinstance(value, Opaque) else value
    if not isinstance(text, str):
        return None
    name = text.rpartition(".")[2]
    return {"fast_gelu": "gelu", "openai_gelu": "gelu", "swiglu": "silu"}.get(name, name)


def _frequency(value: Any, run: Run) -> tuple[int, ...] | None:
    """`moe_layer_freq` as one number a layer: a list, an expression such as "[0]*3+[1]*58", or every n-th layer."""
    layers = run.maybe("model.num_layers")
    if isinstance(value, list) and all(item in (0, 1) for item in value):
        return tuple(int(item) for item in value)
    if value.__class__ is int and value > 0 and layers.__class__ is int and 0 < layers < 10_000:
        return () if value == 1 else tuple(int(index % value == 0) for index in range(layers))
    if isinstance(value, str):
        from re import findall, fullmatch

        plain = value.replace(" ", "").strip("()")
        if fullmatch(r"\[[01]\](\*\d{1,4})?(\+\[[01]\](\*\d{1,4})?)*", plain):
            return tuple(int(digit) for digit, times in findall(r"\[([01])\](?:\*(\d+))?", plain) for _ in range(int(times or 1)))
    return None


def _from_values(values: Mapping[str, Any], cls: str | None, hf_id: str | None) -> Shape:
    missing = [name for name in _NEEDED if not values.get(name)]
    if missing:
        who = hf_id or cls or "the model"
        raise NotModelled(
            f"the shape of {who} is not known ({', '.join(f'model.{name}' for name in missing)} missing): "
            "name a recipe, or give its config.json with --hf-config"
        )
    full = dict(values)
    heads, hidden = full["num_attention_heads"], full["hidden_size"]
    if not full.get("num_query_groups"):
        full["num_query_groups"] = heads
    if not full.get("kv_channels"):
        full["kv_channels"] = hidden // heads
    if not full.get("ffn_hidden_size"):
        full["ffn_hidden_size"] = 4 * hidden
    if full.get("num_moe_experts") and not full.get("moe_ffn_hidden_size"):
        full["moe_ffn_hidden_size"] = full["ffn_hidden_size"]
    return Shape(name=hf_id or cls or "model", **full)
