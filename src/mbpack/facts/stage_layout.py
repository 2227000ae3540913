"""The layout that says which layers each pipeline stage holds: text such as ``Et*8|t*8L``, or a list of lists of names.

Stages stand in the order of the virtual pipeline: with PP stages and V virtual ones, the n-th of the text is virtual stage
n // PP of rank n % PP. Source: Megatron-Core `transformer/pipeline_parallel_layer_layout.py`, `PipelineParallelLayerLayout`
(the same in all releases).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

EMBEDDING, DECODER, MTP, LOSS, ENCODER = "embedding", "decoder", "mtp", "loss", "encoder"
LETTERS = {"E": EMBEDDING, "t": DECODER, "m": MTP, "L": LOSS}
#: Names of the list form. An encoder is known and refused at the very end.
NAMES = (EMBEDDING, DECODER, MTP, LOSS, ENCODER)

#: Letters after all repetitions are written out; longer ones are not read.
LONGEST = 100_000

#: A group and a letter with a number of repetitions; groups are written out first.
_REPEATED = (re.compile(r"\(([^)]+)\)\*(\d+)"), re.compile(r"(.)\*(\d+)"))

Stages = Sequence[Sequence[str]]


class TooLong(ValueError):
    """More layers than anybody trains: the text is not written out."""


def unrolled(text: str) -> str:
    """A layout with every repetition written out and without its commas, which mean nothing.

    Raises:
        TooLong: above :data:`LONGEST` letters.
    """
    text = text.replace(",", "")
    for pattern in _REPEATED:
        size = len(text)
        for found in pattern.finditer(text):
            if len(found[2]) > len(str(LONGEST)):
                raise TooLong
            size += len(found[1]) * int(found[2])
        if size > 2 * LONGEST:
            raise TooLong
        text = pattern.sub(lambda found: found[1] * int(found[2]), text)
    return text


def parse(text: str) -> list[list[str]]:
    """The names of the layers of every stage.

    Raises:
        TooLong: above :data:`LONGEST` letters.
        KeyError: with a letter that stands for no layer.
    """
    return [[LETTERS[letter] for letter in stage] for stage in unrolled(text).split("|")]


def even(stages: int, layers: int, mtp: int) -> str:
    """A layout with as many layers on every stage as possible; the first ones take the rest."""
    each, rest = divmod(layers, stages)
    counts = [each + (stage < rest) for stage in range(stages)]
    texts = [f"t*{count}" if count > 1 else "t" * count for count in counts]
    texts[0] = f"E{texts[0]}"
    texts[-1] += f"{'m' * mtp}L"
    return "|".join(texts)


def order_fault(stages: Stages, pp: int) -> str | None:
    """What is wrong with where the MTP layers stand, None when nothing is.

    They follow every decoder layer, stand in the last virtual stage of a rank, and are all together.
    """
    flat = [layer for stage in stages for layer in stage]
    if MTP not in flat:
        return None
    if DECODER in flat[flat.index(MTP) :]:
        return "decoder layers stand behind an MTP layer"
    if any(MTP in stage for stage in stages[:-pp]):
        return "MTP layers stand in a virtual stage that is not the last of its rank"
    if any(0 < list(stage).count(MTP) != flat.count(MTP) for stage in stages[-pp:]):
        return "the MTP layers stand in more than one stage"
    return None
