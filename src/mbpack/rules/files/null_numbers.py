"""Numbers that are null or not positive, where the start-up calculates with them."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.run import COLLATING, LANGUAGE_GPUS, Run
from mbpack.facts.attention import GATED_DELTA_NET
from mbpack.facts.classes import DatasetKind
from mbpack.facts.keys import COPY, CP, EP, ETP, ITERS, LAYERS, SAMPLES, SPECS, WARM_UP_FRACTION
from mbpack.facts.releases import NIGHTLY, R04, R05, R06
from mbpack.rules.base import REJECTED, Finding, Fix, RejectingRule, Rule
from mbpack.rules.lookup import VARIANT
from mbpack.rules.parallel.weight_shards import SHARED_WEIGHTS

EVAL_MBS, EVAL_GBS = "validation.eval_micro_batch_size", "validation.eval_global_batch_size"
MBS, GBS = "train.micro_batch_size", "train.global_batch_size"
PACK_SIZE, WARM_UP = f"{SPECS}.packed_sequence_size", "scheduler.lr_warmup_iters"
MTP_PATTERN, MTP_LAYERS = "model.mtp_hybrid_override_pattern", "model.mtp_num_layers"
SEQ, LOADER = "dataset.seq_length", "dataset.micro_batch_size"
#: Sizes that gated-delta-net layers must have.
LINEAR = tuple(
    f"model.linear_{name}" for name in ("conv_kernel_dim", "key_head_dim", "value_head_dim", "num_key_heads", "num_value_heads")
)


def has_pattern(run: Run) -> bool:
    """Whether a pattern of layers, as hybrid models have it, says how many there are; on 0.3 it does not."""
    if run.release < R04:
        return False
    names = ("hybrid_layer_pattern", "hybrid_override_pattern")
    return any(isinstance(run.maybe(f"model.{name}"), str) for name in names)


class NullNumber(RejectingRule):
    """A size that is null cannot be calculated with.

    `null` replaces the number of the recipe or the class by nothing; the start-up stops with a TypeError where it first
    divides, multiplies or compares, and with an AssertionError at the sizes of gated-delta-net layers. A key that is
    left out keeps its number.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {context_parallel_size: null}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {context_parallel_size: 1}
    ```

    ## Upstream
    - 0.3 to 0.7: `training/config.py`, `ConfigContainer.get_data_parallel_size`, `_calculate_scheduler_steps` and `validate`
    - all releases: Megatron-Core `transformer_config.py`, `TransformerConfig.__post_init__`
    """

    code, slug = "CFG131", "cfg/null-number"

    def stops_at(self, run: Run) -> str:
        return ""  # it reads more than the start-up reads at one place

    def check(self, run: Run) -> Iterator[Finding]:
        if run.apart and run.value(LANGUAGE_GPUS) is None:
            yield self.finding(
                run,
                REJECTED,
                LANGUAGE_GPUS,
                f"{LANGUAGE_GPUS} is null, the GPUs of the language model are needed",
                why="The data parallel size is computed from them where vision has GPUs of its own.",
                fix=Fix("language_world_size: a number of GPUs"),
            )
        for key, station in self._used(run):
            if run.wrote(key) and run.value(key) is None:
                name = key.rpartition(".")[2]
                yield self.finding(
                    run,
                    REJECTED,
                    key,
                    f"{key} is null, a number is needed",
                    why="The start-up calculates with it, or asks for it, and stops there.",
                    fix=Fix(f"{name}: a number, or no line for {name}"),
                    station=station or _layers_station(run),
                )

    @staticmethod
    def _used(run: Run) -> Iterator[tuple[str, str]]:
        """Keys that this start-up calculates with, and where; "" for the layers: see `_layers_station`."""
        for key in COPY:
            yield key, "cfg/null-number"
        yield EP, "section:model" if run.release >= R06 and run.maybe(ETP) is None else "cfg/null-number@experts"
        if run.release >= R06:
            yield from ((size, "topo/weight-shards") for size, shards in SHARED_WEIGHTS if run.maybe(shards) is None)
        yield "model.num_attention_heads", "topo/heads-divisible"
        if not has_pattern(run):
            yield LAYERS, ""
        if R04 <= run.release <= R05 and run.maybe(MTP_PATTERN) and (has_pattern(run) or run.settings.recipe is not None):
            yield MTP_LAYERS, "ssm/layer-pattern"  # copies of the pattern; a recipe has its layers' pattern from the public model
        if run.maybe(VARIANT) == GATED_DELTA_NET:
            yield from ((key, "gdn/packed") for key in LINEAR)
        if run.maybe(ITERS) is not None and run.maybe(WARM_UP_FRACTION) is None:
            yield WARM_UP, "sched/steps"
        if run.maybe(SAMPLES) is not None and run.maybe(WARM_UP_FRACTION) is None:
            yield "scheduler.lr_warmup_samples", "sched/steps"
        if run.maybe(ITERS) is not None and (run.release < R05 or run.maybe(EVAL_GBS) is not None):
            yield GBS, "sched/steps"
        cp = run.maybe(CP)
        if isinstance(cp, (int, float)) and cp > 1:
            yield "model.seq_length", "align/model-seq-2cp"
        if run.wrote(PACK_SIZE) and run.maybe(SPECS) is not None:
            early = run.release >= R06 and run.dataset is DatasetKind.GPT_SFT
            yield PACK_SIZE, "batch/offline-size-positive@dataset" if early else "batch/offline-size-positive"
        if run.release >= R06 and run.wrote(SEQ):
            if run.dataset in COLLATING:
                yield SEQ, "dataset:seq-positive"
            elif run.dataset is DatasetKind.GPT_SFT:
                yield SEQ, "data/source-exactly-one@splits"
        if run.release >= R06 and run.wrote(LOADER) and run.dataset is DatasetKind.ENERGON:
            yield LOADER, "batch/mbs-positive@energon"
        if run.dynamic_cp and run.global_batch:
            yield "model.min_dynamic_context_parallel_size", "dcp/min-size"
        if run.wrote(MBS) and (run.release < R05 or run.maybe(EVAL_MBS) is not None) and run.offline:
            yield MBS, "batch/offline-mbs-one"  # without a size for the evaluation batch/eval-batch-missing comes first


def _layers_station(run: Run) -> str:
    """Where layers that are null stop first: FP8 counts those that may stay in BF16, else the last weights are initialized."""
    from mbpack.rules.training.fp8_fields import final  # hardly a file comes here

    return "prec/bf16-layers" if final(run, "fp8") else "section:model@layers"


class EvalBatchMissing(RejectingRule):
    """Batch sizes that are null leave the evaluation without one.

    From 0.5 on the evaluation takes the training's sizes where it has none of its own; then the training must have them.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    train: {micro_batch_size: null}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    train: {micro_batch_size: 1}
    ```

    ## Upstream
    - 0.5 to 0.7: `training/config.py`, `ConfigContainer.validate`
    """

    code, slug = "BAT114", "batch/eval-batch-missing"
    releases = (R05, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        for key in (GBS, MBS):
            name = key.partition(".")[2]
            if run.wrote(key) and run.value(key) is None and run.value(f"validation.eval_{name}") is None:
                yield self.finding(
                    run,
                    REJECTED,
                    key,
                    f"{key} is null, and so is validation.eval_{name}",
                    why="The evaluation has no batch of its own and takes that of the training.",
                    related=(f"validation.eval_{name}",),
                    fix=Fix(f"{name}: a number"),
                )


class SeqLengthPositive(RejectingRule):
    """Rows need a positive length.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_vl_8b_sft_config gpus=8 launcher=script
    dataset: {seq_length: 0}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_vl_8b_sft_config gpus=8 launcher=script
    dataset: {seq_length: 4096}
    ```

    ## Upstream
    - 0.6, 0.7: `data/builders/{direct_hf_sft,energon,mock_vlm_sft}.py`, `validate`
    """

    code, slug = "DAT140", "data/seq-length-positive"
    releases = (R06, NIGHTLY)

    def stops_at(self, run: Run) -> str:
        return "dataset:seq-positive"

    def check(self, run: Run) -> Iterator[Finding]:
        if run.dataset not in COLLATING:
            return
        length = run.number(SEQ)
        if length is not None and length <= 0:
            yield self.finding(
                run,
                REJECTED,
                SEQ,
                f"dataset.seq_length must be positive, found {length}",
                fix=Fix("a positive number of tokens"),
                station="dataset:seq-positive",
            )


class LayersPositive(RejectingRule):
    """A model has at least one layer.

    The deviation of its last initial weights is divided by the root of twice the number of layers. The pattern of a hybrid model,
    where it counts the layers, takes the number's place.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {num_layers: 0}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {num_layers: 1}
    ```

    ## Upstream
    - all releases: Megatron-Core `utils.py`, `scaled_init_method_normal` and `mup_scaled_init_method_normal` (ZeroDivisionError,
      ValueError), from `TransformerConfig.__post_init__`
    """

    code, slug = "TOP111", "topo/layers-positive"

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.wrote(LAYERS) or has_pattern(run) or run.is_set("model.output_layer_init_method"):
            return
        layers = run.number(LAYERS)
        if layers is not None and layers <= 0:
            yield self.finding(
                run,
                REJECTED,
                LAYERS,
                f"the model has {layers} layers",
                why="The deviation of the last initial weights is divided by the root of twice that number.",
                fix=Fix("num_layers: 1 or more, or no line for num_layers"),
                station="section:model@layers",
            )


RULES: tuple[Rule, ...] = (NullNumber(), EvalBatchMissing(), SeqLengthPositive(), LayersPositive())
