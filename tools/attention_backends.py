"""Which attention backends each Transformer Engine offers for which input: asks its own selection, writes the table.

    python -m tests.conformance.engine.source                 wheels and source text (once)
    python tools/attention_backends.py                        writes src/mbpack/facts/data/attention-backends.tsv

Runs itself in the environment of the real releases (torch for CPU). A row of the table is one answer in every environment
(version x GPU generation x cuDNN, one digit each: 1 flash, 2 fused, 4 unfused, added up) and the numbers of the
inputs that give it; inputs are numbered through the axes in their order, the last one fastest.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
TABLE = HERE.parent / "src" / "mbpack" / "facts" / "data" / "attention-backends.tsv"

VERSIONS = ("2.12.0", "2.14.1", "2.16.0", "2.17.1", "2.18.0")
GPUS = (80, 90, 100, 120)
CUDNN = (91500, 91801, 92100)
ROWS = ("sbhd", "thd", "thd+padding")
COMM = ("none", "p2p", "a2a", "all_gather", "a2a+p2p")
#: Widths of a head: queries and keys, then values; each stands for what is not wider.
HEADS = ((128, 128), (192, 192), (192, 128), (256, 256), (512, 512))
SOFTMAX = ("vanilla", "learnable")
WINDOW = ("full", "window")
FP8 = ("none", "delayed", "float8_current_scaling", "mxfp8")
FEATURES = (ROWS, COMM, HEADS, SOFTMAX, WINDOW, FP8)


def answers(version: str, root: Path) -> list[str]:
    """Per input, the digits of one version over GPU generations and cuDNN versions."""
    sys.path.insert(0, str(HERE.parent / "tests" / "conformance" / "engine"))
    from selector import Selector

    selector = Selector(version, root)
    inputs = itertools.product(*FEATURES)
    return ["".join(digit(selector, gpu, cudnn, feature) for gpu in GPUS for cudnn in CUDNN) for feature in inputs]


def digit(selector, gpu: int, cudnn: int, feature) -> str:
    rows, comm, (width, values), softmax, window, fp8 = feature
    packed = rows != "sbhd"
    found = selector.select(
        gpu,
        cudnn,
        batch_size=4 if packed else 1,
        qkv_layout="thd_thd_thd" if packed else "sbhd_sbhd_sbhd",
        attn_mask_type="padding_causal" if packed else "causal",
        pad_between_seqs=rows == "thd+padding",
        num_heads=32,
        num_gqa_groups=32 if width != values else 8,
        max_seqlen_q=4096,
        max_seqlen_kv=4096,
        head_dim_qk=width,
        head_dim_v=values,
        window_size=(128, 0) if window == "window" else (-1, 0),
        context_parallel=comm != "none",
        cp_comm_type="p2p" if comm == "none" else comm,
        core_attention_bias_shape=None,
        softmax_type=softmax,
        fp8=fp8,
    )
    return str(sum(bit for letter, bit in (("F", 1), ("C", 2), ("U", 4)) if letter in found))


def runs(numbers: list[int]) -> str:
    """Numbers as ranges: 0-3,7."""
    parts = []
    for _, group in itertools.groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        held = [number for _, number in group]
        parts.append(str(held[0]) if len(held) == 1 else f"{held[0]}-{held[-1]}")
    return ",".join(parts)


def table(columns: list[list[str]]) -> str:
    lines = [
        "# Written by tools/attention_backends.py: Transformer Engine's own selection. Digits: 1 flash + 2 fused + 4 unfused."
    ]
    axes = (("version", VERSIONS), ("gpu", GPUS), ("cudnn", CUDNN), ("rows", ROWS), ("comm", COMM))
    heads = [f"{width}x{values}" for width, values in HEADS]
    for name, values in (*axes, ("heads", heads), ("softmax", SOFTMAX), ("window", WINDOW), ("fp8", FP8)):
        lines.append("\t".join((f".{name}", *map(str, values))))
    held: dict[str, list[int]] = {}
    for number, parts in enumerate(zip(*columns, strict=True)):
        held.setdefault("".join(parts), []).append(number)
    return "\n".join([*lines, *(f"{digits}\t{runs(numbers)}" for digits, numbers in held.items())]) + "\n"


def main() -> None:
    sys.path.insert(0, str(HERE.parent))
    from tests.conformance.engine import source
    from tests.conformance.real import environments

    python = environments.folder() / "venv" / "bin" / "python"
    columns = []
    for version in VERSIONS:
        env = {**os.environ, "NVTE_FLASH_ATTN": "1"}
        command = [str(python), __file__, version, str(source.folder(version))]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
        columns.append([line.removeprefix("=> ") for line in done.stdout.splitlines() if line.startswith("=> ")])
    TABLE.write_text(table(columns))


if __name__ == "__main__":
    if len(sys.argv) == 3:
        for digits in answers(sys.argv[1], Path(sys.argv[2])):
            print("=>", digits)
    else:
        main()
