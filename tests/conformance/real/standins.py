"""Stand-ins for packages that Megatron-Bridge imports but that need CUDA, a compiler, or are no part of a configuration.

Everything that decides a verdict is the release's own code. A stand-in only lets an import statement pass, and it
is used only when the package is not installed. The table is the whole list; three of its facts reach the
validation and are therefore exact: the Transformer Engine version a release pins (Megatron-Core asks for it), the
parameters of its fused Adam (the optimizer configuration inspects them), and the GPU (see `pretend_gpu`).
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.metadata
import inspect
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

# import name -> (version reported, name in the package index)
STAND_INS: dict[str, tuple[str, str]] = {
    "transformer_engine": ("", "transformer-engine"),  # the version is the release's, see `install`
    "transformer_engine_torch": ("", "transformer-engine-torch"),
    "nvidia_resiliency_ext": ("0.6.0", "nvidia-resiliency-ext"),
    "modelopt": ("0.46.0", "nvidia-modelopt"),
    "diffusers": ("0.36.0", "diffusers"),
    "comet_ml": ("3.57.0", "comet-ml"),
    "qwen_vl_utils": ("0.0.14", "qwen-vl-utils"),
}
# Callables whose parameters upstream inspects: module and name -> the parameters, in order.
SIGNATURES: dict[tuple[str, str], str] = {
    ("transformer_engine.pytorch.optimizers", "FusedAdam"): (
        "params lr bias_correction betas eps weight_decay amsgrad adam_w_mode capturable master_weights "
        "master_weight_dtype exp_avg_dtype exp_avg_sq_dtype use_decoupled_grad store_param_remainders set_grad_none"
    ),
}


@dataclass(frozen=True)
class Gpu:
    name: str
    major: int
    minor: int


GPUS = {
    "A100": Gpu("NVIDIA A100-SXM4-80GB", 8, 0),
    "L40": Gpu("NVIDIA L40", 8, 9),
    "H100": Gpu("NVIDIA H100 80GB HBM3", 9, 0),
    "B200": Gpu("NVIDIA B200", 10, 0),
    "GB200": Gpu("NVIDIA GB200", 10, 0),
    "B300": Gpu("NVIDIA B300", 10, 3),
    "GB300": Gpu("NVIDIA GB300", 10, 3),
}


class _Anything(type):
    """A class that has every public attribute, each again such a class: to inherit from, to call, to annotate with."""

    def __getattr__(cls, name: str) -> type:
        if name.startswith("_"):
            raise AttributeError(name)
        made = _anything(name)
        setattr(cls, name, made)
        return made

    def __iter__(cls) -> Iterator[object]:
        return iter(())


class _Base(metaclass=_Anything):
    def __new__(cls, *args: object, **kwargs: object) -> Any:
        if cls.__bases__ == (_Base,) and not kwargs and len(args) == 1 and isinstance(args[0], types.FunctionType):
            return args[0]  # used as a bare decorator
        return object.__new__(cls)

    def __init__(self, *args: object, **kwargs: object) -> None:
        pass

    def __init_subclass__(cls, **kwargs: object) -> None:
        pass

    def __class_getitem__(cls, item: object) -> type:
        return cls

    def __call__(self, *args: object, **kwargs: object) -> object:
        return args[0] if len(args) == 1 and callable(args[0]) else self  # a decorator with arguments

    def __getattr__(self, name: str) -> object:
        if name.startswith("_"):
            raise AttributeError(name)
        return _anything(name)

    def __enter__(self) -> object:
        return self

    def __exit__(self, *exc: object) -> None:
        pass


def _anything(name: str) -> type:
    return _Anything(name, (_Base,), {"__module__": "standin"})


class _Module(types.ModuleType):
    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        made = _anything(name)
        parameters = SIGNATURES.get((self.__name__, name))
        if parameters:
            kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
            made.__signature__ = inspect.Signature([inspect.Parameter(p, kind) for p in parameters.split()])  # type: ignore[attr-defined]
        setattr(self, name, made)
        return made


class _Distribution(importlib.metadata.Distribution):
    def __init__(self, name: str, version: str) -> None:
        self._text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"

    def read_text(self, filename: str) -> str | None:
        return self._text if filename == "METADATA" else None

    def locate_file(self, path: object) -> object:  # type: ignore[override]
        return path


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Last on sys.meta_path: it answers for the table's names that nothing else could find."""

    def __init__(self, versions: dict[str, str]) -> None:
        self.versions = versions
        self.used: set[str] = set()

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> importlib.machinery.ModuleSpec | None:
        if fullname.split(".", 1)[0] not in self.versions:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        top = spec.name.split(".", 1)[0]
        self.used.add(top)
        module = _Module(spec.name)
        module.__version__ = self.versions[top]  # type: ignore[attr-defined]
        module.__file__ = f"<stand-in for {spec.name}>"
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        pass

    def find_distributions(self, context: object = None) -> Iterator[importlib.metadata.Distribution]:
        wanted = (getattr(context, "name", None) or "").replace("_", "-").lower()
        for name, version in self.versions.items():
            index_name = STAND_INS[name][1]
            if wanted == index_name:
                yield _Distribution(index_name, version)


def install(transformer_engine: str) -> _Finder:
    """Register the stand-ins; `transformer_engine` is the version the release was built against."""
    versions = {name: version or transformer_engine for name, (version, _) in STAND_INS.items()}
    finder = _Finder(versions)
    sys.meta_path.append(finder)
    return finder


def pretend_gpu(name: str = "H100") -> None:
    """Let torch report one GPU model; the flexible token dispatchers of the releases ask for it."""
    import torch  # type: ignore[import-not-found, unused-ignore]

    gpu = GPUS[name]
    properties = types.SimpleNamespace(
        name=gpu.name, major=gpu.major, minor=gpu.minor, total_memory=80 * 2**30, multi_processor_count=132
    )
    torch.cuda.get_device_properties = lambda device=None: properties
    torch.cuda.get_device_capability = lambda device=None: (gpu.major, gpu.minor)
    torch.cuda.get_device_name = lambda device=None: gpu.name
