"""The fused rotary embedding of queries, keys and values asserts that rows are not packed."""

from upstream import Reached, Self, first

RULES = ("ATN104",)
RELEASES = ("0.3", "0.4", "0.5", "0.6", "0.7")
EXPECTED = ("AssertionError",)


def trial(good: bool) -> str | None:
    import torch

    module = first("megatron.core.transformer.attention")
    module.HAVE_FUSED_QKV_ROPE = True
    module.nvtx_range_push = module.nvtx_range_pop = lambda *a, **k: None
    config = Self(
        no_rope_freq=None,
        flash_decode=False,
        test_mode=False,
        fused_single_qkv_rope=not good,
        inference_fuse_tp_communication=False,
    )
    attention = Self(config=config, layer_number=1, attention_type="self", q_layernorm=None, k_layernorm=None, training=True)
    positions = torch.zeros(4, 1, 1, 8)
    try:
        module.Attention.forward(attention, torch.zeros(4, 1, 8), None, rotary_pos_emb=positions, packed_seq_params=object())
    except Reached:
        return None
    return None
