"""Functions that make a prompt and an answer of a row of a Hub dataset (0.3 to 0.5).

Source: `data/hf_processors/*.py`.
"""

from __future__ import annotations

from typing import NamedTuple

from mbpack.facts.hf_presets import HF_PRESETS


class Processor(NamedTuple):
    """A function, the names of the dataset that it is written for, and the columns that it asks every row for."""

    name: str
    datasets: tuple[str, ...]
    columns: tuple[str, ...]


_SQUAD, _GSM8K, _MATH = (HF_PRESETS[name].path for name in ("squad", "gsm8k", "openmathinstruct2"))
_MATH_COLUMNS = ("problem", "generated_solution", "expected_answer")
PROCESSORS = (
    Processor("process_squad_example", ("squad", _SQUAD), ("context", "question", "answers")),
    Processor("process_gsm8k_example", ("gsm8k", _GSM8K), ("question", "answer")),
    Processor("process_openmathinstruct2_example", (_MATH,), _MATH_COLUMNS),
    Processor("process_openmathinstruct2_thinking_packed_example", (_MATH,), _MATH_COLUMNS),
)
