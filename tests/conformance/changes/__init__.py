"""Changes to a consistent configuration, by topic; importing the package fills the two tables."""

from . import attention, batch, data, extras, graphs, memory, model, numbers, parallel, sections, values
from .registry import ODDITIES, VIOLATIONS, apply

__all__ = [
    "ODDITIES",
    "VIOLATIONS",
    "apply",
    "attention",
    "batch",
    "data",
    "extras",
    "graphs",
    "memory",
    "model",
    "numbers",
    "parallel",
    "sections",
    "values",
]
