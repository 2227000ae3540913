"""Whether a mapping that names a class becomes an object, as upstream's `instantiate` decides it.

A complete file whose mapping does not become one is refused. Over a recipe the failure is a log line: the mapping's keys are then
set one by one on the object that the recipe holds there, or the mapping itself stays, as a plain dictionary, where it holds none.
Source: `utils/instantiate_utils.py` (0.3 to 0.7; from 0.5 on with `megatron/training/config/instantiate_utils.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from mbpack.config.answers import Object, Unknown, object_of
from mbpack.config.document import Interpolation, Item
from mbpack.config.layering import is_gone
from mbpack.config.object_classes import walk
from mbpack.facts.names import NOWHERE, Named, names
from mbpack.facts.targets import CALLABLE_FIELDS, is_blocked

if TYPE_CHECKING:
    from mbpack.config.settings import Settings

TARGET, CALL, ARGUMENTS, PARTIAL = "_target_", "_call_", "_args_", "_partial_"
SPECIAL = frozenset({TARGET, CALL, ARGUMENTS, PARTIAL, "_name_"})
#: Another keyword for an argument.
_OTHER_WORD = {"seq_length": "sequence_length"}


class Unmade(NamedTuple):
    """Why there is no object.

    kind     "nowhere" (the path leads to nothing), "blocked", "no-path" (null, a number), "no-call" (nothing that can be called),
             "keys" (`_call_: false` beside other keys), "required" (arguments are missing), "abstract", "value" (no member of the
             enumeration), "inside" (a mapping inside it is not made).
    what     one line about it.
    missing  the arguments.
    late     met after everything inside the mapping, when the class is called.
    """

    kind: str
    what: str
    missing: tuple[str, ...] = ()
    late: bool = False


class Loading:
    """What becomes of the mappings of one configuration that name a class; every answer is kept."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._kept: dict[str, tuple[Item, Unmade | None]] = {}

    def why_unmade(self, path: str, item: Item) -> Unmade | None:
        """Why a mapping with a ``_target_`` at a path of this release certainly does not become an object; None else."""
        held = self._kept.get(path)
        if held is None or held[0] is not item:
            self._kept[path] = held = (item, why_unmade(self.settings, path, item))
        return held[1]

    def is_lost(self, path: str, item: Item) -> bool:
        """Whether a mapping over a recipe is applied as if it named no class; a program may allow a package of its own."""
        unmade = self.why_unmade(path, item)
        return unmade is not None and unmade.kind != "blocked"

    def object_of(self, path: str, item: Item) -> Any:
        """A mapping as the start-up gets it: an object, a plain dictionary where it is not made, a precision by its name."""
        found = object_of(item)
        if self.settings.complete or self.why_unmade(path, item) is None:
            return self._precision(found, item) if path == "mixed_precision" and found.call else found
        return Object(None, item)

    def _precision(self, found: Object, item: Item) -> Any:
        """The name of a mixed precision whose function is called: it makes what the name stands for."""
        schema = self.settings.schema
        if not found.name or schema.class_of(found.target or "") is not None:
            return found
        given = item.value.get("name")
        name = given.value if found.name == "get_mixed_precision_config" and given is not None else found.name
        return name if isinstance(name, str) and schema.mixed_precision(name) is not None else found


def target_of(settings: Settings, path: str, item: Item) -> Any:
    """The ``_target_`` of a mapping as the loader sees it: its text, or whatever stands there.

    Raises:
        Unknown: it is an expression that cannot be resolved here.
    """
    value = item.value[TARGET].value
    if isinstance(value, Interpolation):
        found = settings.resolve(f"{path}.{TARGET}", value)
        if found.unknown:
            raise Unknown(path, found.needs or ("value",), found.reason)
        return found.value
    return value


def located(settings: Settings, target: str) -> Named | None:
    """What a path leads to in this release; None where that is not known."""
    found = names(settings.version.release.name).locate(target)
    if found is NOWHERE and settings.schema.class_of(target) is not None:
        return None
    return found


