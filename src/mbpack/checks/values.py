"""What configuration keys hold, as the tables of checks calculate with it."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import Any, NamedTuple

from mbpack.config.document import MISSING, Interpolation, Item
from mbpack.config.run import Run
from mbpack.config.settings import ABSENT, Object, Origin, Setting, Unknown
from mbpack.facts import recipes
from mbpack.facts.expert_settings import LEFT_OUT
from mbpack.facts.keys import RENAMES, path_in
from mbpack.facts.releases import R03, Release
from mbpack.facts.schema import Opaque

PRECISION = "mixed_precision"
#: What the object of mixed precision sets when the other is set, which every loader does last.
_FOLLOWS = {"fp8_param": "fp8_param_gather", "fp4_param": "fp4_param_gather"}
_ENUMS = "megatron.core.transformer.enums."
#: What recipes leave as their class has it, or say where we know them: so also where a recipe's data are not complete.
_AS_THE_CLASS = tuple(
    f"model.{name}"
    for name in (
        *("recompute_", "cuda_graph_", "enable_cuda", "external_cuda", "cpu_offloading", "distribute_saved", "fine_grained"),
        *("transformer_impl", "inference", "sequence_parallel", "fp", "bf16", "params_dtype"),
    )
)
_EXPERTS = "model.num_moe_experts"
#: Number formats that are texts.
_NAMED = ("model.moe_router_dtype",)
#: What a class takes out of itself when it is finalized: its own value stands again.
_TAKEN_OUT = {"MockGPTDatasetConfig": ("dataset.blend", "dataset.blend_per_split")}
SEQ, CORE_SEQ = "dataset.seq_length", "dataset.sequence_length"


class _Open:
    """The type of OPEN."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "OPEN"

    def __bool__(self) -> bool:
        raise AssertionError("an open value is neither true nor false")


#: A value that is not known.
OPEN: Any = _Open()


class Symbol(NamedTuple):
    """A function or a number format; only its identity counts."""

    path: str


class Member(NamedTuple):
    """A member of an enumeration whose values are no texts."""

    enum: str
    name: str
    value: Any


class Held:
    """A configuration object: it is there, it is true, and equal to nothing else."""

    __slots__ = ("key",)

    def __init__(self, key: str) -> None:
        self.key = key


_TORCH = {"torch.float": "torch.float32", "torch.half": "torch.float16", "torch._C._nn.gelu": "torch.nn.functional.gelu"}
_CALLABLES = {name: f"torch.nn.functional.{name}" for name in ("gelu", "silu", "relu")}
_CALLABLES["quick_gelu"] = "megatron.core.fusions.fused_bias_geglu.quick_gelu"


@cache
def _canonical_names(release: Release) -> tuple[tuple[str, str], ...]:
    return tuple((rename.old, rename.new) for rename in RENAMES if path_in(release, rename.new) == rename.old)


def canonical(release: Release, path: str) -> str:
    """The canonical name of a key as a release spells it."""
    for old, new in _canonical_names(release):
        if path == old or path.startswith(old + "."):
            return new + path[len(old) :]
    return path


