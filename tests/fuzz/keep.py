"""Samples on disk, and the smallest sample with the same defect."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from .samples import Sample


def dump(sample: Sample, about: str) -> str:
    """One JSON object: readable text where the bytes are text, base64 where not."""
    data = {
        "about": about,
        "target": sample.target,
        "calls": [list(call) for call in sample.calls],
        "files": {name: _text(content) for name, content in sample.files.items()},
    }
    if sample.stdin:
        data["stdin"] = _text(sample.stdin)
    if sample.steady:
        data["steady"] = True
    return json.dumps(data, indent=1, ensure_ascii=True) + "\n"


def load(path: Path) -> Sample:
    data = json.loads(path.read_text())
    return Sample(
        data["target"],
        tuple(tuple(call) for call in data["calls"]),
        {name: _bytes(content) for name, content in data["files"].items()},
        _bytes(data.get("stdin", "")),
        data.get("steady", False),
    )


def _text(content: bytes) -> str | dict[str, str]:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode()}


def _bytes(content: str | dict[str, str]) -> bytes:
    return content.encode("utf-8") if isinstance(content, str) else base64.b64decode(content["base64"])


def smallest(sample: Sample, same: Callable[[Sample], bool], tries: int = 600) -> Sample:
    """Files, arguments and pieces of content left out as long as ``same`` holds; at most so many tries."""
    size = 1 << 14
    while size and tries > 0:
        for smaller in _smaller(sample, size):
            tries -= 1
            if tries <= 0:
                break
            if same(smaller):
                sample = smaller
                break
        else:
            size //= 4
    return sample


def _smaller(sample: Sample, size: int) -> Iterator[Sample]:
    """Samples with one piece of about that size less."""
    if len(sample.files) > 1:
        for name in sample.files:
            yield replace(sample, files={other: data for other, data in sample.files.items() if other != name})
    call = sample.calls[0]
    if len(sample.calls) == 1:
        for at in range(1, len(call)):
            yield replace(sample, calls=((*call[:at], *call[at + 1 :]),))
            for start in range(0, len(call[at]), size) if "=" in call[at] else ():
                word = call[at][:start] + call[at][start + size :]
                yield replace(sample, calls=((*call[:at], word, *call[at + 1 :]),))
    for name, data in sample.files.items():
        for start in range(0, len(data), size):
            yield replace(sample, files={**sample.files, name: data[:start] + data[start + size :]})
    for start in range(0, len(sample.stdin), size):
        yield replace(sample, stdin=sample.stdin[:start] + sample.stdin[start + size :])
