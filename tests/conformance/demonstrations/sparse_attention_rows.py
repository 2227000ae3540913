"""Before 0.6 sparse attention wants a batch dimension, which packed rows do not have."""

from upstream import Reached, Self, first

RULES = ("DSA101",)
RELEASES = ("0.3", "0.4", "0.5")
EXPECTED = ("ValueError", "AssertionError")


def trial(good: bool) -> str | None:
    import torch

    module = first("megatron.core.transformer.experimental_attention_variant.dsa")
    query = torch.zeros(8, 1, 2, 4)
    if not good:
        query = query.squeeze(1)  # as latent attention hands over packed rows
    try:
        module.DSAttention.forward(
            Self(training=False),
            query,
            query,
            query,
            None,
            torch.zeros(8, 1, 4),
            torch.zeros(8, 1, 4),
            module.AttnMaskType.causal,
        )
    except Reached:
        pass
    return None
