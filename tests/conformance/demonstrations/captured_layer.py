"""A captured layer asserts that rows are not packed."""

from upstream import Reached, Self, first

RULES = ("GRA103",)
RELEASES = ("0.3", "0.4", "0.5", "0.6", "0.7")
EXPECTED = ("AssertionError",)


def trial(good: bool) -> str | None:
    replay = first("megatron.core.transformer.transformer_layer").TransformerLayer._te_cuda_graph_replay
    try:
        replay(
            Self(config=Self(cuda_graph_modules=[], cuda_graph_scope=[], delay_offload_until_cuda_graph=False)),
            packed_seq_params=None if good else object(),
        )
    except (Reached, TypeError):
        return None
    return None
