"""The one place that imports numpy: lazily, and with a clear line when it is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

    IntArray = NDArray[Any]


class PlanError(ValueError):
    """Input that planning cannot use. The message is one line: what, where, how to mend."""


class MissingExtraError(PlanError):
    """A package of an optional extra is not installed; the message names the extra."""


def missing(package: str, extra: str, purpose: str) -> MissingExtraError:
    """The error for a missing optional package, ready to raise."""
    return MissingExtraError(f"{purpose} needs {package}, which is not installed: pip install 'mbpack[{extra}]'")


def numpy() -> Any:
    """The numpy module.

    Raises:
        MissingExtraError: when numpy is not installed.
    """
    try:
        import numpy
    except ImportError:
        raise missing("numpy", "plan", "planning") from None
    return numpy
