"""How wide a packed row becomes, and what its width must divide by.

Widths are in tokens. A row is *fixed* when it is always padded to the pack size, *dynamic* when the collate function
rounds the longest row of a batch up.
"""

from __future__ import annotations

from typing import Final

from mbpack.facts.formulas import lcm
from mbpack.facts.releases import R07

#: What the collate function of offline packs rounds a dynamic row up to (``dataset_kwargs.pad_seq_length_to_mult``
#: replaces it). Source: 0.3 to 0.5 ``data/datasets/sft.py``, 0.6 ``data/packing/gpt_sft.py``, ``collate_fn``.
ROW_ROUNDING: Final = 16

#: Dataloader with which the pipeline exchanges rows of the width the batch really has: the training loop reads it from
#: the rank's whole global batch (``prepare_finetuning_batch``, all releases). Other loaders use ``model.seq_length``.
MEASURED_WIDTH_LOADER: Final = "batch"

#: First release whose in-batch packing honours ``pad_to_max_length``; before, a row is as wide as its samples' sum.
IN_BATCH_FIXED_SINCE: Final = R07

#: Blocks an FP8 matrix product does best with, in tokens, by ``fp8_recipe``. Source: Megatron-Core ``fp8_utils.py``,
#: ``get_fp8_align_size``; Transformer Engine ``Float8BlockQuantizer.is_quantizable``.
_FP8_BLOCKS: Final = {"mxfp8": 32, "blockwise": 128}
FP8_BLOCK: Final = 16

#: What every FP8 layer asserts of its input's tokens, whatever the GPU. Source: Transformer Engine 2.12 to 2.18
#: ``assert_dim_for_fp8_exec``.
FP8_TOKENS: Final = 8


def fp8_block(recipe: object) -> int:
    """Tokens a rank's share of a row is best a multiple of: 32 for MXFP8, 128 for blockwise scaling, else 16."""
    return _FP8_BLOCKS.get(recipe, FP8_BLOCK) if isinstance(recipe, str) else FP8_BLOCK


def dynamic_width_aligned(rounding: int, pad_multiple: int, needed: int) -> bool:
    """Whether every dynamic row width divides by ``needed``.

    A row is a sum of samples that were padded to ``pad_multiple``, rounded up to ``rounding``. It is aligned when the
    rounding is, or when the rounding changes nothing because the samples already are multiples of it.

    >>> dynamic_width_aligned(16, 8, 8), dynamic_width_aligned(16, 32, 32), dynamic_width_aligned(16, 6, 6)
    (True, True, False)
    """
    return rounding % needed == 0 or (pad_multiple % rounding == 0 and pad_multiple % needed == 0)


def aligned_rounding(needed: int) -> int:
    """The smallest row rounding that keeps the default of 16 and divides by ``needed``."""
    return lcm(ROW_ROUNDING, needed)


def near_round_width(width: int, share: float = 0.02) -> int | None:
    """The power of two or multiple of 128 that a width was probably meant to be, None when it looks deliberate.

    A power of two counts when it is within ``share`` of the width; every other width above 128 is compared with the
    nearest multiple of 128. Whole thousands are taken as meant.

    >>> near_round_width(8129), near_round_width(4096), near_round_width(3000), near_round_width(3001)
    (8192, None, None, 2944)
    """
    if width <= 128 or width % 128 == 0 or width % 1000 == 0:
        return None
    below = 1 << (width.bit_length() - 1)
    for power in (below, 2 * below):
        if abs(width - power) <= share * power:
            return power
    low = width // 128 * 128
    return low if width - low <= low + 128 - width else low + 128
