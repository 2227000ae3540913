"""Wizard and configuration doctor for sequence packing and long-context fine-tuning in NVIDIA Megatron-Bridge.

`mbpack.check(cfg)` checks a configuration from Python; see :mod:`mbpack.api`.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing's own costs an import at every start
if TYPE_CHECKING:
    from mbpack.api import CheckFailed, Finding, NotChecked, Report, check

__all__ = ["CheckFailed", "Finding", "NotChecked", "Report", "__version__", "check"]
# A literal: reading the installed metadata would cost every start about 40 ms.
__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    if name in __all__:
        from mbpack import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
