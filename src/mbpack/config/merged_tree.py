"""The merged tree as OmegaConf sees it: what expressions refer to, and whether ``???`` has anything to leave as it is.

Over a recipe the tree holds what the recipe's dataclasses hold, with the user's layers merged on top. Functions and other objects
that OmegaConf cannot hold are no part of it; they come back when the tree has been applied. A complete file is the whole tree:
class defaults are no part of it. Source: `training/utils/omegaconf_utils.py`, all releases.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mbpack.config.answers import ABSENT, Object, Unknown
from mbpack.config.document import MISSING, Item
from mbpack.config.interpolation import Resolved, resolve_interpolation
from mbpack.config.layering import is_gone
from mbpack.config.wrapper import may_register
from mbpack.facts.keys import ADAPTER, KEYWORD_ALIASES
from mbpack.facts.releases import R03
from mbpack.facts.schema import Opaque
from mbpack.facts.wrappers import is_wrapper_key

if TYPE_CHECKING:
    from mbpack.config.settings import Settings

#: The one field whose function upstream writes into the tree as text (0.4 and later).
ACTIVATION = "activation_func"


class MergedTree:
    """The tree of one configuration."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def resolve(self, written: str, value: str) -> Resolved:
        """What an expression stands for at a path.

        Raises:
            Unknown: it refers to a value that nobody gave.
        """
        settings = self.settings
        try:
            found = self._resolved(value, written)
            if settings.complete and isinstance(found.value, str) and "${" in found.value:
                found = self._resolved(found.value, written)  # building reads it once more
        except RecursionError:
            raise Unknown(written, ("value",), "the expression refers to itself") from None
        return found

    def _resolved(self, value: str, written: str) -> Resolved:
        settings = self.settings
        found = resolve_interpolation(value, written, self.held, settings.environ, settings.doubted)
        settings.assumed.update(dict.fromkeys(found.variables))
        if found.kind == "resolver" and any(may_register(layer.root) for layer in settings.layers):
            return Resolved("unknown", reason="the program that wraps the start-up may know it")
        return found

    def base_has(self, parts: tuple[str, ...]) -> bool:
        """Whether a lower layer or the recipe has a key, which ``???`` then leaves as it is; true where that is not known."""
        settings = self.settings
        if settings.recipe is None:
            return True
        for layer in settings.layers:
            item, depth = reach(layer.root, parts)
            if depth == len(parts) and item.value is not MISSING:
                return True
        path = ".".join(parts)
        try:
            return not is_gone(parts, settings.gone) and settings.fallback(path, parts, path).value is not ABSENT
        except Unknown:
            return True

    def held(self, path: str) -> Any:
        """What an expression sees at a path; KeyError where nobody has it, Unknown passes through."""
        settings, parts = self.settings, tuple(path.split("."))
        if self._is_wrappers(parts):
            raise Unknown(path, (), f"the program that wraps the start-up fills `{parts[0]}`")
        for layer in settings.layers:
            item, depth = reach(layer.root, parts)
            if depth == len(parts):
                if item.value is not MISSING or settings.complete:
                    return item.plain if item.value.__class__ in (dict, list) else item.value
            elif item.value.__class__ is not dict and item.value is not MISSING:
                raise KeyError(path)  # it covers what lies below
        if settings.complete or is_gone(parts, settings.gone) or self._is_no_part(parts):
            raise KeyError(path)
        value = self._in_recipe(path, parts)
        if value is ABSENT:
            raise KeyError(path)
        return value

    def _is_wrappers(self, parts: tuple[str, ...]) -> bool:
        """Whether a path lies in a section of a wrapper: one that such programs are known to have, beside Bridge's own."""
        return not self.settings.complete and parts[0] not in self.settings.schema.sections and is_wrapper_key(parts[0])

    def _is_no_part(self, parts: tuple[str, ...]) -> bool:
        """A recipe's adapter, which can be called; a keyword its dataset takes when it is made, but has no field of."""
        settings = self.settings
        if parts[0] == ADAPTER and settings.keeps_adapter:
            return True
        cls = settings.recipe.dataset_class if settings.recipe is not None and parts[:-1] == ("dataset",) else None
        return parts[-1] in KEYWORD_ALIASES.get(cls or "", ()) and parts[-1] not in (settings.schema.fields(cls or "") or {})

    def _in_recipe(self, path: str, parts: tuple[str, ...]) -> Any:
        settings = self.settings
        value = settings.fallback(path, parts, path).value
        if isinstance(value, Object) and value.target is None and len(parts) > 1:
            cls = settings.classes.at(parts[:-1])
            field = (settings.schema.fields(cls) or {}).get(parts[-1]) if cls is not None else None
            value = field.default if field is not None and isinstance(field.default, Opaque) else value
        if isinstance(value, Opaque) and value.kind != "object":
            if value.kind == "callable" and (parts[-1] != ACTIVATION or settings.version.release <= R03):
                return ABSENT
            raise Unknown(path, (), "what the recipe holds there is not known as text")
        return value


def reach(item: Item, parts: Sequence[str]) -> tuple[Item, int]:
    """The deepest item on the way along a path of keys and list positions, and how many parts lead to it."""
    for depth, part in enumerate(parts):
        value = item.value
        if value.__class__ is dict and part in value:
            item = value[part]
        elif value.__class__ is list and part.isdecimal() and int(part) < len(value):
            item = value[int(part)]
        else:
            return item, depth
    return item, len(parts)
