"""Questions to a run that many runs with the same layers answer alike.

A run over a set of recipes (:class:`mbpack.engine.split.Part`) carries ``over``, which keeps what each question was answered for
which recipes. For every other run a shared question is an ordinary function.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar, cast

if TYPE_CHECKING:
    from mbpack.config.reading import Reading

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R", bound="Reading")


class Over(Protocol):
    """What was answered for which recipes."""

    def ask(self, question: Any, mask: int, answer: Callable[[Any], Any]) -> Any:
        """The answer of all recipes of a mask; ``answer`` works it out for a run over some of them."""


def shared(question: Callable[Concatenate[R, P], T]) -> Callable[Concatenate[R, P], T]:
    """A function of a run that is worked out once for all recipes that answer it alike; its answer is never changed by anybody."""

    @wraps(question)
    def ask(run: R, *args: P.args, **kwargs: P.kwargs) -> T:
        if run.over is None:
            return question(run, *args, **kwargs)
        found: T = run.over.ask((question, args), run.settings.recipe.mask, lambda part: question(part, *args, **kwargs))  # type: ignore[union-attr]
        return found

    return cast(Callable[Concatenate[R, P], T], ask)


def once(question: Callable[[R], T]) -> Callable[[R], T]:
    """A function of a run that is worked out once for it, and over many recipes once for all that answer alike."""
    together = shared(question)

    @wraps(question)
    def ask(run: R) -> T:
        if run.over is not None:
            return together(run)
        name = question.__qualname__
        if name not in run.memo:
            run.memo[name] = question(run)
        found: T = run.memo[name]
        return found

    return ask
