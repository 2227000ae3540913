"""Runs inside one release's environment: packs rows with the release's own code and reports what it wrote.

    python plan_worker.py --release 0.6 --transformer-engine 2.17.1 < cases.jsonl

A case of kind `pack` is a histogram of runtime lengths: `create_packing_strategy` of the release, both algorithms. A
case of kind `prepare` is a list of stored row lengths: the release's whole preparation (`tokenize_dataset`, histogram,
packing, filling, metadata file). Prompt-completion rows go through the real dataset class, with a tokenizer that makes
one token of a word. Chat rows come from a stand-in dataset that yields tensors, as the real chat dataset does; their
number of tokens is what the case says. Up to 0.5 nothing seeds numpy, so the case's seed is set just before. This file
never imports mbpack.
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import os
import sys
import tempfile
import typing
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "real"))
import standins


class Words:
    """A tokenizer: every word is one token."""

    legacy = False
    eos_id = eod = eos = 1
    bos_id = 2
    pad_id = 0
    space_sensitive = True
    name = "words"

    def tokenize(self, text: str) -> list[int]:
        return [7] * len(text.split())

    text_to_ids = tokenize


class Chats:
    """What the chat dataset yields, by number of tokens."""

    pad_seq_length_to_mult = 1
    tokenizer = Words()

    def __init__(self, lengths: list[int], cap: int, multiple: int) -> None:
        self.lengths, self.max_seq_length, self.pad_seq_length_to_mult = lengths, cap, multiple

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, place: int) -> dict[str, Any]:
        import torch

        number = self.lengths[place]
        ids = torch.full((number,), 7, dtype=torch.long)
        return {"input_ids": ids, "loss_mask": torch.ones(number, dtype=torch.bool), "context_ids": ids[:1]}


class Release:
    """The packing modules of one release."""

    def __init__(self, release: str) -> None:
        self.old = release < "0.6"
        if self.old:
            self.algorithms = importlib.import_module("megatron.bridge.data.datasets.packing_utils")
            self.preparation = importlib.import_module("megatron.bridge.data.datasets.packed_sequence")
            self.dataset = self.preparation.create_sft_dataset
        else:
            self.algorithms = importlib.import_module("megatron.bridge.data.packing.algorithms")
            self.preparation = importlib.import_module("megatron.bridge.data.packing.offline")
            self.dataset = importlib.import_module("megatron.bridge.data.builders.gpt_sft").build_gpt_sft_split
        for module in (self.algorithms, self.preparation):  # progress bars, one a case
            if hasattr(module, "tqdm"):
                module.tqdm = lambda items, **_: items

    def pack(self, case: dict[str, Any]) -> dict[str, Any]:
        import numpy as np

        answer = {}
        for algorithm in ("first_fit_shuffle", "first_fit_decreasing"):
            np.random.seed(case["seed"])
            bins, metadata = self.algorithms.create_packing_strategy(case["histogram"], case["pack_size"], algorithm)
            answer[algorithm] = {"packs": len(bins), "metadata": metadata}
        return answer

    def prepare(self, case: dict[str, Any]) -> dict[str, Any]:
        import numpy as np

        with tempfile.TemporaryDirectory() as folder:
            rows, metadata = Path(folder, "rows.jsonl"), Path(folder, "metadata.jsonl")
            rows.write_text("".join(json.dumps(_pair(number)) + "\n" for number in case["lengths"]))
            arguments: dict[str, Any] = {
                "input_path": rows,
                "output_path": Path(folder, "training.npy"),
                "output_metadata_path": metadata,
                "packed_sequence_size": case["pack_size"],
                "tokenizer": Words(),
                "max_seq_length": case["row_cap"],
                "seed": case["seed"],
                "pad_seq_to_mult": case["multiple"],
                "dataset_kwargs": {},
            }
            chat = case["schema"] == "chat"
            stand_in = Chats(case["lengths"], case["row_cap"], case["multiple"])
            if self.old:
                self.preparation.create_sft_dataset = (lambda **_: stand_in) if chat else self.dataset
                run = self.preparation.prepare_packed_sequence_data
            else:
                arguments["dataset_builder"] = (lambda *_, **__: stand_in) if chat else self.dataset
                run = self.preparation.prepare_gpt_sft_packed_data
            if "num_tokenizer_workers" in run.__code__.co_varnames:
                arguments["num_tokenizer_workers"] = 1
            np.random.seed(case["seed"])
            try:
                run(**arguments)
            except Exception as error:
                return {"error": type(error).__name__}
            packs = np.load(arguments["output_path"], allow_pickle=True)
            return {"packs": len(packs), "metadata": json.loads(metadata.read_text())[-1]}


def _pair(number: int) -> dict[str, str]:
    """A row that becomes ``number`` tokens, its end token included."""
    answer = min(3, number - 1)
    return {"input": " ".join(["w"] * (number - 1 - answer)), "output": " ".join(["w"] * answer)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--release", required=True)
    parser.add_argument("--transformer-engine", required=True)
    args = parser.parse_args()
    os.environ.update(CUDA_VISIBLE_DEVICES="", OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1")
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    if not hasattr(typing, "override"):  # the packages ask for Python 3.12; this is all they need of it
        import typing_extensions

        typing.override = typing_extensions.override  # type: ignore[attr-defined]
    standins.install(args.transformer_engine)
    release = Release(args.release)
    for line in sys.stdin:
        case = json.loads(line)
        answer = getattr(release, case["kind"])(case)
        print(json.dumps({"id": case["id"], **answer}), flush=True)


if __name__ == "__main__":
    main()
