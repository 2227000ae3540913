"""The one place that imports optional packages: lazily, and with a clear line when one is missing."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

    IntArray = NDArray[Any]


class PlanError(ValueError):
    """Input that planning cannot use. The message is one line: what, where, how to mend."""


class MissingExtraError(PlanError):
    """A package of an optional extra is not installed; the message names the extra."""


def one_line(error: BaseException) -> str:
    """What an error says, in one line of bounded length."""
    text = str(getattr(error, "strerror", None) or error)
    return " ".join(text.split())[:160] or type(error).__name__


def optional(module: str, extra: str, purpose: str) -> Any:
    """A module of an optional package.

    Raises:
        MissingExtraError: when it is not installed.
    """
    try:
        return import_module(module)
    except ImportError:
        package = module.split(".")[0]
        raise MissingExtraError(f"{purpose} needs {package}, which is not installed: pip install 'mbpack[{extra}]'") from None


def numpy() -> Any:
    """The numpy module.

    Raises:
        MissingExtraError: when numpy is not installed.
    """
    return optional("numpy", "plan", "planning")
