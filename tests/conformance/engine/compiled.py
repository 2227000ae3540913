"""Pieces of Transformer Engine's C++ text, compiled by the host's compiler so that they run without a GPU.

A CUDA kernel is an ordinary function once threadIdx and blockIdx are variables; what a host function asks the device
and cuDNN are two numbers.
"""

from __future__ import annotations

import ctypes
import hashlib
import re
import subprocess
import tempfile
from pathlib import Path

_PRELUDE = """
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <limits>
#include <string>
"""


def function(text: str, start: str) -> str:
    """The definition that begins with a line, up to the brace in the first column that closes it."""
    match = re.search(rf"^{re.escape(start)}.*?^}}", text, re.MULTILINE | re.DOTALL)
    if match is None:
        raise LookupError(f"no definition begins with {start!r}")
    return match[0]


def library(code: str) -> ctypes.CDLL:
    """C++ code as a loaded library; built once per text."""
    folder = Path(tempfile.gettempdir()) / "mbpack-conformance"
    folder.mkdir(exist_ok=True)
    name = hashlib.sha256(code.encode()).hexdigest()[:16]
    source, target = folder / f"{name}.cpp", folder / f"{name}.so"
    if not target.exists():
        source.write_text(_PRELUDE + code)
        subprocess.run(["g++", "-std=c++17", "-O1", "-w", "-shared", "-fPIC", str(source), "-o", str(target)], check=True)
    return ctypes.CDLL(str(target))


def fused_backend(source: Path) -> ctypes.CDLL:
    """`nvte_get_fused_attn_backend` as `choose(sm, cudnn, ...)`: -1 where the fused kernels take no such input."""
    text, header = (source / "fused_attn.cpp").read_text(), (source / "fused_attn.h").read_text()
    enums = "\n".join(re.findall(r"^enum NVTE_\w+ \{.*?^\};", header, re.MULTILINE | re.DOTALL))
    groups = re.findall(r"^NVTE_QKV_\w+ (nvte_get_\w+)\(NVTE_QKV_Layout", text, re.MULTILINE)
    helpers = "\n".join(function(text, _line(text, name)) for name in groups)
    offsets = function((source / "utils.cu").read_text(), "DType get_ragged_offset_dtype")
    chosen = function(text, "NVTE_Fused_Attn_Backend nvte_get_fused_attn_backend")
    return library(
        f"""
enum class DType {{ kInt32, kInt64 }};
enum NVTEDType {{ kNVTEFloat16, kNVTEBFloat16, kNVTEFloat8E4M3, kNVTEFloat8E5M2 }};
{enums}
static int SM, CUDNN;
static int cudnnGetVersion() {{ return CUDNN; }}
namespace transformer_engine {{ namespace cuda {{
static int current_device() {{ return 0; }} static int sm_arch(int) {{ return SM; }} }}
template <class T> static std::string to_string(T) {{ return ""; }}
template <class T> static T getenv(const char*, const T& otherwise) {{ return otherwise; }} }}
#define NVTE_ERROR(...) throw 1
#define NVTE_CHECK(x, ...) if (!(x)) throw 1
namespace transformer_engine {{ using ::DType; namespace fused_attn {{ {offsets} }} }}
using transformer_engine::fused_attn::get_ragged_offset_dtype;
{helpers}
{chosen}
extern "C" int choose(int sm, int cudnn, int training, int dtype, int layout, int bias, int mask, int softmax, double dropout,
                      int64_t heads, int64_t groups, int64_t q, int64_t kv, int64_t width, int64_t width_v, int64_t left,
                      int64_t right, int logit, int graph, int deterministic) {{
  SM = sm; CUDNN = cudnn;
  return nvte_get_fused_attn_backend(training, (NVTEDType)dtype, (NVTEDType)dtype, (NVTE_QKV_Layout)layout,
    (NVTE_Bias_Type)bias, (NVTE_Mask_Type)mask, (NVTE_Softmax_Type)softmax, dropout, heads, groups, q, kv, width, width_v,
    left, right, logit, graph, deterministic);
}}
"""
    )


def _line(text: str, name: str) -> str:
    match = re.search(rf"^NVTE_QKV_\w+ {name}\(", text, re.MULTILINE)
    assert match is not None
    return match[0]


def partition(source: Path) -> ctypes.CDLL:
    """`thd_partition_indices_kernel` behind the checks of its host function, as `split(out, boundaries, samples, tokens, ranks, rank)`.

    It returns false where the host refuses. A thread after the other: threadIdx and blockIdx are 0, the block has one thread.
    """
    text = (source / "context_parallel.cu").read_text()
    search = function(text, "__forceinline__ __device__ int binary_search")
    kernel = function(text, "__global__ void thd_partition_indices_kernel")
    if "thd_partition_src_index(" in kernel:  # 2.18 and later
        search += "\n" + function(text, re.search(r"^.*\bthd_partition_src_index\(", text, re.MULTILINE)[0])  # type: ignore[index]
    host = function(text, "void thd_get_partitioned_indices")
    asked = [line for line in re.findall(r"NVTE_CHECK\((.*)\);", host) if re.search(r"\b(total_tokens|rank|world_size)\b", line)]
    refuses = " && ".join(f"({line})" for line in asked)
    for name in ("__forceinline__", "__device__", "__global__", "__syncthreads();", "extern __shared__ int cu_seqlens_s[];"):
        search, kernel = search.replace(name, ""), kernel.replace(name, "")
    kernel = re.sub(r"\bassert\(.*\);", "", kernel)  # released builds are made without
    return library(
        f"""
struct Three {{ int x = 0; }};
static Three threadIdx, blockIdx; static struct {{ int x = 1; }} blockDim, gridDim;
static int cu_seqlens_s[1 << 16];
{search}
{kernel}
extern "C" int split(int *out, int *boundaries, int batch, int total_tokens, int world_size, int rank) {{
  if (!({refuses})) return 0;
  thd_partition_indices_kernel(out, boundaries, batch, total_tokens, world_size, rank);
  return 1;
}}
"""
    )
