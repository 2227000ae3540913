"""Stand-ins for the libraries that a generated program imports, so that it can be run and compared with what was read."""

from __future__ import annotations

import builtins
import contextlib
import copy
import inspect
import io
import os
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

#: Lines of a program that are run at most.
MOST_LINES = 3000


class Thing:
    """An object of a configuration: attributes are what was set on it."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)

    def validate(self) -> None:
        """As the real one: changes nothing here."""


class Specs(Thing):
    """An object that a program makes: an argument that was not given has its default."""

    def __init__(self, packed_sequence_size: int = -1, pad_seq_to_mult: int | None = 1, **fields: Any) -> None:
        super().__init__(packed_sequence_size=packed_sequence_size, pad_seq_to_mult=pad_seq_to_mult, **fields)


class Adapter(Thing):
    """Another one."""

    def __init__(self, dim: int = 32, alpha: int = 32) -> None:
        super().__init__(dim=dim, alpha=alpha)


def recipe(name: str) -> Thing:
    """What a recipe returns: values that no program of the tests writes, so that a change shows."""
    return Thing(
        name=name,
        model=Thing(seq_length=1001, context_parallel_size=1002, tensor_model_parallel_size=1003, sequence_parallel=None),
        train=Thing(micro_batch_size=1004, global_batch_size=1005, train_iters=1006),
        dataset=Thing(seq_length=1007, offline_packing_specs=Thing(packed_sequence_size=1008, pad_seq_to_mult=1009)),
        optimizer=Thing(lr=1010.5, min_lr=1011.5),
        checkpoint=Thing(save="base", load=None),
        peft=Thing(dim=1012, alpha=1013),
    )


def mystery(config: Any) -> Any:
    """A function that cannot be read: it changes what it is given."""
    if isinstance(config, Thing) and hasattr(config, "train"):
        config.train.micro_batch_size = 77
        config.dataset = Thing(seq_length=78)
    elif isinstance(config, Thing):
        config.seq_length = 79
    elif isinstance(config, list):
        config.append(80)
    elif isinstance(config, dict):
        config["lr"] = 81
    return config


def build(size: int = 1) -> Thing:
    """A function that cannot be read: it makes a configuration."""
    return recipe(f"built-{size}")


class Run:
    """What a program did: the configurations it handed over, as they were then."""

    def __init__(self) -> None:
        self.handed: list[tuple[int, Thing]] = []

    def finetune(self, config: Thing, step: Any = None) -> None:
        """Take a configuration."""
        self.handed.append((sys._getframe(1).f_lineno, copy.deepcopy(config)))

    def modules(self) -> dict[str, types.ModuleType]:
        """The modules that programs may import."""
        found: dict[str, dict[str, Any]] = {
            "megatron.bridge.recipes.some": {name: _recipe(name) for name in ("first_config", "second_config")},
            "megatron.bridge.data.packing.config": {"PackedSequenceSpecs": Specs},
            "megatron.bridge.peft.lora": {"LoRA": Adapter},
            "megatron.bridge.training.finetune": {"finetune": self.finetune},
            "megatron.bridge.training.gpt_step": {"forward_step": None},
            "elsewhere": {"mystery": mystery, "build": build},
            "click": {"command": lambda: _click_command, "option": _click_option},
            "typer": {"Typer": _Typer, "Option": lambda default, **more: default, "run": _call_with_words},
            "hydra": {"main": lambda **given: lambda function: lambda: function(Thing(size=6))},
        }
        modules = {}
        for path, names in found.items():
            module = types.ModuleType(path)
            module.__dict__.update(names)
            modules[path] = module
        for path in list(modules):
            while "." in path:
                above, _, name = path.rpartition(".")
                setattr(modules.setdefault(above, types.ModuleType(above)), name, modules[path])
                path = above
        return modules


def _call_with_words(function: Any, flags: Mapping[str, Any] | None = None) -> None:
    """Call a function as click and typer do: its parameters are the options of the command line."""
    spec = inspect.signature(function).parameters
    named = {name: parameter.default for name, parameter in spec.items() if parameter.default is not parameter.empty}
    named.update(flags or {})
    words = sys.argv[1:]
    while words:
        name = words.pop(0)[2:]
        if name in named:
            named[name] = True if named[name] in (True, False) else type(named[name])(words.pop(0))
        elif words and not words[0].startswith("--"):
            words.pop(0)
    function(**named)


def _click_option(flag: str, **given: Any) -> Any:
    def keep(function: Any) -> Any:
        default = given.get("default", False if given.get("is_flag") else None)
        function.flags = {flag[2:]: default, **getattr(function, "flags", {})}
        return function

    return keep


def _click_command(function: Any) -> Any:
    return lambda: _call_with_words(function, function.flags)


class _Typer:
    def command(self) -> Any:
        def keep(function: Any) -> Any:
            self.function = function
            return function

        return keep

    def __call__(self) -> None:
        _call_with_words(self.function)


def _recipe(name: str) -> Any:
    def called() -> Thing:
        return recipe(name)

    return called


@contextlib.contextmanager
def _around(arguments: Sequence[str], environment: Mapping[str, str], modules: Mapping[str, Any]) -> Iterator[None]:
    argv, held = sys.argv, dict(os.environ)
    upstream = {name: module for name, module in modules.items() if name.startswith("megatron")}
    known = {name: sys.modules[name] for name in upstream if name in sys.modules}
    sys.modules.update(upstream)
    sys.argv = ["program", *arguments]
    os.environ.update(environment)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        sys.argv = argv
        os.environ.clear()
        os.environ.update(held)
        for name in upstream:
            del sys.modules[name]
        sys.modules.update(known)


class _TooLong(BaseException):
    """A program goes round in circles."""


@contextlib.contextmanager
def _bounded() -> Iterator[None]:
    lines = 0

    def trace(frame: types.FrameType, event: str, argument: Any) -> Any:
        nonlocal lines
        lines += frame.f_code.co_filename == "program.py"
        if lines > MOST_LINES:
            raise _TooLong
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


def run(source: str, arguments: Sequence[str] = (), environment: Mapping[str, str] | None = None) -> list[tuple[int, Thing]]:
    """Run a program and return the configurations it handed over, with their lines, up to where it fails or runs too long."""
    record = Run()
    modules = record.modules()
    real = builtins.__import__

    def importing(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        if name not in modules:
            return real(name, globals, locals, fromlist, level)
        return modules[name] if fromlist else modules[name.partition(".")[0]]

    held = {**vars(builtins), "__import__": importing}
    with _around(arguments, environment or {}, modules), contextlib.suppress(Exception, SystemExit, _TooLong), _bounded():
        exec(compile(source, "program.py", "exec"), {"__name__": "__main__", "__builtins__": held})
    return record.handed
