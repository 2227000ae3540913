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
        _stand_in(text)
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
        own: Any = module  # each selector asks its own GPU, whoever else was loaded
        own.get_device_compute_capability = tools.get_device_compute_capability
        own.get_cudnn_version = tools.get_cudnn_version
        own.tex = types.SimpleNamespace(get_fused_attn_backend=self._fused)
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


def load_context_parallel(version: str, root: Path) -> Any:
    """`attn_forward_func_with_cp` of a version as a function of settings; it returns where the exchange would begin."""
    import torch

    folder = root / "transformer_engine" / "pytorch" / "attention" / "dot_product_attention"
    Selector(version, root)  # stands in for what the file imports
    text = (folder / "context_parallel.py").read_text()
    _stand_in(text)
    sys.modules["transformer_engine.pytorch.constants"].dist_group_type = object
    tools = sys.modules["transformer_engine.pytorch.utils"]
    tools.get_cudnn_version = lambda: (9, 18, 1)
    tools.nvtx_range_push = tools.nvtx_range_pop = lambda *words: None
    sys.modules["transformer_engine.pytorch.distributed"].get_distributed_world_size = lambda group: 2
    sys.modules["transformer_engine.pytorch.distributed"].get_distributed_rank = lambda group: 0
    module = types.ModuleType("context_parallel_of_" + version)
    sys.modules[module.__name__] = module
    exec(compile(text, str(folder / "context_parallel.py"), "exec"), module.__dict__)
    for name in ("AttnFuncWithCPAndKVP2P", "AttnFuncWithCPAndKVAllGather", "AttnFuncWithCPAndQKVOA2A"):
        begin = None if name.endswith("P2P") else getattr(module, name).forward
        setattr(module, name, types.SimpleNamespace(apply=lambda *args, begin=begin: _begun(begin, args)))

    def attend(comm: str = "p2p", packed: bool = True, values: int = 128, **more: Any) -> None:
        width, groups = more.pop("width", 128), more.pop("groups", 8)
        query, key, value = torch.zeros(64, 8, width), torch.zeros(64, groups, width), torch.zeros(64, groups, values)
        bounds = torch.tensor([0, 32, 64], dtype=torch.int32)
        group = [object(), object()] if comm == "a2a+p2p" else object()
        module.attn_forward_func_with_cp(
            True,
            query,
            key,
            value,
            bounds,
            bounds,
            32,
            32,
            bounds,
            bounds,
            0.0,
            group,
            [0, 1],
            None,
            comm,
            qkv_format="thd" if packed else "bshd",
            attn_mask_type="padding_causal" if packed else "causal",
            use_fused_attention=True,
            **more,
        )

    return attend


def _begun(begin: Any, args: tuple[Any, ...]) -> None:
    """The checks at the beginning of an exchange; what comes after them asks for a group that is none."""
    try:
        if begin is not None:
            begin(types.SimpleNamespace(), *args)
    except AssertionError:
        raise
    except Exception:
        return


def _stand_in(text: str) -> None:
    """Stand-ins for every module of Transformer Engine that a text imports."""
    for pair in re.findall(r"^from (transformer_engine[\w.]*) import|^import (transformer_engine[\w.]*)", text, re.MULTILINE):
        parts = (pair[0] or pair[1]).split(".")
        for end in range(1, len(parts) + 1):
            full = ".".join(parts[:end])
            if full not in sys.modules:
                sys.modules[full] = Fake(full)
                sys.modules[full].__path__ = []
                if end > 1:
                    setattr(sys.modules[".".join(parts[: end - 1])], parts[end - 1], sys.modules[full])
