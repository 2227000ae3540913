"""Logits that fill a GPU by themselves."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.run import Run
from mbpack.config.shared import shared
from mbpack.facts.gpus import GPUS, find_gpu
from mbpack.rules.base import Finding, Fix, Outcome, Rule, is_number

_WARN = Outcome("warning", "crash", "first-step")
#: Tokens of a rank from which the question is asked: fewer never fill a GPU.
_MANY = 32_768
_BYTES = 4  # the loss takes them in fp32
_GB = 10**9


@shared
def _are_many(run: Run) -> bool:
    """Whether a rank has that many tokens."""
    width, mbs = run.width, run.mbs
    return is_number(width) and is_number(mbs) and run.cp >= 1 and run.tp >= 1 and width * mbs // run.cp >= _MANY


class Logits(Rule):
    """The logits of one rank fit its GPU.

    The last stage makes one number for every token of its rows and every word of the vocabulary, and the loss needs them in
    fp32. Context parallelism divides the tokens, tensor parallelism the words. A note of size alone: what else lies on the GPU
    comes on top, and `mbpack fit` counts it.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_8b_sft_config gpus=8 gpu=h100-80gb launcher=script
    dataset: {seq_length: 131072, offline_packing_specs: {packed_sequence_size: 131072, pad_seq_to_mult: 1}}
    model: {seq_length: 131072, tensor_model_parallel_size: 1, sequence_parallel: false}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_8b_sft_config gpus=8 gpu=h100-80gb launcher=script
    dataset: {seq_length: 8192, offline_packing_specs: {packed_sequence_size: 8192, pad_seq_to_mult: 1}}
    model: {seq_length: 8192, tensor_model_parallel_size: 1, sequence_parallel: false}
    ```

    ## Upstream
    - 0.3 to 0.7: Megatron-Core `models/common/language_module/language_module.py`, `compute_language_model_loss`
    """

    code, slug = "MEM107", "mem/logits"
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        if not _are_many(run):
            return
        width, mbs, recipe = run.width, run.mbs, run.settings.recipe
        if recipe is None:
            return
        tokens = width * mbs // run.cp
        if run.maybe("model.cross_entropy_fusion_impl") == "linear":
            return
        from mbpack.facts.shapes import shape_of  # hardly a file comes here

        shape = shape_of(recipe.hf_id, recipe.model_class)
        gpu = find_gpu(run.context.gpu or "") or max(GPUS.values(), key=lambda one: one.usable)
        if shape is None:
            return
        words = shape.vocab_size // run.tp
        size = tokens * words * _BYTES
        if size < gpu.usable * 2**30 * 0.9:
            return
        split = f" / TP {run.tp}" if run.tp > 1 else ""
        yield self.finding(
            run,
            _WARN,
            "dataset.offline_packing_specs.packed_sequence_size" if run.offline else "dataset.seq_length",
            f"{tokens:,} tokens x {shape.vocab_size:,} words{split} x {_BYTES} bytes = {size / _GB:,.0f} GB of logits on one "
            f"rank, before activations: CP or TP",
            why=f"A {gpu.name} has {gpu.usable:g} GiB for everything.",
            related=("model.context_parallel_size", "model.tensor_model_parallel_size"),
            fix=Fix("more context or tensor parallelism, or a shorter row; `mbpack fit` counts all of it"),
        )


RULES: tuple[Rule, ...] = (Logits(),)
