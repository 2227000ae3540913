"""Call every recipe function of an installed release and record in what its result differs from the class defaults."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import reflect

PACKAGE = "megatron.bridge.recipes"
#: How recipe functions are called; one of DeepSeek-V3 says on how many nodes it runs (mbpack's own reader has the same).
CALLED = re.compile(r"[^\W_]\w*_config(_\d+nodes)?")
#: Fields of a model that only its card tells. A value that a conversion took from the defaults of a model type instead
#: is marked as a guess ...
SHAPE = ("num_layers", "hidden_size", "num_attention_heads", "num_query_groups", "kv_channels", "num_moe_experts")
#: ... or left out, where nothing asks for it.
SIZES = frozenset((Path(__file__).parents[1] / "src/mbpack/facts/data/card-fields.txt").read_text().split())


def find() -> dict[str, tuple[Callable[[], Any], bool]]:
    """Every public recipe function: name -> (function, whether it belongs to the performance package).

    Of the performance package only fine-tuning recipes are taken; where a name exists in both, it gets "perf:". A
    function whose name the recipe package gives to another one cannot be asked for by name and is left out.
    """
    exported = vars(importlib.import_module(PACKAGE))
    found: dict[str, tuple[Callable[[], Any], bool]] = {}
    for package, perf in ((PACKAGE, False), ("megatron.bridge.perf_recipes", True)):
        for module_name, module in sorted(sys.modules.items()):
            if not module_name.startswith(package + "."):
                continue
            for name, value in sorted(vars(module).items()):
                if not _is_recipe(name, value, module_name) or (perf and "pretrain" in name):
                    continue
                if not perf and exported.get(name, value) is not value:
                    continue
                found[f"perf:{name}" if perf and name in found else name] = (value, perf)
    found.update((name, (value, False)) for name, value in _bases())
    return found


def _bases() -> Iterator[tuple[str, Callable[[], Any]]]:
    """The configurations that recipes start from, which users' own recipes call as well: without a model."""
    for name, value in sorted(vars(importlib.import_module(f"{PACKAGE}.common")).items()):
        if re.fullmatch(r"_(pretrain|sft|peft)_common(_vlm)?", name) and inspect.isfunction(value):
            yield name, value


def _is_recipe(name: str, value: Any, module_name: str) -> bool:
    return (
        inspect.isfunction(value)
        and value.__module__ == module_name
        and name == value.__name__
        and CALLED.fullmatch(name)
        and all(
            p.default is not p.empty or p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
            for p in inspect.signature(value).parameters.values()
        )
    )


def aliases(recipes: Mapping[str, Any]) -> dict[str, str]:
    """Names under which a recipe can be imported although its function is called otherwise."""
    found = {}
    for module_name, module in sorted(sys.modules.items()):
        if module_name.startswith(PACKAGE):
            for name, value in vars(module).items():
                current = getattr(value, "__name__", None)
                if inspect.isfunction(value) and CALLED.fullmatch(name) and name != current and current in recipes:
                    found[name] = current
    return dict(sorted(found.items()))


class Converted:
    """A model configuration that a conversion returned; notes which fields are set afterwards."""

    def __init__(self, provider: Any, path: str) -> None:
        self.provider, self.path = provider, path
        self._watched = [("model.", provider)]
        if hasattr(provider, "transformer"):
            self._watched.append(("model.transformer.", provider.transformer))
        self._classes = [type(value) for _, value in self._watched]
        self._set: set[str] = set()
        for prefix, value in self._watched:
            value.__class__ = self._noting(type(value), prefix)

    def _noting(self, cls: type, prefix: str) -> type:
        noted = self._set

        def note(instance: Any, name: str, value: Any) -> None:
            noted.add(prefix + name)
            cls.__setattr__(instance, name, value)

        return type(cls.__name__, (cls,), {"__setattr__": note, "__module__": cls.__module__})

    def release(self) -> None:
        """Stop taking notes."""
        for (_, value), cls in zip(self._watched, self._classes, strict=True):
            value.__class__ = cls

    def inferred(self) -> list[str]:
        """Paths of the fields that nobody set after the conversion."""
        return [
            f"{prefix}{field.name}"
            for prefix, value in self._watched
            for field in dataclasses.fields(value)
            if prefix + field.name not in self._set
        ]


