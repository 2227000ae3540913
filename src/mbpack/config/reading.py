"""Plain questions to the settings of a configuration and to its context; what they amount to is in :mod:`mbpack.config.run`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mbpack.config.context import Context
from mbpack.config.evidence import NOTHING, Evidence
from mbpack.config.overrides import Override, OverrideProblem
from mbpack.config.settings import ABSENT, Object, Setting, Settings, Unknown, WrongKind
from mbpack.config.shared import Over
from mbpack.facts.gpus import find_gpu
from mbpack.facts.releases import R06, Release

#: Compute capabilities that kernels tell apart: Ampere, Hopper, Blackwell, RTX Blackwell.
GENERATIONS = (80, 90, 100, 120)
_LARGEST = 1e18  #: no size, count or rate comes near; beyond it a number is no quantity (infinity and NaN neither)


class Reading:
    """The settings of one configuration, its context and what was found around it; the base of :class:`~mbpack.config.run.Run`."""

    #: What was answered for which recipes, where the run is over many (see :mod:`mbpack.config.shared`).
    over: Over | None = None

    def __init__(
        self,
        settings: Settings,
        context: Context,
        evidence: Evidence = NOTHING,
        overrides: Sequence[Override | OverrideProblem] = (),
    ) -> None:
        self.settings = settings
        self.context = context
        #: What somebody found on disk around the configuration; nothing unless a command looked.
        self.evidence = evidence
        #: The KEY=VALUE arguments, in order.
        self.overrides = tuple(overrides)
        self.release: Release = context.version.release
        self.patch: str = context.version.patch
        #: Settings whose kind stopped a rule, with the slug of the rule where upstream would stop too ("" elsewhere).
        self.stopped: list[tuple[Setting, str]] = []
        #: What rules worked out once and share.
        self.memo: dict[str, Any] = {}

    # ------------------------------------------------------------------ plain reading

    def setting(self, key: str) -> Setting:
        """The setting of a canonical key with its origin and place; raises Unknown."""
        return self.settings.find(key)

    def value(self, key: str, absent: Any = None) -> Any:
        """The plain value; ``absent`` where the owning class has no such field."""
        value = self.settings.find(key).value
        return absent if value is ABSENT else value

    def number(self, key: str, absent: Any = None) -> Any:
        """A value that arithmetic is done with: an int, a float, None, or ``absent``.

        Raises:
            WrongKind: the value is text, a list or a mapping, on which upstream's arithmetic raises TypeError.
        """
        try:
            setting = self.settings.find(key)
        except Unknown as unknown:
            if unknown.text is not None:
                raise WrongKind(unknown.text) from None
            raise
        value = setting.value
        if value is ABSENT:
            return absent
        if value.__class__ is int or value is None or value.__class__ is bool:
            return value
        if value.__class__ is float and abs(value) < _LARGEST:
            return value
        raise WrongKind(setting)

    def check_factor(self, key: str) -> None:
        """For a value that upstream only multiplies: text and lists can be multiplied by a whole number, a mapping cannot.

        Raises:
            WrongKind: the value is a mapping.
        """
        setting = self.settings.find(key)
        if isinstance(setting.value, Object):
            raise WrongKind(setting)

    def flag(self, key: str) -> bool:
        """Whether upstream's ``if value`` holds: any non-empty text is true, also "false"."""
        return bool(self.value(key, False))

    def is_set(self, key: str) -> bool:
        """Whether a value other than null is there."""
        return self.value(key) is not None

    def is_true(self, key: str) -> bool:
        """Whether the value is the boolean true, as in upstream's ``is True``."""
        return self.value(key) is True

    def wrote(self, key: str) -> bool:
        """Whether the user wrote the key."""
        return self.settings.written(key) is not None

    def maybe(self, key: str, default: Any = None) -> Any:
        """The plain value, or ``default`` where it is unknown or has no field: for notes and wording, never for a verdict."""
        found = self.settings.peek(key)
        return default if found is None or found.value is ABSENT else found.value

    # ------------------------------------------------------------------ context

    @property
    def complete(self) -> bool:
        """Whether the configuration is a complete file, which goes through the strict loader."""
        return self.settings.complete

    @property
    def stands_on_a_recipe(self) -> bool:
        """Whether the configuration is a difference to a shipped recipe, named or not."""
        return not self.complete and bool(self.settings.layers) and self.context.own_recipe is None

    @property
    def gpus(self) -> int:
        """World size; raises Unknown without ``--gpus``."""
        if self.context.gpus is None:
            raise Unknown("gpus", ("gpus",))
        return self.context.gpus

    @property
    def gpu(self) -> str | None:
        """The GPU (a name of ``facts/gpus.py``) that is given, else the one in the recipe's name."""
        if self.context.gpu is not None or self.settings.recipe is None:
            return self.context.gpu
        return self.settings.recipe.gpu

    @property
    def generations(self) -> tuple[int, ...]:
        """The GPU generations the run may be on (80, 90, 100, 120): one where the GPU is named, else all that are known."""
        named = find_gpu(self.gpu or "")
        return GENERATIONS if named is None else (max(n for n in GENERATIONS if n <= int(named.generation.removeprefix("sm"))),)

    @property
    def launcher(self) -> str:
        """``run_recipe`` or ``script``; raises Unknown without ``--launcher``."""
        if self.context.launcher is None:
            raise Unknown("launcher", ("launcher",))
        return self.context.launcher

    @property
    def repaired(self) -> bool:
        """Whether ``run_recipe.py`` synchronises fine-tuning values before the validation (0.6 and later)."""
        return self.release >= R06 and self.context.launcher == "run_recipe"
