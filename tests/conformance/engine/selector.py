"""Transformer Engine's own choice of an attention backend, `get_attention_backend`, without a GPU.

Runs in an environment with torch. The file is the version's own; what it imports is stood in for, except that the
question to cuDNN is answered by the version's own C++ text (:mod:`compiled`).
"""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from compiled import fused_backend  # type: ignore[import-not-found]  # run as a script

UTILS = "transformer_engine.pytorch.attention.dot_product_attention.utils"
FLASH_2 = {"2.12.0": "2.8.3", "2.14.1": "2.8.3", "2.16.0": "2.8.3", "2.17.1": "2.8.3", "2.18.0": "2.8.3"}


class Names(dict):  # type: ignore[type-arg]
    """A mapping of names to numbers in the order of an enumeration."""


class Fake(types.ModuleType):
    """A module in which every name is a class of its own."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (), {})
        setattr(self, name, made)
        return made


class Recipe:
    """An FP8 recipe as the selection asks one: by methods of its kinds."""

    def __init__(self, kind: str) -> None:
        self.kind, self.fp8_dpa, self.fp8_mha = kind, kind != "none", False

    def __getattr__(self, name: str) -> Any:
        if name in (
            "delayed",
            "float8_current_scaling",
            "mxfp8",
            "float8_block_scaling",
            "nvfp4",
            "float8_per_tensor_scaling",
            "custom",
        ):
            return lambda: name == self.kind
        raise AttributeError(name)


class Selector:
    """One version."""

    def __init__(self, version: str, root: Path) -> None:
        import torch

        self.torch, self.version = torch, version
        self.lib = fused_backend(root / "source")
        self.lib.choose.argtypes = _types()
        header = (root / "source" / "fused_attn.h").read_text()
        self.enums = {
            kind: _enum(header, kind) for kind in ("NVTE_QKV_Layout", "NVTE_Bias_Type", "NVTE_Mask_Type", "NVTE_Softmax_Type")
        }
        self.sm, self.cudnn = 90, 91800
        self.module = self._load(root / "transformer_engine" / "pytorch" / "attention" / "dot_product_attention" / "utils.py")

    def _load(self, path: Path) -> types.ModuleType:
        text = path.read_text()
        for name in re.findall(r"^from (transformer_engine[\w.]*) import|^import (transformer_engine\w*)", text, re.MULTILINE):
            parts = (name[0] or name[1]).split(".")
            for end in range(1, len(parts) + 1):
                full = ".".join(parts[:end])
                if full not in sys.modules:
                    sys.modules[full] = Fake(full)
                    sys.modules[full].__path__ = []
        engine = sys.modules["transformer_engine"]
        engine.__version__ = self.version
        tex = sys.modules["transformer_engine_torch"]
        tex.get_fused_attn_backend = self._fused
        fused = sys.modules["transformer_engine.pytorch.cpp_extensions.fused_attn"]
        fused.QKVLayout, fused.AttnBiasType = self.enums["NVTE_QKV_Layout"], self.enums["NVTE_Bias_Type"]
        fused.AttnMaskType, fused.SoftmaxType = self.enums["NVTE_Mask_Type"], self.enums["NVTE_Softmax_Type"]
        fused.FusedAttnBackend = {"F16_max512_seqlen": 0, "F16_arbitrary_seqlen": 1, "FP8": 2, "No_Backend": -1}
        constants = sys.modules["transformer_engine.pytorch.constants"]
        constants.TE_DType = {self.torch.float16: 0, self.torch.bfloat16: 1}
        constants.MXFP8_BLOCK_SCALING_SIZE = 32
        sys.modules["transformer_engine.pytorch.quantization"].get_fp8_te_dtype = lambda recipe, fprop_tensor=True: 2
        tools = sys.modules["transformer_engine.pytorch.utils"]
        tools.get_device_compute_capability = lambda: divmod(self.sm, 10)
        tools.get_cudnn_version = lambda: (self.cudnn // 10000, self.cudnn // 100 % 100, self.cudnn % 100)
        sys.modules["transformer_engine.pytorch.export"].is_in_onnx_export_mode = lambda: False
        sys.modules["transformer_engine.pytorch.jit"].jit_fuser = lambda function: function
        self.torch.cuda.current_device = lambda: 0
        module = types.ModuleType(UTILS)
        sys.modules[UTILS] = module
        exec(compile(text, str(path), "exec"), module.__dict__)
        flash = module.FlashAttentionUtils
        flash.version = module.PkgVersion(FLASH_2[self.version])
        flash.set_flash_attention_version()
        return module

    def _fused(self, *given: Any) -> int:
        numbers = [float(value) if place == 7 else int(value) for place, value in enumerate(given) if place != 2]
        numbers = [int(given[0]), int(given[1]), *(given[3:7]), float(given[7]), *given[8:]]
        return int(self.lib.choose(self.sm, self.cudnn, *numbers))

    def select(self, sm: int, cudnn: int, **features: Any) -> str:
        """The available backends: F flash (2), C fused, U unfused; "" where none takes the input."""
        self.sm, self.cudnn = sm, cudnn
        kind = features.pop("fp8", "none")
        more: dict[str, Any] = {}
        if kind != "none":
            more = {"fp8": True, "fp8_meta": {"recipe": Recipe(kind), "local_recipes": None}}
        params = self.module.AttentionParams(qkv_dtype=self.torch.bfloat16, **features, **more)
        available = self.module.get_attention_backend(params)[-1]
        return "".join(letter for letter, there in zip("FCU", available, strict=True) if there)


def _enum(header: str, kind: str) -> dict[str, int]:
    body = re.search(rf"^enum {kind} \{{(.*?)^\}};", header, re.MULTILINE | re.DOTALL)
    assert body is not None
    names = re.findall(r"^\s*NVTE_(\w+?)(?: = (-?\d+))?,", body[1], re.MULTILINE)
    numbers = {name: int(number) for name, number in names if number}
    return {
        name.lower().replace("_mask", "" if name != "NO_MASK" else "_mask").replace("_softmax", ""): n
        for name, n in numbers.items()
    } | {"vanilla": 0, "off-by-one": 1, "learnable": 2}


def _types() -> list[Any]:
    import ctypes

    whole, long = ctypes.c_int, ctypes.c_int64
    return [*[whole] * 8, ctypes.c_double, *[long] * 8, whole, whole, whole]