class Values:
    """Reads the keys of one run."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self._read: dict[str, Any] = {}
        self._classes: dict[str, str | None] = {}
        #: Keys whose value nobody gave, with what would supply it.
        self.unknown: dict[str, Unknown] = {}

    @property
    def paths(self) -> Collection[str]:
        """The keys that were read so far."""
        return self._read.keys()

    def read(self, path: str) -> Any:
        """What a key of the release holds before the start-up: ABSENT without a field, OPEN where it is not known."""
        if path not in self._read:
            self._read[path] = self._find(path)
        return self._read[path]

    def _find(self, path: str) -> Any:
        section, _, name = path.partition(".")
        if section == PRECISION and name:
            named = self.read(PRECISION)
            if isinstance(named, Held) and name in _FOLLOWS:
                both = self.run.settings.python and self.run.settings.written(path) is not None
                return OPEN if both else self.read(f"{PRECISION}.{_FOLLOWS[name]}")
            if isinstance(named, str):
                return self.default((self.run.settings.schema.mixed_precision(named) or {}).get(name, OPEN))
        if section == "dataset" and path in _TAKEN_OUT.get(self._class(section) or "", ()):
            return None
        key = canonical(self.run.release, path)
        try:
            setting = self.run.settings.find(key)
        except Unknown as unknown:
            made = self._of_default(path)
            if made is OPEN:
                self.unknown[path] = unknown
            return made
        if path == SEQ and setting.value is None and (setting.item is None or self.run.settings.complete):
            return self.read(CORE_SEQ)  # the constructor of pretraining data takes the one for the other
        if setting.item is None and not self._certain(key, setting):
            recipe = self.run.settings.recipe
            if setting.origin is Origin.DEFAULT and recipe is not None and (key in LEFT_OUT or not recipe.complete):
                self.unknown[path] = Unknown(key, (), "the recipe may set it")
            return OPEN
        return self._plain(path, setting)

    def _certain(self, key: str, setting: Setting) -> bool:
        """Whether a value that the user did not write is one: not guessed, and not left out of the facts."""
        recipe = self.run.settings.recipe
        if recipe is None or not key.startswith("model."):
            return True
        if key in recipe.guessed:
            return False
        if key == _EXPERTS and recipe.guessed and setting.value is None:
            return False  # nobody knows the public model, so neither whether it has experts
        if setting.origin is Origin.DEFAULT and not key.startswith(_AS_THE_CLASS):
            if recipe.complete and key in LEFT_OUT and recipe.values.get(_EXPERTS) is None and not recipe.guessed:
                return True  # a dense recipe that sets one of these would not start
            if not recipe.complete or (key in LEFT_OUT and bool(recipe.likely)):
                return False
        if key in recipe.likely and isinstance(setting.value, list):
            return False  # as long as the model of the public card is deep
        return recipe.hf_id is None or key in recipe.values or key in recipe.likely or key[6:] not in recipes.card_fields()

    def _plain(self, path: str, setting: Setting) -> Any:
        value = setting.value
        if isinstance(value, Object):
            return self._object(path, value)
        if value is ABSENT:
            return self._attribute(path)
        if isinstance(value, list):
            return [self._element(item) for item in value]
        if isinstance(value, dict):
            return {name: self._element(item) for name, item in value.items()}
        if isinstance(value, str):
            return self._text(path, value, setting)
        if isinstance(value, (bool, int, float)) or value is None:
            return value
        return OPEN

    def _text(self, path: str, value: str, setting: Setting) -> Any:
        """A text, or the number format that a text stands for in complete files and in the facts."""
        if value.startswith("torch.") and (setting.item is None or self.run.settings.complete):
            return Symbol(_TORCH.get(value, value))
        if setting.item is not None and not self.run.settings.complete and self.run.release <= R03:
            held = self._default_text(path)
            if isinstance(held, Opaque) and not held.text.startswith("<enum"):
                return OPEN  # the override machinery of 0.3 puts functions and objects back after the merge
        if setting.item is not None and path.endswith("_dtype") and path not in _NAMED and not self.run.settings.complete:
            return OPEN  # the override machinery may have made a number format of it
        return value

    def _element(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._element(item) for item in value]
        if isinstance(value, dict):
            return {name: self._element(item) for name, item in value.items()}
        if isinstance(value, (bool, int, float, str)) or value is None:
            return value
        if isinstance(value, Object) and value.target is not None:
            return self._object("", value)
        if isinstance(value, Item):
            return self._item(value)
        return OPEN

    def _item(self, item: Item) -> Any:
        value = item.value
        if value is MISSING or isinstance(value, Interpolation):
            return OPEN
        if isinstance(value, dict):
            return OPEN if "_target_" in value else {name: self._item(child) for name, child in value.items()}
        if isinstance(value, list):
            return [self._item(child) for child in value]
        return value if isinstance(value, (bool, int, float, str)) or value is None else OPEN

    def _object(self, path: str, value: Object) -> Any:
        target = value.target
        if target is None:
            if path and self._class(path) is not None:
                return Held(path)
            return self._described(path) if value.item is None else self._mapping(path, value)
        enum = self.run.settings.schema.enums.get(value.name)
        if path and enum is None and not target.startswith(_ENUMS) and self._class(path) is not None:
            return Held(path)
        if enum is None and value.call and len(value.args) == 1 and target.startswith(_ENUMS):
            return Member(value.name, str(value.args[0]), value.args[0])  # of no field: unlike every member that is
        member = self._named_member(target) if not value.call else None
        if member is not None:
            return member
        if not value.call or target.startswith("torch."):
            return Symbol(_TORCH.get(target, target)) if not value.args else OPEN
        if enum is not None and len(value.args) == 1:
            for name, number in enum.items():
                if number == value.args[0]:
                    return Member(value.name, name, number)
        return OPEN

    def _named_member(self, target: str) -> Any:
        """The member of an enumeration that a path ends in; OPEN for an attribute of another class."""
        holder, _, name = target.rpartition(".")
        cls = holder.rpartition(".")[2]
        if not cls[:1].isupper():
            return None
        members = self.run.settings.schema.enums.get(cls, {})
        return Member(cls, name, members[name]) if name in members else OPEN

    def _mapping(self, path: str, value: Object) -> Any:
        """A mapping without a class: what the layers and the recipe put into it."""
        try:
            entries = self.run.settings.mapping(canonical(self.run.release, path))
        except (Unknown, KeyError):
            return OPEN
        return {name: self._plain(f"{path}.{name}", entry) for name, entry in entries.items()}

    def _of_default(self, path: str) -> Any:
        """A field of an object that nobody wrote: what its class says."""
        owner, _, name = path.rpartition(".")
        cls = self._class(owner) if owner.count(".") else None
        field = (self.run.settings.schema.fields(cls) or {}).get(name) if cls is not None else None
        if field is None or self.run.settings.written(canonical(self.run.release, owner)) is not None:
            return OPEN
        return self.default(field.default)

    @staticmethod
    def default(held: Any) -> Any:
        """A plain value out of the facts; OPEN for others."""
        if isinstance(held, str):
            return Symbol(_TORCH.get(held, held)) if held.startswith("torch.") else held
        return held if isinstance(held, (bool, int, float)) or held is None else OPEN

    def class_of(self, path: str) -> str | None:
        """Short name of the class of the object at a path, None where it is not known."""
        return self._class(path) if path else None

    def _class(self, path: str) -> str | None:
        settings = self.run.settings
        if path not in self._classes:
            cls = settings.classes.at(tuple(path.split(".")))
            if cls is None and path.count(".") == 1 and settings.base_known:
                text = self._default_text(path)
                words = text.text.strip("<>").split(" ", 1) if isinstance(text, Opaque) else [""]
                written = settings.target_at(canonical(self.run.release, path))
                if words[0] == "object" and written is None and settings.schema.path(words[1]) is not None:
                    cls = words[1]
            self._classes[path] = cls
        return self._classes[path]

    def _default_text(self, path: str) -> Any:
        """What the recipe, or else the class of the owner, has for a field."""
        owner, _, name = path.rpartition(".")
        cls = self.run.settings.classes.at(tuple(owner.split("."))) if owner else None
        schema, recipe = self.run.settings.schema, self.run.settings.recipe
        text: Any = recipe.values.get(canonical(self.run.release, path)) if recipe is not None else None
        if text is not None:
            return text
        for candidate in (cls, schema.transformer_class(cls or "")):
            field = (schema.fields(candidate) or {}).get(name) if candidate else None
            if field is not None:
                return field.default
        return None

    def _described(self, path: str) -> Any:
        """A default that plain data cannot express."""
        text, schema = self._default_text(path), self.run.settings.schema
        if not isinstance(text, Opaque):
            return OPEN
        words = text.text.strip("<>").split(" ", 1)
        if words[0] == "callable":
            return Symbol(_CALLABLES.get(words[1], f"<{words[1]}>"))
        if words[0] == "enum":
            enum, _, member = words[1].partition(".")
            return Member(enum, member, schema.enums.get(enum, {}).get(member))
        if words[0] == "object":
            return Held(path)
        if words[0] == "dtype":
            return Symbol(_TORCH.get(words[1], words[1]))
        return OPEN

    def _attribute(self, path: str) -> Any:
        """A name that is no field: absent, unless objects of the class have an attribute of that name."""
        owner, _, name = path.rpartition(".")
        cls = self._class(owner) if owner else None
        if cls is None:
            if owner and self.read(owner) is None:
                return ABSENT
            return OPEN if owner else ABSENT
        schema = self.run.settings.schema
        mark = ("attributes", cls)
        if mark not in schema.memo:
            schema.memo[mark] = schema.attributes(cls)
        return OPEN if schema.fields(cls) is None or name in schema.memo[mark] else ABSENT
