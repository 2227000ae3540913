"""What demonstrations share inside a release's environment: stand-ins for GPUs, groups and tokenizers, made-up rows."""

from __future__ import annotations

import ctypes
import importlib
import sys
import types
from pathlib import Path
from typing import Any

RELEASE = ""
ENGINE = Path()
VERSION = ""
EOS, WORD = 2, 7
#: What the text datasets want to know of their columns.
FIELDS = {"prompt_template": "{input} {output}", "label_key": "output", "truncation_field": "input"}


class Reached(Exception):
    """Upstream's code went past the check in question: it asked a stand-in for what comes after."""


class Self:
    """A stand-in for an object whose method runs: attributes that are not given raise Reached."""

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)

    def __getattr__(self, name: str) -> Any:
        raise Reached(name)


def prepare(release: str, version: str, folder: Path, engine: bool = False) -> None:
    """Stand-ins for what needs CUDA; `folder` is that of the release's Transformer Engine, which alone is loaded for `engine`."""
    global RELEASE, ENGINE, VERSION
    RELEASE, ENGINE, VERSION = release, folder, version
    sys.modules.setdefault("upstream", sys.modules[__name__])
    if engine:
        return
    import typing

    import standins
    import typing_extensions

    if not hasattr(typing, "override"):  # the packages ask for Python 3.12
        typing.override = typing_extensions.override
    standins.install(version)
    import torch

    standins.pretend_gpu("H100")
    torch.Tensor.cuda = lambda self, *a, **k: self
    torch.cuda.current_device = lambda: torch.device("cpu")
    torch.cuda.synchronize = lambda *a: None


def first(*names: str) -> Any:
    """The first module of these names that the release has."""
    for name in names:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError:
            continue
    raise ModuleNotFoundError(" or ".join(names))


class Group:
    """A process group of one process that says it is one rank of many."""

    def __init__(self, size: int, rank: int = 0) -> None:
        self._size, self._rank = size, rank

    def size(self) -> int:
        return self._size

    def rank(self) -> int:
        return self._rank


class Tokenizer:
    """What datasets ask of a tokenizer: words are numbers."""

    eos_id = eod = pad_id = EOS
    bos_id, vocab_size, space_sensitive, legacy = 1, 1000, False, False

    def text_to_ids(self, text: str) -> list[int]:
        return [WORD + len(word) for word in text.split()]

    tokenize = text_to_ids

    def ids_to_text(self, ids: list[int]) -> str:
        return " ".join("x" * (number - WORD) for number in ids)


