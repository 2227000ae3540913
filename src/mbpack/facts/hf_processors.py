"""Functions that make a prompt and an answer of a row of a Hub dataset (0.3 to 0.5).

Source: `data/hf_processors/*.py`. A few more of the same columns may exist on the Hub under other names.
"""

from __future__ import annotations

from typing import NamedTuple


class Processor(NamedTuple):
    """A function, the datasets that it is written for, and the columns that it asks every row for."""

    name: str
    datasets: tuple[str, ...]
    columns: tuple[str, ...]


#: A longer name stands before one that it begins with.
PROCESSORS = (
    Processor("process_squad_example", ("squad", "rajpurkar/squad"), ("context", "question", "answers")),
    Processor("process_gsm8k_example", ("gsm8k", "openai/gsm8k"), ("question", "answer")),
    Processor(
        "process_openmathinstruct2_thinking_packed_example",
        ("nvidia/OpenMathInstruct-2",),
        ("problem", "generated_solution", "expected_answer"),
    ),
    Processor(
        "process_openmathinstruct2_example",
        ("nvidia/OpenMathInstruct-2",),
        ("problem", "generated_solution", "expected_answer"),
    ),
)
