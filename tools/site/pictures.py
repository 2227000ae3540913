"""Plots: pack lengths and simulated modes as `mbpack plan --plot` draws them, GPU memory by row length as `mbpack fit` estimates it."""

from __future__ import annotations

import json
from html import escape
from pathlib import Path
from typing import Any

from tools.site.guides import section, terminal
from tools.site.page import Page, fenced, raw
from tools.site.sessions import Recorder, folder, output

PLAN = "mbpack plan lengths.txt --bridge 0.7 --gpus 16 --tp 4 --cp 2 --sp --mode all --plot plan.svg --no-chart"
_CAPTIONS = {
    "plan": "Lengths, running shares, what packs hold, what an epoch takes. The recommended length is marked.",
    "plan-in_batch": "In-batch packing: where a step goes, and how wide the joined rows get.",
    "plan-energon": "Native Energon packing: the buffer decides how full the packs are.",
    "plan-global_batch": "Global-batch packing: whole steps packed and balanced over the data parallel ranks.",
    "plan-dynamic_cp": "Dynamic context parallelism: which rows run on how many ranks.",
}
FIT = "mbpack fit --recipe qwen3_8b_sft_config --gpus 8 --gpu h100-80gb --seq-length {} --json"
LENGTHS = (2048, 8192, 16384, 32768, 65536)
#: Groups of the rows of a fit, the first three by name, activations for the rest.
_GROUPS = ("weights", "gradients", "optimizer", "activations and the rest")


def plan(recorder: Recorder) -> tuple[dict[str, bytes], Page]:
    """The pictures of `mbpack plan --plot --mode all`, and the guide that shows them."""
    with folder():
        code, printed = output(PLAN)
        if code:
            raise RuntimeError(printed)
        recorder.ran[PLAN] = code
        files = {f"plots/{name}.svg": Path(f"{name}.svg").read_bytes() for name in _CAPTIONS}
    figures = [
        raw(
            f'<figure class="wide"><div class="scroll" tabindex="0"><img class="paper" src="{{up}}plots/{name}.svg" alt="{words}"/></div><figcaption>{words}</figcaption></figure>'
        )
        for name, words in _CAPTIONS.items()
    ]
    parts = [
        section("plan, lengths, inspect"),
        terminal("plan", "mbpack plan", "The report in a terminal."),
        "## As pictures",
        fenced(f"$ {PLAN}", "console"),
        *figures,
    ]
    return files, Page(
        "pack-length.html", "Choosing a pack length", "Pack lengths compared on the row lengths of the data.", "\n\n".join(parts)
    )


def fit(recorder: Recorder) -> Page:
    """What fills a GPU as rows grow, and the guide of `mbpack fit`."""
    found = []
    for length in LENGTHS:
        [(_, printed)] = recorder.outputs([FIT.format(length)])
        found.append((length, json.loads(printed)))
    figure = f'<figure class="wide"><div class="scroll" tabindex="0">{bars(found)}</div><figcaption>Qwen3-8B, full fine-tuning on 8 GPUs with the recipe\'s topology: what fills the fullest GPU as rows grow. Thin lines: the range nine of ten recorded runs lie in; dashed: what the GPU has.</figcaption></figure>'
    parts = [
        section("fit"),
        "## What fills a GPU",
        raw(figure),
        fenced(f"$ {FIT.format(LENGTHS[0])}", "console"),
        terminal("fit", "mbpack fit", "The report in a terminal."),
    ]
    return Page(
        "memory.html", "Does it fit the GPU", "GPU memory of a fine-tuning job, estimated without a GPU.", "\n\n".join(parts)
    )


def shares(data: dict[str, Any]) -> list[float]:
    """GiB of each group, in the order of the groups."""
    named = {row["row"]: row["gib"] for row in data["rows"]}
    first = [named.get(name, 0.0) for name in _GROUPS[:3]]
    return [*first, max(0.0, data["allocated_gib"] - sum(first))]


def bars(found: list[tuple[int, dict[str, Any]]]) -> str:
    """One bar a length as SVG."""
    usable = found[0][1]["gpu"]["usable_gib"]
    top = max(*(data["range_gib"]["high"] for _, data in found), usable) * 1.05
    left, width, high, step = 130, 560, 30, 44
    scale = width / top
    parts = []
    for number, group in enumerate(_GROUPS):
        parts.append(
            f'<rect class="p{number}" x="{left + number * 150}" y="4" width="12" height="12" rx="2"/><text class="small" x="{left + number * 150 + 17}" y="14">{group}</text>'
        )
    for row, (length, data) in enumerate(found):
        y, x = 34 + row * step, float(left)
        parts.append(f'<text x="0" y="{y + 20}">{length:,} tokens</text>')
        for number, share in enumerate(shares(data)):
            parts.append(
                f'<rect class="p{number}" x="{x:.1f}" y="{y}" width="{share * scale:.1f}" height="{high}"><title>{_GROUPS[number]}: {share:.1f} GiB</title></rect>'
            )
            x += share * scale
        low, high_end = (left + data["range_gib"][end] * scale for end in ("low", "high"))
        parts.append(f'<line class="range" x1="{low:.1f}" x2="{high_end:.1f}" y1="{y + high + 5}" y2="{y + high + 5}"/>')
        parts.append(
            f'<text class="small" x="{left + width + 12}" y="{y + 20}">{data["range_gib"]["likely"]:.0f} GiB: {escape(data["verdict"])}</text>'
        )
    bottom = 34 + len(found) * step
    parts.append(
        f'<line class="limit" x1="{left + usable * scale:.1f}" x2="{left + usable * scale:.1f}" y1="26" y2="{bottom}"/><text class="small" x="{left + usable * scale - 60:.1f}" y="{bottom + 16}">{usable} GiB usable</text>'
    )
    said = "; ".join(f"{length:,} tokens {data['range_gib']['likely']:.0f} GiB" for length, data in found)
    total = left + width + 150
    return f'<svg class="bars" xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {total} {bottom + 24}" width="{total}" height="{bottom + 24}"><title>GPU memory by row length</title><desc>{said}</desc>{"".join(parts)}</svg>'
