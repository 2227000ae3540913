"""Changes to a consistent configuration, by topic; importing the package fills the two tables."""

from . import batch, data, extras, graphs, model, parallel, sections, values
from .registry import ODDITIES, VIOLATIONS, apply

__all__ = ["ODDITIES", "VIOLATIONS", "apply", "batch", "data", "extras", "graphs", "model", "parallel", "sections", "values"]