def why_unmade(settings: Settings, path: str, item: Item) -> Unmade | None:
    """Why the mapping at a path of this release does not become an object; None where it does, or where it cannot be told."""
    try:
        target = target_of(settings, path, item)
    except Unknown:
        return None
    call = item.value.get(CALL)
    called = call is None or bool(call.value)
    if not isinstance(target, str):
        return Unmade("no-path", "it names no class") if called else None
    release = settings.version.release
    if is_blocked(release, target, path.rpartition(".")[2] in CALLABLE_FIELDS):
        return Unmade("blocked", f"{release} does not instantiate {target}")
    found = located(settings, target) if target else NOWHERE
    if found is NOWHERE:
        return Unmade("nowhere", f"{target or 'an empty path'} does not exist in {release}")
    if not called:
        other = [str(name) for name in item.value if name not in (TARGET, CALL)] or _merged_in(settings, path)
        return Unmade("keys", f"`_call_: false` takes no other keys, found {', '.join(other)}") if other else None
    if found is None:
        return None
    if not found.callable:
        what = {"module": "a module", "dtype": "a dtype", "member": "a member of an enumeration"}.get(found.kind, "a value")
        return Unmade("no-call", f"{target} is {what}, which cannot be called")
    if _is_partial(item):
        return None
    return _calling(settings, path, item, target, found)


def _merged_in(settings: Settings, path: str) -> list[str]:
    """The recipe's fields, which an override's mapping has beside its own keys."""
    try:
        held = None if settings.complete else held_by_recipe(settings, tuple(path.split(".")))
    except Unknown:
        return []
    return ["those of the recipe"] if held else []


def _is_partial(item: Item) -> bool:
    partial = item.value.get(PARTIAL)
    return partial is not None and partial.value is not False


def _calling(settings: Settings, path: str, item: Item, target: str, found: Named) -> Unmade | None:
    """What calling it with the keys of the mapping runs into."""
    given = item.value.get(ARGUMENTS)
    arguments = given.value if given is not None and isinstance(given.value, list) else []
    if found.kind == "enum":
        return _no_member(target, found, arguments)
    if found.abstract:
        return Unmade("abstract", f"{target} is abstract: only a class that derives from it can be made", late=True)
    try:
        missing = [name for name in found.required[len(arguments) :] if not _is_given(settings, path, item, name)]
    except Unknown:
        return None
    if not missing:
        return None
    which = f"argument{'s' if len(missing) > 1 else ''} {', '.join(missing)}"
    return Unmade("required", f"{target.rpartition('.')[2]} cannot be made without its {which}", tuple(missing), late=True)


def _no_member(target: str, found: Named, arguments: list[Item]) -> Unmade | None:
    name = target.rpartition(".")[2]
    if len(arguments) != 1:
        return (
            None if arguments else Unmade("required", f"{name} needs the value of a member in `_args_`", ("_args_",), late=True)
        )
    value, values = arguments[0].value, [value for _, value in found.members]
    if (
        None in values
        or value in values
        or not isinstance(value, (int, float, str, type(None)))
        or isinstance(value, Interpolation)
    ):
        return None
    return Unmade("value", f"{name} has no member of the value {value!r}", late=True)


def _is_given(settings: Settings, path: str, item: Item, name: str) -> bool:
    """Whether the merged mapping holds an argument: the user's keys over the fields of what the recipe holds there."""
    if any(word in item.value for word in (name, _OTHER_WORD.get(name, name))):
        return True
    if settings.complete:
        return False
    parts = tuple(path.split("."))
    if any(walk(layer.root, (*parts, name)) is not None for layer in settings.layers):
        return True
    if settings.recipe is None:
        raise Unknown(path, ("recipe",))
    held = held_by_recipe(settings, parts)
    return held is not None and name in held and not is_gone((*parts, name), settings.gone)


def held_by_recipe(settings: Settings, parts: tuple[str, ...]) -> Mapping[str, Any] | None:
    """The fields of the object that the recipe holds at a path; None where it holds none.

    Raises:
        Unknown: it is not known what it holds.
    """
    recipe = settings.recipe
    if recipe is None:
        raise Unknown(".".join(parts), ("recipe",))
    path = ".".join(parts)
    cls = {"dataset": recipe.dataset_class, "model": recipe.model_class}.get(path)
    if cls is None:
        held = settings.fallback(path, parts, path).value
        if not isinstance(held, Object):
            return held if isinstance(held, dict) else None
        cls = settings.schema.class_of(held.target) if held.target else settings.schema.section_class(path)
    if cls is None:
        raise Unknown(path, (), "the class of what the recipe holds there is not known")
    return settings.schema.fields(cls)