class Calls:
    """Calls recipes and keeps what was seen on the way."""

    def __init__(self, hub: Any, cards: Mapping[str, Mapping[str, Any]]) -> None:
        self.cards = cards
        self.seen: list[Any] = []
        self._types: set[type] = set()
        self._converted: list[Converted] = []
        self._configurations: list[str] = []
        if hub is not None:
            hub.install()
        self._watch_conversions()

    def _watch_conversions(self) -> None:
        """Remember every provider that a Hugging Face conversion returns, as it was then."""
        bridge = importlib.import_module("megatron.bridge.models.conversion.auto_bridge").AutoBridge
        original = bridge.from_hf_pretrained

        def from_hf_pretrained(path: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(path, *args, **kwargs)
            for method in ("to_megatron_provider", "get_model_config"):
                make = getattr(result, method, None)
                if make is not None:
                    setattr(result, method, self._recording(make, str(path)))
            return result

        bridge.from_hf_pretrained = staticmethod(from_hf_pretrained)
        configs = importlib.import_module("transformers").AutoConfig
        load = configs.from_pretrained

        def from_pretrained(path: Any, *args: Any, **kwargs: Any) -> Any:
            self._configurations.append(str(path))
            return load(path, *args, **kwargs)

        configs.from_pretrained = staticmethod(from_pretrained)

    def _recording(self, make: Callable[..., Any], path: str) -> Callable[..., Any]:
        def recorded(*args: Any, **kwargs: Any) -> Any:
            provider = make(*args, **kwargs)
            for field, value in self.cards.get(path, {}).items():
                owner = provider if hasattr(provider, field) else getattr(provider, "transformer", provider)
                if hasattr(owner, field):
                    setattr(owner, field, tuple(value) if field == "window_size" and isinstance(value, list) else value)
            self._converted.append(Converted(provider, path))
            return provider

        return recorded

    def call(self, name: str, function: Callable[[], Any], perf: bool) -> dict[str, Any] | None:
        """The flat record of one recipe: settings by path, facts about the recipe itself under "@" keys.

        None when the function returns something else than a whole configuration.
        """
        record: dict[str, Any] = {"@module": function.__module__}
        if gpus := re.search(r"_(\d+)gpus?_", name):
            record["@gpus"] = int(gpus.group(1))
        if perf:
            record["@perf"] = True
        self._converted.clear()
        self._configurations.clear()
        try:
            config = function()
        except BaseException as error:
            text = " ".join(str(error).split())
            return {**record, "@unavailable": f"{type(error).__name__}: {text}"[:200]}
        finally:
            for converted in self._converted:
                converted.release()
        if type(config).__name__ != "ConfigContainer":
            return None
        self._look_at(config)
        for section in dataclasses.fields(config):
            value = getattr(config, section.name)
            if value is None or not reflect.is_config(value):
                encoded = reflect.encode(value, objects=True)
                if not reflect.same(encoded, reflect.default_of(section)):
                    record[section.name] = encoded
                continue
            record[f"@{section.name}"] = reflect.path_of(type(value))
            if section.name in ("peft", "mixed_precision", "comm_overlap") or reflect.default_of(section) is None:
                record[f"{section.name}._target_"] = reflect.path_of(type(value))
            record.update(flat(value, section.name))
        self._mark_inferred(record, config.model)
        return record

    def _mark_inferred(self, record: dict[str, Any], model: Any) -> None:
        """Tell values that a conversion gave from those that the recipe set: "?" after the path, "??" for a guess."""
        if self._configurations:
            record["@hf_id"] = self._configurations[-1]
        for converted in self._converted:
            record["@hf_id"] = converted.path
            if converted.provider is not model:
                continue
            card = self.cards.get(converted.path, {})
            for key in [k for k in converted.inferred() if k in record]:
                field = key.rpartition(".")[2]
                value = record.pop(key)
                if field in card:
                    record[f"{key}?"] = value
                elif field not in SIZES:
                    record[f"{key}??" if field in SHAPE else f"{key}?"] = value

    def _look_at(self, value: Any) -> None:
        """Keep one object of every configuration class."""
        if reflect.is_config(value):
            if type(value) not in self._types:
                self._types.add(type(value))
                self.seen.append(copy.copy(value))
            for field in dataclasses.fields(value):
                self._look_at(getattr(value, field.name, None))
        elif isinstance(value, (list, tuple)):
            for item in value:
                self._look_at(item)


def flat(value: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    """(path, encoded value) of everything below a configuration object that differs from its class defaults."""
    for field in dataclasses.fields(value):
        held, path = getattr(value, field.name, None), f"{prefix}.{field.name}"
        default = reflect.default_of(field)
        if reflect.is_config(held):
            yield f"{path}._target_", reflect.path_of(type(held))
            yield from flat(held, path)
        else:
            encoded = reflect.encode(held, objects=True)
            if not reflect.same(encoded, default):
                yield path, encoded


def named(record: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """The record with short class names for the dataset, the model and the PEFT method."""
    found = {}
    for key, value in record.items():
        if key in ("@dataset", "@model"):
            found[f"{key}_class"] = names[value]
        elif key == "@peft":
            found[key] = names[value]
        elif key[0] != "@" or key[1:] in ("module", "gpus", "perf", "hf_id", "unavailable"):
            found[key] = value
    return found
