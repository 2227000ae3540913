"""What Megatron-Bridge's own functions, classes and methods do in a followed program."""

from __future__ import annotations

import ast
import re
from typing import Final

from mbpack.config.python.calls import LAUNCHERS, Arguments, safe_method
from mbpack.config.python.given import Given
from mbpack.config.python.machine import SETTINGS
from mbpack.config.python.statements import Statements
from mbpack.config.python.values import (
    NONE,
    NOTHING,
    Cell,
    Class,
    Known,
    Overlay,
    Place,
    Record,
    Ref,
    Several,
    Symbol,
    Unknown,
    Value,
    may_be,
)

CONTAINER: Final = "ConfigContainer"
_RECIPES: Final = ("megatron.bridge.recipes", "megatron.bridge.perf_recipes")
#: Arguments of recipes that only name files, and what they set.
_RECIPE_NAME: Final = re.compile(r"[a-z0-9_]+_config(?:_\w+)?|_(?:sft|peft|pretrain)_common(?:_vlm)?")
_CLASS_NAME: Final = re.compile(r"_?[A-Z]\w*[a-z]\w*")
#: Functions that build the objects of a configuration, and the modules of their classes lie in.
_OVERRIDES: Final = frozenset(
    {"process_config_with_overrides", "create_omegaconf_dict_config", "apply_overrides", "parse_hydra_overrides"}
)
#: Functions that write a few fields of the object they are given, some of them under conditions, and nothing else.
_WRITES: Final = {
    "apply_flex_dispatcher_backend": ("moe_token_dispatcher_type", "moe_flex_dispatcher_backend", "moe_shared_expert_overlap")
}
_DEFAULT_SCHEMES: Final = ("lora", "LoRA")
#: Methods that only say something.
_SPEAKING: Final = frozenset({"info", "debug", "warning", "error", "exception", "critical", "log", "print"})


