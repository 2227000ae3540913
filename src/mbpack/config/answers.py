"""The answers to "what does this key hold": a setting with its origin and place, absent, unknown, or of the wrong kind."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, NamedTuple, TypeVar

from msgspec import Struct

from mbpack.config.document import Document, Item


class Origin(Enum):
    """Who gave a value. The value of each member is how reports say it."""

    OVERRIDE = "override"
    FILE = "file"
    RECIPE = "recipe"
    DEFAULT = "default"


T = TypeVar("T")


def twin(original: T) -> T:
    """A shallow copy of a plain object; what :func:`copy.copy` does, at a fraction of its time."""
    new = object.__new__(original.__class__)
    vars(new).update(vars(original))
    return new


class _Absent:
    def __repr__(self) -> str:
        return "ABSENT"

    def __bool__(self) -> bool:
        return False


#: The owning class has no such field (upstream's ``getattr(..., default)`` takes the default).
ABSENT: Any = _Absent()


class Unknown(Exception):
    """Nobody gave this value. ``needs`` names the flags that would supply it.

    ``text`` is the setting where it is text in any case, whatever it says: an environment variable.
    """

    def __init__(self, key: str, needs: tuple[str, ...] = (), reason: str = "", text: Setting | None = None) -> None:
        super().__init__(key)
        self.key, self.needs, self.reason, self.text = key, needs, reason, text


class WrongKind(Exception):
    """A value of a kind the question cannot be asked of: text where arithmetic needs a number."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting.key)
        self.setting = setting


class Object(Struct, frozen=True):
    """A value that is an object: its ``_target_`` (None when the mapping names none) and where it is written."""

    target: str | None
    item: Item | None
    call: bool = True
    args: tuple[Any, ...] = ()

    @property
    def name(self) -> str:
        """The last part of the target, such as ``LoRA`` or ``bfloat16``."""
        return (self.target or "").rpartition(".")[2]

    def __repr__(self) -> str:
        """As messages show it."""
        return self.name or "{...}"


class Layer(NamedTuple):
    """One source of settings: a file or the list of overrides."""

    root: Item
    origin: Origin
    document: Document


class Setting(NamedTuple):
    """A value, who gave it, and where it is written. ``key`` is the dotted path as this release spells it."""

    key: str
    value: Any
    origin: Origin
    item: Item | None = None
    document: Document | None = None
    likely: bool = False  # inferred rather than stated: a model card, an environment default

    @property
    def written(self) -> bool:
        """Whether the user wrote it (file or override)."""
        return self.item is not None

    @property
    def absent(self) -> bool:
        """Whether the owning class has no such field."""
        return self.value is ABSENT


def object_of(item: Item) -> Object:
    """A mapping as the object it describes."""
    children = item.value
    target, call, args = children.get("_target_"), children.get("_call_"), children.get("_args_")
    return Object(
        target.value if target is not None and isinstance(target.value, str) else None,
        item,
        call is None or call.value is not False,
        tuple(child.value for child in args.value) if args is not None and isinstance(args.value, list) else (),
    )


def of_recipe(value: Any) -> Any:
    """A value as a recipe holds it: a mapping that names a class is an object."""
    return Object(value["_target_"], None) if isinstance(value, Mapping) and "_target_" in value else value