def row(lengths: list[int], multiple: int = 1, answers: bool = True) -> dict[str, Any]:
    """One packed row of samples: each has its tokens and, up to the multiple, end-of-sequence tokens; one token more is stored."""
    ids: list[int] = []
    mask: list[int] = []
    starts = []
    for number, length in enumerate(lengths):
        starts.append(len(ids))
        padded = -(-length // multiple) * multiple
        ids += [WORD + 1 + number % 50] * length + [EOS] * (padded - length + 1)
        mask += ([1] * length if answers else [0] * length) + [0] * (padded - length + 1)
    return {"input_ids": ids, "loss_mask": mask, "seq_start_id": starts}


def packed_dataset(rows: list[dict[str, Any]], width: int, **more: Any) -> Any:
    """The release's dataset of packed rows, with these rows."""
    module = first("megatron.bridge.data.packing.gpt_sft", "megatron.bridge.data.datasets.sft")

    class Rows(module.GPTSFTPackedDataset):  # type: ignore[misc, name-defined]
        def _load_dataset(self) -> None:
            self.indexed_dataset = rows

    return Rows("rows.npy", Tokenizer(), max_seq_length=width, **FIELDS, **more)


def collated(lengths: list[list[int]], width: int, multiple: int = 1, **more: Any) -> dict[str, Any]:
    """A batch of packed rows as the release's dataset collates it."""
    data = packed_dataset([row(samples, multiple) for samples in lengths], width, pad_seq_to_mult=multiple, **more)
    return dict(data.collate_fn([data[number] for number in range(len(lengths))]))


_LIBRARY: Any = None


def indices(boundaries: list[int], tokens: int, ranks: int, rank: int) -> list[int]:
    """Transformer Engine's split of a packed row, from its own kernel text; RuntimeError where its host code refuses."""
    global _LIBRARY
    from compiled import partition  # type: ignore[import-not-found]

    _LIBRARY = _LIBRARY or partition(ENGINE / "source")
    held = (ctypes.c_int * len(boundaries))(*boundaries)
    out = (ctypes.c_int * max(tokens // ranks, 1))()
    if not _LIBRARY.split(out, held, len(boundaries) - 1, tokens, ranks, rank):
        raise RuntimeError(f"the split refuses {tokens} tokens over {ranks} ranks")
    return list(out)


def with_split(ranks: int, rank: int) -> None:
    """Lets the release's step find the split and its place among the context parallel ranks."""
    import torch
    import transformer_engine_torch as tex
    from megatron.core import parallel_state

    def partitioned(cu_seqlens: Any, tokens: int, size: int, place: int) -> Any:
        return torch.tensor(indices([int(n) for n in cu_seqlens], tokens, size, place), dtype=torch.int32)

    tex.thd_get_partitioned_indices = partitioned
    torch.distributed.get_rank = lambda group=None: group.rank() if isinstance(group, Group) else 0
    torch.distributed.get_world_size = lambda group=None: group.size() if isinstance(group, Group) else 1
    parallel_state.get_context_parallel_rank = lambda: rank
    parallel_state.get_context_parallel_world_size = lambda: ranks


def split(batch: dict[str, Any], ranks: int, rank: int) -> dict[str, Any]:
    """A rank's share of a collated row, by the release's own step."""
    step = importlib.import_module("megatron.bridge.training.gpt_step")
    with_split(ranks, rank)
    if hasattr(step, "is_te_min_version"):
        step.is_te_min_version = lambda *a, **k: True
    share = {key: value for key, value in batch.items() if value is not None and key not in ("attention_mask", "token_count")}
    share["positions"] = _numbers(batch)
    last = Group(ranks, rank) if RELEASE >= "0.6" else ranks
    return dict(step._partition_packed_batch_for_cp(share, last))


def _numbers(batch: dict[str, Any]) -> Any:
    import torch

    return torch.arange(batch["tokens"].shape[1]).unsqueeze(0)


def lost(batch: dict[str, Any], ranks: int) -> int:
    """Tokens of one collated row that no rank gets."""
    seen: set[int] = set()
    for rank in range(ranks):
        seen |= {int(number) for number in split(dict(batch), ranks, rank)["positions"][0]}
    return int(batch["tokens"].shape[1]) - len(seen & set(range(batch["tokens"].shape[1])))


def one_of(batch: dict[str, Any], number: int) -> dict[str, Any]:
    """One microbatch of a batch that was collated for a whole step, as the training loop cuts it."""
    import torch

    return {key: value[number : number + 1] if isinstance(value, torch.Tensor) else value for key, value in batch.items()}


def namespace(**values: Any) -> types.SimpleNamespace:
    return types.SimpleNamespace(**values)


_SELECTOR: Any = None


def backends(gpu: int, cudnn: int = 91801, **features: Any) -> str:
    """What Transformer Engine's selection leaves for packed rows: F flash, C fused, U unfused."""
    global _SELECTOR
    from selector import Selector  # type: ignore[import-not-found]

    _SELECTOR = _SELECTOR or Selector(VERSION, ENGINE)
    width = features.pop("width", 128)
    asked = {
        "qkv_layout": "thd_thd_thd",
        "attn_mask_type": "padding_causal",
        "batch_size": 4,
        "num_heads": 32,
        "num_gqa_groups": 8,
        "max_seqlen_q": 4096,
        "max_seqlen_kv": 4096,
        "head_dim_qk": width,
        "head_dim_v": width,
        "window_size": (-1, 0),
        "core_attention_bias_shape": None,
    }
    return str(_SELECTOR.select(gpu, cudnn, **{**asked, **features}))


def exchange(**settings: Any) -> None:
    """Transformer Engine's attention over context parallel ranks, up to the exchange itself."""
    from selector import load_context_parallel

    load_context_parallel(VERSION, ENGINE)(**settings)
