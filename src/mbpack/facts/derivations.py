"""Who sets a value when the user does not, or although the user does: the start-up, ``run_recipe.py``, or nobody.

Sources: ``training/config.py``, ``ConfigContainer.validate`` (start-up); ``scripts/training/recipe_runner.py`` and
``scripts/training/run_recipe.py`` (launcher), each of the releases named.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class Setter(NamedTuple):
    """Who sets a key, in which releases (first and last, "" for open), and to what."""

    who: str  # "start-up", "run_recipe.py" or "nobody"
    since: str
    until: str
    what: str

    @property
    def span(self) -> str:
        """The releases in words."""
        if not self.since:
            return f"up to {self.until}" if self.until else "all releases"
        if not self.until:
            return f"{self.since} and later"
        return f"{self.since} to {self.until}"


class Meaning(NamedTuple):
    """What a key is, in one sentence, and who derives it."""

    text: str
    setters: tuple[Setter, ...]


_SCRIPT = Setter("nobody", "", "", "a script of your own takes the value as it is written")
_LAUNCHER = "run_recipe.py"
_START = "start-up"
_FOR_CP = "when fine-tuning with a training or evaluation context parallel size above 1"

MEANINGS: Final[Mapping[str, Meaning]] = {
    "dataset.enable_offline_packing": Meaning(
        "The switch of offline packing; before 0.6 specs with a positive size are the switch.",
        (
            Setter(
                _LAUNCHER,
                "0.4",
                "0.5",
                "--dataset llm-finetune replaces the recipe's dataset: not packed unless --packed_sequence is given",
            ),
            Setter(_LAUNCHER, "0.6", "", "a text --dataset switches it off; write it after that option to have it on"),
        ),
    ),
    "dataset.offline_packing_specs.packed_sequence_size": Meaning(
        "The capacity of a pack in tokens: no row on disk is longer.",
        (Setter(_LAUNCHER, "0.6", "", "dataset.seq_length, when offline packing is on"), _SCRIPT),
    ),
    "dataset.offline_packing_specs.pad_seq_to_mult": Meaning(
        "Every sample inside a pack is padded to a multiple of it, in tokens, so that context parallelism can cut it.",
        (
            Setter(
                _LAUNCHER,
                "0.6",
                "",
                "lcm(your value or 1, what the topology needs); packs that lie on disk already stay as they are",
            ),
            Setter(_LAUNCHER, "0.4", "0.5", "1 for a dataset chosen with --dataset, whatever the topology needs"),
            _SCRIPT,
        ),
    ),
    "model.seq_length": Meaning(
        "The longest row the model is built for, in tokens.",
        (Setter(_LAUNCHER, "0.4", "", "dataset.seq_length, when fine-tuning"), _SCRIPT),
    ),
    "model.calculate_per_token_loss": Meaning(
        "Whether the loss is summed over tokens and divided once, instead of averaged per microbatch and rank.",
        (Setter(_LAUNCHER, "0.6", "", f"true {_FOR_CP}"), _SCRIPT),
    ),
    "ddp.average_in_collective": Meaning(
        "Whether gradients are averaged inside the reduction; a loss per token must not be averaged again.",
        (Setter(_LAUNCHER, "0.6", "", f"false {_FOR_CP}"), _SCRIPT),
    ),
    "dataset.in_batch_packing_pad_to_multiple_of": Meaning(
        "Every sample of an in-batch pack is padded to a multiple of it, in tokens.",
        (Setter(_START, "0.6", "", "what the topology needs, whatever is written"),),
    ),
    "dataset.pad_to_multiple_of": Meaning(
        "Rows that are not packed are padded to a multiple of it, in tokens.",
        (Setter(_START, "0.6", "", "lcm(the value, what the topology needs), for datasets that collate"),),
    ),
    "dataset.pad_to_max_length": Meaning(
        "Whether every row is padded to the full width.",
        (Setter(_START, "0.6", "", "true with pipeline or expert parallelism, for datasets that collate"),),
    ),
    "model.sequence_parallel": Meaning(
        "Whether activations outside attention and MLP are split along the sequence over the tensor parallel ranks.",
        (Setter(_START, "0.4", "", "false at tensor parallel 1"),),
    ),
    "model.expert_tensor_parallel_size": Meaning(
        "Tensor parallel size inside the experts.",
        (
            Setter(_START, "", "0.5", "unset, the tensor parallel size"),
            Setter(_START, "0.6", "", "unset, 1 with expert parallelism, else the tensor parallel size"),
        ),
    ),
    "validation.eval_micro_batch_size": Meaning(
        "Rows of one microbatch in an evaluation.", (Setter(_START, "0.5", "", "unset, train.micro_batch_size"),)
    ),
    "validation.eval_global_batch_size": Meaning(
        "Rows of one step in an evaluation, over all ranks.", (Setter(_START, "0.5", "", "unset, train.global_batch_size"),)
    ),
    "train.micro_batch_size": Meaning(
        "Rows a data parallel rank takes at once; each packing mode has its own.",
        (Setter("nobody", "", "", "the packing mode decides what it must be: mbpack explain 1"),),
    ),
    "train.global_batch_size": Meaning(
        "Rows of one step over all ranks: packs where packing is offline, samples where it is in the batch.",
        (Setter("nobody", "", "", "it must be a multiple of micro_batch_size x data parallel size"),),
    ),
}
