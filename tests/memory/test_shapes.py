"""The layers of shipped shapes at their real size: bytes kept and parameters equal those of the real layers.

`tests/data/memory/shapes.jsonl`: a shape and a kind of layer a line, with [release, TP, bytes kept for the tokens of the first
line, parameters of the rank]; balanced loss and shared scores left out, activation fused where it can be.
"""

from __future__ import annotations

import json
from pathlib import Path

from mbpack.facts.shapes import all_shapes
from mbpack.memory.ledger import layer
from mbpack.memory.parameters import layer_count
from mbpack.memory.setup import Setup

DATA = Path(__file__).resolve().parent.parent / "data" / "memory" / "shapes.jsonl"
SHAPES = {shape.name: shape for shape in all_shapes()}


def test_layers_of_shipped_shapes_keep_what_the_real_ones_keep() -> None:
    head, *lines = DATA.read_text().splitlines()
    tokens, compared, wrong = json.loads(head)["tokens"], 0, []
    for line in lines:
        record = json.loads(line)
        shape = SHAPES[record["shape"]]
        for release, tp, kept, parameters in record["measured"]:
            major, minor = map(int, release.split("."))
            setup = Setup(
                shape,
                gpus=tp,
                tp=tp,
                sp=tp > 1,
                length=tokens,
                release=(major, minor),
                activation_fused=shape.gated_linear_unit and (shape.activation != "gelu" or shape.add_bias_linear),
            )
            # learned offsets lie in the core attention, which the measurement replaced
            offsets = shape.num_attention_heads / tp if shape.softmax_offset_learnable else 0
            found = layer(setup, record["kind"], True, 1.0)[0].total, layer_count(setup, record["kind"]).all - offsets
            compared += 1
            if found != (kept, parameters):
                wrong.append((record["shape"], record["kind"], release, tp, (kept, parameters), found))
    assert not wrong, wrong[:5]
    assert compared >= 170
