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


def tokenized(lengths: list[int], limit: int, multiple: int | None, **more: Any) -> Any:
    """Samples of these lengths as the release's tokenisation for packs pads and cuts them."""
    module, given = _tokenisation(lengths, limit, multiple)
    return module.tokenize_dataset(**{**given, **more})


def packed_into(folder: str, lengths: list[int], size: int, metadata: Any) -> None:
    """Samples of these lengths packed by the release, with the metadata at a path."""
    import inspect

    module, given = _tokenisation(lengths, size, 1)
    pack = first_of(module, "prepare_gpt_sft_packed_data", "prepare_packed_sequence_data")
    given |= {
        "input_path": given.pop("path"),
        "output_path": Path(folder) / "packs.npy",
        "output_metadata_path": metadata,
        "packed_sequence_size": size,
    }
    asked = inspect.signature(pack).parameters
    pack(**{name: value for name, value in given.items() if name in asked})


class _Samples(list):  # type: ignore[type-arg]
    tokenizer = Tokenizer()

    def __init__(self, lengths: list[int], limit: int, multiple: int) -> None:
        super().__init__(
            {
                "input_ids": [WORD] * (length + 1),
                "context_ids": [WORD],
                "answer_ids": [WORD] * length,
                "loss_mask": [1] * (length + 1),
                "answer_start_idx": 1,
            }
            for length in lengths
        )
        self.max_seq_length, self.pad_seq_length_to_mult = limit, multiple


def _tokenisation(lengths: list[int], limit: int, multiple: int | None) -> tuple[Any, dict[str, Any]]:
    import inspect

    module = first("megatron.bridge.data.packing.offline", "megatron.bridge.data.datasets.packed_sequence")

    def samples(*args: Any, **more: Any) -> _Samples:
        return _Samples(lengths, limit, max(multiple or 1, 1))

    module.create_sft_dataset = samples
    given = {
        "path": Path("training.jsonl"),
        "tokenizer": Tokenizer(),
        "max_seq_length": limit,
        "seed": 1,
        "dataset_kwargs": {},
        "pad_seq_to_mult": multiple,
        "num_tokenizer_workers": 1,
        "dataset_builder": samples,
    }
    asked = inspect.signature(module.tokenize_dataset).parameters
    return module, {name: value for name, value in given.items() if name in asked}


def first_of(module: Any, *names: str) -> Any:
    """The first of these functions that a module has."""
    return next(getattr(module, name) for name in names if hasattr(module, name))


class _OnCpu:
    """torch, for a module that asks for tensors on the GPU."""

    def __getattr__(self, name: str) -> Any:
        import torch

        return getattr(torch, name)

    def tensor(self, values: Any, dtype: Any = None, device: Any = None) -> Any:
        import torch

        return torch.tensor(values, dtype=dtype)


def loaders(rows: int, global_batch_size: int, **dataset: Any) -> Any:
    """The training loader that a release builds for a dataset of so many rows; a dataset of nobody's class."""
    import torch

    module = first("megatron.bridge.data.loaders")
    torch.distributed.get_rank = lambda group=None: 0
    torch.distributed.get_world_size = lambda group=None: 1
    module.build_train_valid_test_datasets = lambda **more: (list(range(rows)), None, None)
    held = {
        "num_workers": 0,
        "data_sharding": True,
        "pin_memory": False,
        "persistent_workers": False,
        "drop_last": True,
        **dataset,
    }
    train = {
        "global_batch_size": global_batch_size,
        "micro_batch_size": 1,
        "train_iters": 10,
        "train_samples": None,
        "num_epochs": None,
        "exit_signal": None,
        "exit_signal_handler_for_dataloader": False,
        "skip_train": False,
        "eval_iters": 0,
        "eval_interval": 10,
    }
    validation = {"skip_train": False, "eval_iters": 0, "eval_interval": 10, "eval_global_batch_size": None}
    validation["eval_micro_batch_size"] = None
    cfg = namespace(dataset=namespace(**held), train=namespace(**train), validation=namespace(**validation), model=None)
    state = namespace(consumed_train_samples=0, consumed_valid_samples=0, step=0, do_train=True, do_valid=False, do_test=False)
    torch.distributed.all_reduce = torch.distributed.broadcast = lambda *a, **k: None
    module.torch = _OnCpu()
    return module.build_train_valid_test_data_loaders(cfg, state, lambda *a, **k: None, Group(1))[0]


class Quiet:
    """Timers of a training loop: calls and contexts that do nothing."""

    def __call__(self, *args: Any, **more: Any) -> Quiet:
        return self

    start = stop = __call__

    def __enter__(self) -> None:
        return None

    def __exit__(self, *args: Any) -> None:
        return None


def forwarded(batch: dict[str, Any], plan: bool = False) -> dict[str, Any]:
    """What the release's step hands to the model for a packed batch, or to its schedule plan."""
    import torch

    step = first("megatron.bridge.training.gpt_step")
    torch.distributed.get_rank = lambda group=None: 0
    torch.distributed.get_world_size = lambda group=None: 1
    seen: dict[str, Any] = {}

    class Model:
        def __call__(self, *args: Any, **more: Any) -> None:
            seen.update(more)

        build_schedule_plan = __call__

    config = namespace(mtp_num_layers=None, overlap_moe_expert_parallel_comm=True, is_hybrid_model=False, sequence_parallel=False)
    step.get_model_config = lambda model: config
    step.get_pg_collection = lambda model: namespace(pp=Group(1), cp=Group(1), tp=Group(1))
    step.is_pp_first_stage = step.is_pp_last_stage = lambda group: True
    state = namespace(timers=Quiet(), straggler_timer=Quiet(), cfg=namespace(dataset=namespace(), model=config))
    step._forward_step_common(state, iter([batch]), Model(), plan)
    return seen


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
