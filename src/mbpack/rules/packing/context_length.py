"""Sequence lengths against the context a model was trained with."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.in_effect import DATA_SEQ, MODEL_SEQ, count, sample_limit
from mbpack.config.run import Run
from mbpack.rules.base import NOTE, SILENT, Finding, Fix, Rule

#: Settings that scale rotary positions beyond the trained context, or replace them.
SCALING = ("model.seq_len_interpolation_factor", "model.rope_scaling", "model.rope_scaling_factor", "model.rotary_base")
POSITIONS = "model.position_embedding_type"


class BeyondContext(Rule):
    """A sequence longer than the model's trained context needs scaled positions.

    Nothing compares the two, and Bridge does not scale rotary positions by itself: beyond the context a model meets
    positions it has never seen, and its quality drops without a message. YaRN (`position_embedding_type: yarn` and the `yarn_*`
    settings), `seq_len_interpolation_factor` or a larger `rotary_base` extend it. Packed samples count from zero each, so
    that packs may be longer as long as no sample is.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=32 launcher=script
    model: {tensor_model_parallel_size: 2, sequence_parallel: true, context_parallel_size: 8, seq_length: 131072, calculate_per_token_loss: true}
    ddp: {average_in_collective: false}
    train: {global_batch_size: 8}
    dataset: {seq_length: 131072, enable_offline_packing: false, offline_packing_specs: null}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama31_8b_sft_config gpus=32 launcher=script
    model: {tensor_model_parallel_size: 2, sequence_parallel: true, context_parallel_size: 8, seq_length: 131072, calculate_per_token_loss: true}
    ddp: {average_in_collective: false}
    train: {global_batch_size: 8}
    dataset: {seq_length: 131072, enable_offline_packing: false, offline_packing_specs: null}
    ```

    ## Upstream
    - 0.3 to 0.7: no check; `models/gpt_provider.py`, `GPTModelProvider` (`position_embedding_type`, `yarn_*`,
      `seq_len_interpolation_factor`)
    """

    code, slug = "SEQ106", "seq/beyond-context"
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        recipe = run.settings.recipe
        if recipe is None or not (run.wrote(DATA_SEQ) or run.wrote(MODEL_SEQ)):
            return
        context = recipe.context
        longest = sample_limit(run) if run.offline else count(run, MODEL_SEQ)
        if context is None or longest is None or longest <= context or self._scaled(run):
            return
        packed, seen = run.packed, self._seen(run)
        if seen is not None and seen <= context:
            return
        key = MODEL_SEQ if run.wrote(MODEL_SEQ) and not run.offline else DATA_SEQ if run.wrote(DATA_SEQ) else MODEL_SEQ
        yield self.finding(
            run,
            NOTE if packed and seen is None else SILENT.as_warning(),
            key,
            f"{'samples of up to' if packed else 'rows of'} {seen or longest:,} tokens are longer than the {context:,} this model"
            " was trained with",
            why="Nothing scales the rotary positions by itself: beyond the trained context quality drops without a message."
            + (" Positions start anew in every packed sample, so only longer samples are concerned." if packed else ""),
            related=(MODEL_SEQ, POSITIONS),
            fix=Fix("a model with that context, or scaled positions (position_embedding_type: yarn and its yarn_* settings)"),
        )

    @staticmethod
    def _scaled(run: Run) -> bool:
        if run.maybe(POSITIONS) not in (None, "rope"):
            return True
        if any(run.wrote(key) and run.maybe(key) not in (None, False) for key in SCALING):
            return True
        return run.maybe(SCALING[0]) is not None or any(
            run.wrote(f"model.{name}") for name in ("yarn_rotary_scaling_factor", "transformer.yarn_rotary_scaling_factor")
        )

    @staticmethod
    def _seen(run: Run) -> int | None:
        """The longest sample that somebody counted."""
        lengths = run.evidence.raw_lengths
        found = run.evidence.packs.get("training")
        if found is not None and found.statistics is not None and found.statistics.lengths:
            return max(found.statistics.lengths)
        return max(lengths) - 1 if lengths else None


RULES: tuple[Rule, ...] = (BeyondContext(),)
