"""What the model refuses of activation functions, fused kernels, FP8 and FP4 fields, sizes of null; arguments of the tokenizer."""

from __future__ import annotations

from ..draft import Draft
from .registry import pick, violation

_MIXED = "megatron.bridge.training.mixed_precision.MixedPrecisionConfig"


def _some(d: Draft, choices: dict[str, tuple[object, ...]], least: int, most: int) -> dict[str, object]:
    """A few of the keys, each with one of its values."""
    keys = d.rng.sample(sorted(choices), d.rng.randint(least, most))
    return {key: pick(d, *choices[key]) for key in keys}


@violation()
def activation(d: Draft) -> None:
    known = ("silu", "gelu", "relu", "quick_gelu", "squared_relu", "tanh")
    choices = {
        "activation_func": (*known, "swiglu", None),
        "gated_linear_unit": (True, False),
        "bias_activation_fusion": (True, True, False),
        "add_bias_linear": (True, False),
        "glu_linear_offset": (0.0, 1.0, 0),
        "use_te_activation_func": (True, False),
        "activation_func_fp8_input_store": (True, False),
        "normalization": ("RMSNorm", "LayerNorm"),
        "fused_residual_rmsnorm": (True, False),
    }
    lacking = () if d.names.release != "0.3" else ("fused_residual_rmsnorm",)
    d.model.update(_some(d, {key: values for key, values in choices.items() if key not in lacking}, 1, 4))


@violation()
def number_formats(d: Draft) -> None:
    shared = {
        "fp8": ("hybrid", "e4m3", "hybrid", None),
        "fp8_recipe": ("delayed", "tensorwise", "mxfp8", "blockwise", "custom"),
        "fp4": ("e2m1", None, None),
        "fp4_recipe": ("nvfp4", "custom"),
        "fp8_param": (True, False),
        "first_last_layers_bf16": (True, False),
        "num_layers_at_start_in_bf16": (0, 1, d.layers, d.layers + 1, d.layers // 2, -1, None),
        "num_layers_at_end_in_bf16": (0, 1, d.layers, d.layers + 1, 2, -1),
    }
    model = {"fp8_quantizer_factory": ("a.b", None), "fp4_quantizer_factory": ("a.b", ""), "fp4_param": (True, False)}
    if d.names.release in ("0.5", "0.6"):
        model["fp8_output_proj"] = (True, False)
    if d.rng.random() < 0.6:
        d.config.pop("mixed_precision", None)
        d.model.update(_some(d, {**shared, **model}, 1, 5))
        return
    later = {} if d.names.release == "0.3" else {"fp4_param_gather": (True, False)}
    chosen = _some(d, {**shared, "fp8_param_gather": (True, False), **later}, 1, 4)
    dtype = "torch.bfloat16"
    d.config["mixed_precision"] = {
        "_target_": _MIXED,
        "bf16": True,
        **{key: {"_target_": dtype, "_call_": False} for key in ("params_dtype", "pipeline_dtype")},
        **chosen,
    }
    d.model.update(_some(d, model, 0, 1))


@violation()
def base_sizes(d: Draft) -> None:
    choices = {
        "init_method_std": (None, 0.01, "0.1"),
        "hidden_size": (None, d.model.get("hidden_size")),
        "kv_channels": (None, 64),
        "ffn_hidden_size": (None, 256),
    }
    if d.names.release != "0.3":
        choices |= {"use_mup": (True, True, False), "mup_base_hidden_size": (0, 1, 64, -1, None)}
    d.model.update(_some(d, choices, 1, 2))
    if d.kind == "hybrid" and d.names.later and d.rng.random() < 0.5:
        d.outer["mamba_chunk_size"] = pick(d, 0, 1, 64, None)


@violation()
def tokenizer_arguments(d: Draft) -> None:
    d.section("tokenizer")[pick(d, "hf_tokenizer_kwargs", "sp_tokenizer_kwargs")] = pick(d, None, {}, {"use_fast": True}, "fast")
