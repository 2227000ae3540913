"""0.3 builds no hybrid model whose pattern has another number of layers."""

from upstream import first

RULES = ("SSM104",)
RELEASES = ("0.3",)
EXPECTED = ("ValueError",)


def trial(good: bool) -> str | None:
    first("megatron.core.ssm.mamba_hybrid_layer_allocation").allocate_layers(8 if good else 10, 0.0, 0.0, "M-M*M-M*")
    return None
