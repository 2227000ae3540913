"""a2a+p2p without sizes: the attention is given no group, so context parallelism is off."""

from upstream import Group, first, namespace

RULES = ("CPL105",)
RELEASES = ("0.3",)


def trial(good: bool) -> str | None:
    import torch

    module = first("megatron.core.extensions.transformer_engine")
    config_class = first("megatron.core.transformer.transformer_config").TransformerConfig
    masks = first("megatron.core.transformer.enums").AttnMaskType
    given: dict[str, object] = {}

    def made(self: object, **arguments: object) -> None:
        given.update(arguments)

    cls = module.TEDotProductAttention
    cls.__bases__[0].__init__ = lambda self, *a, **k: made(self, **k)
    cls.cp_stream = object()
    torch.distributed.get_process_group_ranks = lambda group: [0, 1, 2, 3]
    config = config_class(num_layers=1, hidden_size=8, num_attention_heads=2, context_parallel_size=4)
    groups = namespace(tp=Group(1), cp=Group(4), hcp=None)
    cls(config, 1, masks.causal, "self", cp_comm_type="p2p" if good else "a2a+p2p", pg_collection=groups)
    return "the attention has no group for context parallel 4" if given["cp_group"] is None else None
