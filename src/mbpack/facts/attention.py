"""What attention can do with packed (THD) rows and context parallelism, per release.

The answers are those of the Transformer Engine release that each Megatron-Bridge release pins: an unsupported pair of
layout and ``cp_comm_type`` is an assertion in ``transformer_engine/pytorch/attention/dot_product_attention/``
``context_parallel.py`` (``attn_forward_func_with_cp``) at the first step, never at validation. A file cannot show which
Transformer Engine or cuDNN is installed, so everything here speaks of the pinned one.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from mbpack.facts.releases import NIGHTLY, R03, R04, R05, R06, R07, Release

P2P, A2A, ALL_GATHER, HIERARCHICAL = "p2p", "a2a", "all_gather", "a2a+p2p"
#: Every ``cp_comm_type``; null means p2p (Megatron-Core ``TEDotProductAttention``).
COMM_TYPES: Final = (P2P, A2A, ALL_GATHER, HIERARCHICAL)

#: Transformer Engine each release pins (0.3: the lower end of the range its package allows).
TRANSFORMER_ENGINE: Final = {
    R03: "2.12",
    R04: "2.14",
    R05: "2.16",
    R06: "2.17",
    R07: "2.18 or later, 2.20.2 in October 2026",
    NIGHTLY: "2.18 or later, 2.20.2 in October 2026",
}

#: First release whose Transformer Engine accepts packed rows with all_gather (2.18).
PACKED_ALL_GATHER_SINCE: Final = R07
#: Last release that limits multi-latent attention to point-to-point exchange: its Transformer Engine (2.14) does; with
#: packed rows its Megatron-Core does not yet pad the values to the width of the queries.
MLA_P2P_ONLY_UNTIL: Final = R04
#: Transformer Engine from which packed rows work with a2a; every pinned one is newer.
PACKED_A2A_SINCE_TE: Final = "2.10"
#: cuDNN that packed rows with a learnable softmax offset need (Transformer Engine 2.12 and later; none before).
SOFTMAX_OFFSET_CUDNN: Final = "9.18"
#: The release whose Transformer Engine is reported to overlook padding after the last sample of a row.
TAIL_PADDING_DEFECT: Final = R05

#: ``experimental_attention_variant`` values that bring their own attention and layout rules: the matrix of Transformer
#: Engine does not apply to them (DSA demands its own all-gather, DeepSeek-V4 a contiguous split).
OWN_ATTENTION: Final = frozenset({"dsa", "dsv4_hybrid"})
#: The linear-attention variant, whose full-attention layers still run in Transformer Engine.
GATED_DELTA_NET: Final = "gated_delta_net"


#: Head width in elements from which FlashAttention refuses padding between packed samples (nightly, documented).
WIDE_HEAD: Final = 256


def has_own_attention(variant: Any) -> bool:
    """Whether an ``experimental_attention_variant`` replaces Transformer Engine's attention."""
    return isinstance(variant, str) and variant in OWN_ATTENTION


def has_window(window: Any) -> bool:
    """Whether a ``window_size`` limits attention: null, (-1, -1) and (-1, 0) do not.

    >>> has_window([127, 0]), has_window(512), has_window([-1, 0]), has_window(None)
    (True, True, False, False)
    """
    if window is None:
        return False
    if isinstance(window, (list, tuple)):
        return bool(window) and window[0] != -1
    return isinstance(window, int) and not isinstance(window, bool) and window > 0


def usable_comm_types(
    release: Release, packed: bool, *, window: bool = False, softmax_offset: bool = False, mla: bool = False
) -> tuple[str, ...]:
    """The ``cp_comm_type`` values Transformer Engine accepts for a model's attention with CP above 1.

    >>> usable_comm_types(R06, packed=True)
    ('p2p', 'a2a')
    >>> usable_comm_types(R06, packed=True, window=True)
    ('a2a',)
    """
    allowed: Collection[str] = COMM_TYPES
    if packed:
        allowed = [t for t in allowed if t != HIERARCHICAL and (t != ALL_GATHER or release >= PACKED_ALL_GATHER_SINCE)]
    if window:
        allowed = [t for t in allowed if t in (A2A, ALL_GATHER)]
    if softmax_offset:
        allowed = [t for t in allowed if t == A2A]
    if mla and release <= MLA_P2P_ONLY_UNTIL:
        allowed = [t for t in allowed if t in (P2P, HIERARCHICAL)]
    return tuple(allowed)
