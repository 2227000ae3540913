"""How much memory the buffer of native Energon packing holds, and how full packs get with it (0.7 and later).

Measured with the Qwen-VL task encoder on blocks of real lengths: a buffered sample costs its tokens plus, far more, its
pixels. Packs are formed inside disjoint blocks of ``packing_buffer_size`` samples, so a small buffer leaves them empty.
"""

from __future__ import annotations

from typing import Final

from mbpack.facts.formulas import Derived

#: Bytes of a buffered text token.
TOKEN_BYTES: Final = 36
#: Bytes of one merged visual token, by patch size of the vision tower.
VISUAL_BYTES: Final = {14: 18_800, 16: 24_600}
#: Samples per pack length over mean sample length from which packs are about 95% full.
BUFFER_FACTOR: Final = 10
#: What upstream's documentation recommends to start with, samples.
FIRST_BUFFER: Final = 16


def buffer_for(pack: int, mean: int) -> Derived:
    """The buffer, in samples, from which packs of ``pack`` tokens are about 95% full for samples of ``mean`` tokens."""
    size = max(FIRST_BUFFER, -(-BUFFER_FACTOR * pack // mean))
    return Derived(size, f"{BUFFER_FACTOR} x pack {pack:,} / mean sample {mean:,}")


def buffer_bytes(samples: int, tokens: int, visual_tokens: int, patch: int, workers: int, ranks: int) -> Derived:
    """Bytes that the buffers on one node hold.

    ``tokens`` and ``visual_tokens`` (merged) are those of an average sample; ``workers`` loader processes on each of
    ``ranks`` data-loading ranks of the node.
    """
    one = samples * (tokens * TOKEN_BYTES + visual_tokens * VISUAL_BYTES[patch])
    words = (
        f"{samples} samples x ({tokens:,} tokens x {TOKEN_BYTES} B + {visual_tokens:,} visual tokens x {VISUAL_BYTES[patch]:,} B)"
    )
    return Derived(one * workers * ranks, f"{words} x {workers} workers x {ranks} ranks")
