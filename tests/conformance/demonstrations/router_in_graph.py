"""In 0.7 the step refuses packed rows where a graph holds the router of a mixture of experts."""

from upstream import first, namespace

RULES = ("GRA104",)
RELEASES = ("0.7",)
EXPECTED = ("ValueError",)


def trial(good: bool) -> str | None:
    step = first("megatron.bridge.training.gpt_step")
    step._validate_packed_moe_cuda_graph(
        namespace(
            num_moe_experts=8,
            cuda_graph_impl="transformer_engine",
            cuda_graph_modules=["mlp"] if good else ["moe_router"],
            cuda_graph_scope=None,
        )
    )
    return None
