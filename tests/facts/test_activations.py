"""The names of activation functions, per release."""

from __future__ import annotations

from mbpack.facts import activations
from mbpack.facts.releases import NIGHTLY, R03, R04, R05


def test_names_of_each_release() -> None:
    assert activations.names(R03) == {}
    assert "quick_gelu" not in activations.names(R04)
    assert "torch.tanh" not in activations.names(R04)
    for release in (R05, NIGHTLY):
        assert activations.names(release)["quick_gelu"] == activations.QUICK_GELU
        assert activations.names(release)["torch.tanh"] == activations.OTHER
    for name in ("silu", "torch.nn.functional.silu"):
        assert activations.names(R04)[name] == activations.SILU
    assert {activations.names(R04)[name] for name in ("relu2", "fast_gelu", "sigmoid", "tanh")} == {activations.OTHER}


def test_a_recipe_keeps_a_function_without_a_name() -> None:
    assert not activations.replaceable(R03, "<callable silu>")
    assert activations.replaceable(R04, "<callable silu>")
    assert not activations.replaceable(R04, "<callable quick_gelu>")
    assert activations.replaceable(R05, "<callable quick_gelu>")
    assert not activations.replaceable(R05, "<callable openai_gelu>")


def test_functions_by_path_and_description() -> None:
    assert activations.at_path("megatron.core.fusions.fused_bias_geglu.quick_gelu") == activations.QUICK_GELU
    assert activations.at_path("megatron.core.activations.quick_gelu") == activations.OTHER
    assert activations.at_path("torch._C._nn.gelu") == activations.GELU
    assert activations.at_path("somewhere.else") is None
    assert activations.described("<callable relu>") == activations.RELU
    assert activations.described("<callable squared_relu>") == activations.OTHER
