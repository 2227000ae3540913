"""The pitfalls of sequence packing, numbered as in the public packing guide of Megatron-Bridge, with the rules that
look at each. Our own words; the guide lacks some of what the rules know.
"""

from __future__ import annotations

from msgspec import Struct


class Pitfall(Struct, frozen=True):
    """One pitfall: its number, title, what goes wrong, and the slugs of the rules about it."""

    number: int
    title: str
    text: str
    rules: tuple[str, ...]


PITFALLS: tuple[Pitfall, ...] = (
    Pitfall(
        1,
        "each packing mode has its own micro_batch_size",
        "Offline packs, native Energon packs and global-batch packing take 1, in-batch packing takes 2 or more. One dataset "
        "has one packing owner.",
        (
            "batch/offline-mbs-one",
            "batch/inbatch-mbs-gt-one",
            "nrg/mbs",
            "gbp/mbs-one",
            "batch/offline-inbatch-exclusive",
            "nrg/exclusive-inbatch",
            "nrg/exclusive-defer",
            "gbp/exclusive",
        ),
    ),
    Pitfall(
        2,
        "GPT-SFT in-batch packing does not take the batch dataloader",
        "The class default is the batch loader, so in-batch packing of text (0.7) always needs dataloader_type cyclic or "
        "single. Before 0.7 the key does nothing on that dataset.",
        ("batch/inbatch-dataloader-batch", "batch/gptsft-inbatch-unsupported", "batch/gptsft-inbatch-extra"),
    ),
    Pitfall(
        3,
        "context parallelism cuts every sample into 2*CP pieces",
        "model.seq_length is checked at start-up; the packed samples and the pack size are not, and a sample that does not "
        "divide is cut across its boundary without a word.",
        ("align/model-seq-2cp", "align/pad-seq-to-mult-cp", "align/pack-size-multiple", "cp/eval-cp"),
    ),
    Pitfall(
        4,
        "fine-tuning with context parallelism needs a per-token loss",
        "calculate_per_token_loss true and average_in_collective false; otherwise a rank with only masked tokens gives NaN "
        "or a wrong scale. Up to 0.5 only one dataset class is checked.",
        ("cp/per-token-loss", "cp/average-in-collective", "nrg/per-token-loss", "gbp/per-token-loss"),
    ),
    Pitfall(
        5,
        "pad_cu_seqlens needs pad_to_max_length and metadata",
        "A boundary array of constant length only helps rows of constant width, and its length is read from the pack metadata.",
        ("data/pad-cu-requires-max-length", "data/pad-cu-requires-metadata"),
    ),
    Pitfall(
        6,
        "some model families cannot be packed",
        "Gemma2 never, Qwen3-Next not before 0.5, many vision-language families not in-batch; some recipes are shipped "
        "packed all the same.",
        ("gemma2/packed", "gdn/packed", "dsa/packed", "fam/inbatch-unsupported", "fam/offline-unsupported", "fam/deepseek-v4"),
    ),
    Pitfall(
        7,
        "multi-token prediction with packed rows",
        "Called unsupported in documentation, not checked by code; shipped recipes combine them. With a pad multiple above 1 "
        "its labels roll across the wrong boundaries.",
        ("mtp/packed", "nrg/mtp"),
    ),
    Pitfall(
        8,
        "padding rows must not carry loss",
        "Up to 0.5 a sample mapping repeats real rows with loss to fill the last batch.",
        ("loss/padding-rows", "loss/zero-loss-rows", "data/pad-loss-legacy-prompt"),
    ),
    Pitfall(
        9,
        "the global batch and data parallel",
        "GBS must be a multiple of MBS x DP, and it counts packs: after packing there may be fewer rows than one global batch.",
        ("gbs/divisible", "gbs/eval-divisible", "gbs/not-enough-rows", "gbs/tokens-per-step"),
    ),
    Pitfall(
        10,
        "pad_seq_to_mult must be derived from the topology",
        "lcm(2*CP, CP*TP with sequence parallel) over training and evaluation CP. Validation never derives it; run_recipe.py "
        "does from 0.6 on, but cannot rebuild packs on disk. A larger value than needed costs speed.",
        ("align/pad-seq-to-mult-cp", "align/pad-seq-to-mult-sp", "align/pad-mult-wasted", "data/pack-path-mismatch"),
    ),
    Pitfall(
        11,
        "pad_to_max_length is needed only sometimes",
        "CUDA graphs, pipeline parallelism, HybridEP and widths that 16 does not divide need rows of fixed width; elsewhere "
        "it is padding.",
        (
            "align/dynamic-width-16",
            "align/offline-dynamic-width-pp",
            "align/offline-dynamic-width-ep",
            "graph/offline-fixed-width",
            "moe/hybridep-width",
        ),
    ),
    Pitfall(
        12,
        "packing_buffer_size counts per worker",
        "Memory grows with buffer x workers x ranks; batch sizes and evaluation iterations count packs.",
        ("nrg/buffer-per-worker", "nrg/counts-are-packs", "nrg/buffer-positive"),
    ),
    Pitfall(
        13,
        "an Energon run resumes exactly only under conditions",
        "Never up to 0.5; later only with the same data parallel size and without a virtual pipeline.",
        ("nrg/resume",),
    ),
)
