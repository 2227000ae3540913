"""Looking at packed data on disk: what a run will open, what is inside, and what the rules need to know about it.

:func:`collect` looks where a configuration points (file names, parquet footers, metadata; the rows themselves only when
asked) and returns :class:`~mbpack.config.evidence.Evidence`. Nothing here judges anything.
"""

from __future__ import annotations

from mbpack.inspect.collect import collect, look_at

__all__ = ["collect", "look_at"]