class Upstream(Statements, Given):
    """The whole reader: statements, Python's own functions, and Megatron-Bridge's."""

    # ------------------------------------------------------------------ calls by name

    def call_symbol(self, function: Symbol, arguments: Arguments, node: ast.Call) -> Value:
        """Call something from outside the project."""
        path, name = function.path, function.name
        if path == "logging.getLogger" or name in ("getLogger", "get_logger"):
            return Symbol("logging.logger")
        if name in LAUNCHERS and not path.startswith("builtins."):
            return self._launched(name, arguments, node)
        if name in _OVERRIDES or path.startswith(("omegaconf.", "OmegaConf.")):
            return self._merged_in(name, arguments, node)
        if path.startswith("nemo_run."):
            return self._nemo_run(name, arguments, node)
        found = self.environment(path, arguments)
        if found is None:
            found = self.python_function(path, arguments, node)
        if found is not None:
            return found
        if path.startswith(_RECIPES) and _RECIPE_NAME.fullmatch(name):
            return self._recipe(function, arguments, node)
        if name == CONTAINER or (path.startswith(("megatron.", "transformer_engine.")) and _CLASS_NAME.fullmatch(name)):
            return self.construct(path, arguments, node)
        if name in _WRITES and path.startswith("megatron.") and self._written_by(name, arguments, node):
            return NONE
        if name in ("ArgumentParser",):
            return self.parser(node)
        if name in ("from_hf_pretrained", "from_hf_config") and "AutoBridge" in path:
            return self.new(Record("bridge", cls=_text(arguments.get(0))))
        if name in ("import_module", "__import__") and (module := _text(arguments.get(0))):
            return Symbol(module)
        if name in ("from_yaml", "from_dict") and CONTAINER in path:
            self.escape(arguments.all, "read from a file")
            return self.new(Record("config", recipe=None, opaque="read from a file"))
        if path.startswith("os.environ.") or name in ("lower", "upper"):
            return NOTHING
        return self.lost(arguments, node, ast.unparse(node.func))

    def _written_by(self, name: str, arguments: Arguments, node: ast.Call) -> bool:
        """A function of upstream writes fields of its first argument; whether that is one object for sure."""
        owner = arguments.get(0, "model_config")
        if owner is None or self.record(owner) is None:
            return False
        for field in _WRITES[name]:
            self.set(owner, field, Unknown(f"written by {name}()"), self.place(node))
        return True

    def _nemo_run(self, name: str, arguments: Arguments, node: ast.Call) -> Value:
        """NeMo-Run's scripts and executors are kept as they are made, and what is run with which."""
        if name == "Script" or name.endswith("Executor"):
            first = {"Script": "path"}.get(name, "account")
            fields = dict(arguments.named)
            if arguments.values:
                fields.setdefault(first, Cell(arguments.values[0], self.place(node)))
            opaque = "arguments that are not known" if arguments.more else ""
            return self.new(Record("namespace", cls=f"nemo_run.{name}", fields=fields, opaque=opaque))
        if name == "run":
            self.run_task(arguments, node)
        return NOTHING

    def run_task(self, arguments: Arguments, node: ast.Call) -> None:
        """A script is run, or added to an experiment."""
        script, executor = arguments.get(0, "task", "fn_or_script"), arguments.get(1, "executor")
        for task in (self.items_of(script) or [script]) if script is not None else ():
            record = self.record(task)
            if record is not None and record.cls == "nemo_run.Script":
                self.tasks.append((task, executor, node, self.state.copy()))

    def _recipe(self, function: Symbol, arguments: Arguments, node: ast.Call) -> Value:
        """A recipe is called: what its arguments touch is unknown, except where the argument is a recipe's default."""
        record = Record("config", recipe=function.name, module=function.path.rpartition(".")[0])
        owner = self.new(record)
        if arguments.more or arguments.values[1:]:
            record.opaque = "the recipe is given arguments that are not known"
        for name, value in [*(("peft_scheme", value) for value in arguments.values[:1]), *arguments.named.items()]:
            given = value.value if isinstance(value, Cell) else value
            self._argument(owner, record, str(name), given, node)
        self.escape([value for value in arguments.all if isinstance(value, Ref)], "given to a recipe")
        return owner

    def _argument(self, owner: Ref, record: Record, name: str, value: Value, node: ast.Call) -> None:
        """One argument of a recipe."""
        if name == "peft_scheme":
            if isinstance(value, Known) and value.value in _DEFAULT_SCHEMES and "peft" in (record.recipe or ""):
                return  # the default
            touched: tuple[str, ...] = ("peft", "optimizer", "scheduler", "model", "ddp", "train")
        elif name in ("hf_path", "hf_model_path", "hf_processor_path"):
            touched = ("model", "tokenizer", "dataset")
        elif name == "pretrained_checkpoint":
            touched = ("checkpoint",)
        else:
            record.opaque = record.opaque or f"the recipe is called with {name}="
            return
        for section in touched:
            part = self.get(owner, section)
            held = self.record(part)
            if held is not None:
                held.opaque = held.opaque or f"the recipe is called with {name}="
                held.kind = "part"
            else:
                record.fields[section] = Cell(Unknown(f"the recipe is called with {name}="), self.place(node))

    def construct(self, path: str, arguments: Arguments, node: ast.Call) -> Value:
        """An object of a class of upstream, or of one that builds on it."""
        name = path.rpartition(".")[2]
        kind = "config" if name == CONTAINER else "object"
        record = Record(kind, cls=path, fields=dict(arguments.named), recipe="" if kind == "config" else None)
        owner = self.new(record)
        if arguments.values or arguments.more:
            record.opaque = "made with arguments that are not named"
        if kind == "config" and arguments.values:
            self.note("arguments without names of ConfigContainer()", node)
        return owner

    # ------------------------------------------------------------------ handing over

    def _launched(self, name: str, arguments: Arguments, node: ast.Call) -> Value:
        config = arguments.get(0, "config", "cfg", "config_container")
        step = arguments.get(1, "forward_step_func", "forward_step")
        module = None
        if isinstance(step, Symbol):
            module = step.path.rpartition(".")[0].rpartition(".")[2] or None
            module = module if module and module.endswith("_step") else None
        if config is not None:
            self.show(name, config, node, True, module)
        return NONE

    # ------------------------------------------------------------------ files and arguments merged in

    def _merged_in(self, name: str, arguments: Arguments, node: ast.Call) -> Value:
        first = arguments.get(0, "config", "config_obj", "config_container", "cfg")
        if name == "process_config_with_overrides":
            file, words = arguments.get(1, "config_filepath"), arguments.get(2, "cli_overrides")
            record = self.record(first) if first is not None else None
            if record is None or record.kind != "config" or first is None:
                return self.lost(arguments, node, name)
            added = [*self._file(file, node), *self._words(words, node)]
            self._overlay(first, added)
            return first
        if name == "create_omegaconf_dict_config" and isinstance(first, Ref):
            tree = self.new(Record("merge", home=(first.id, ())))
            return Several((tree, NOTHING))
        if name == "load":
            return self.new(Record("merge", overlays=tuple(self._file(first, node))))
        if name in ("merge", "unsafe_merge"):
            return self._merge(arguments, node)
        if name == "parse_hydra_overrides":
            record = self.record(first) if first is not None else None
            if record is None or record.kind != "merge":
                return self.lost(arguments, node, name)
            record.overlays += tuple(self._words(arguments.get(1, "overrides"), node))
            return first if first is not None else NOTHING
        if name in ("to_container", "create", "to_object", "masked_copy") and first is not None:
            record = self.record(first)
            if record is not None and record.kind == "merge":
                return first
            return Unknown("", may_be(first))
        if name == "apply_overrides":
            return self._applied(first, arguments, node)
        if name in ("set_struct", "set_readonly", "resolve", "to_yaml", "is_missing", "register_new_resolver", "from_cli"):
            return NOTHING
        return self.lost(arguments, node, name)

    def _file(self, value: Value | None, node: ast.Call) -> list[Overlay]:
        if value is None or (isinstance(value, Known) and value.value is None):
            return []
        return [Overlay(_text(value), self.tick(), node.lineno if self.module == "__main__" else 0)]

    def _words(self, value: Value | None, node: ast.Call) -> list[Overlay]:
        """KEY=VALUE arguments; those of the command line are nobody's until they are given."""
        if value is None or (isinstance(value, Known) and not value.value):
            return []
        line = node.lineno if self.module == "__main__" else 0
        items = self.items_of(value)
        if items is not None and all(isinstance(item, Known) and isinstance(item.value, str) for item in items):
            texts = tuple(item.value for item in items if isinstance(item, Known))
            return [Overlay(None, self.tick(), line, texts)] if texts else []
        self.used_defaults["KEY=VALUE"] = "none"
        return [] if self.defaults else [Overlay(None, self.tick(), line)]

    def _merge(self, arguments: Arguments, node: ast.Call) -> Value:
        home: tuple[int, tuple[str, ...]] | None = None
        overlays: tuple[Overlay, ...] = ()
        for value in arguments.values:
            record = self.record(value)
            if record is not None and record.kind == "merge":
                home = home or record.home
                overlays += record.overlays
            elif value is not NONE:
                overlays += (Overlay(None, self.tick(), node.lineno),)
        first = self.record(arguments.values[0]) if arguments.values else None
        if first is not None and first.kind == "merge" and first.home is not None:
            first.overlays = overlays  # what is merged takes its place, as every program writes it
            return arguments.values[0]
        return self.new(Record("merge", home=home, overlays=overlays))

    def _applied(self, first: Value | None, arguments: Arguments, node: ast.Call) -> Value:
        second = arguments.get(1, "overrides_dict")
        tree = self.record(second) if second is not None else None
        target = self.record(first) if first is not None else None
        if target is None or target.kind != "config" or tree is None or tree.kind != "merge" or first is None:
            return self.lost(arguments, node, "apply_overrides")
        self._overlay(first, tree.overlays)
        return NONE

    def _overlay(self, config: Value, overlays: list[Overlay] | tuple[Overlay, ...]) -> None:
        record = self.record(config)
        assert record is not None
        time = self.tick()
        record.overlays += tuple(Overlay(o.path, time, o.line, o.arguments) for o in overlays)

    # ------------------------------------------------------------------ methods

    def call_method(self, owner: Value, name: str, arguments: Arguments, node: ast.Call) -> Value:
        """Call a method of a value."""
        if isinstance(owner, Known):
            return self.text_method(owner.value, name, arguments)
        record = self.record(owner)
        if name in _SPEAKING:
            return NONE
        if record is None or not isinstance(owner, Ref):
            if name == "add":
                self.run_task(arguments, node)
                return NOTHING
            arguments.values.append(owner)
            return self.lost(arguments, node, ast.unparse(node.func))
        if record.kind == "parser":
            return self.parser_method(owner, record, name, arguments)
        if record.kind in ("list", "dict"):
            return self.container_method(owner, record, name, arguments, node)
        if record.kind == "bridge":
            if name in ("to_megatron_provider", "to_megatron_config"):
                return self.new(Record("object", opaque="made from the Hugging Face configuration"))
            return NOTHING
        if record.kind in SETTINGS and safe_method(name) and not arguments.all:
            return NOTHING
        if record.kind in SETTINGS and name in ("update",) and len(arguments.values) == 1 and not arguments.named:
            self._updated(owner, record, arguments.values[0])
            return NONE
        cell = record.fields.get(name)
        if cell is not None and isinstance(cell.value, (Class,)):
            return self.instance(cell.value, arguments, node)
        if cell is not None:
            return self.call(cell.value, arguments, node)
        if record.kind in SETTINGS and safe_method(name):
            self.escape(arguments.all, f"given to .{name}()")
            return NOTHING
        arguments.values.append(owner)
        return self.lost(arguments, node, ast.unparse(node.func))

    def _updated(self, owner: Ref, record: Record, more: Value) -> None:
        """``cfg.dataset.dataset_kwargs.update({...})``: the mapping of the recipe gets entries."""
        other = self.record(more)
        if other is None or other.kind != "dict" or other.opaque:
            self.forget(record, "updated by something that is not known")
            return
        for key, cell in other.fields.items():
            if isinstance(key, str):
                record.fields[key] = Cell(cell.value, Place(cell.place.node, self.tick(), cell.place.key))


def _text(value: Value | None) -> str | None:
    return value.value if isinstance(value, Known) and isinstance(value.value, str) else None


__all__ = ["CONTAINER", "Upstream"]
