"""Parallel sizes against each other, the model and the GPUs."""

from __future__ import annotations

import math
from collections.abc import Iterator

from mbpack.config.run import Run
from mbpack.config.settings import Object
from mbpack.facts.hard_blocks import MADE_AS_CORE
from mbpack.facts.keys import COPY, CP, EP, ETP, PP, TP
from mbpack.facts.releases import NIGHTLY, R03, R04, R06
from mbpack.rules.base import (
    CRASH_DATA,
    DERIVED,
    REJECTED,
    Finding,
    Fix,
    RejectingRule,
    Rule,
    set_to,
)

SP, GROUPS = "model.sequence_parallel", "model.num_query_groups"
EVAL_CP = "dist.eval_context_parallel_size"


#: Largest size that a fix looks for.
_MOST = 4096


def _divisors(number: int, limit: int = 64) -> str:
    return ", ".join(str(n) for n in range(1, min(number, limit) + 1) if number % n == 0)


def _fitting_tp(run: Run, otherwise: str, most: int | None = None) -> Fix:
    """The largest smaller tensor parallel size that heads, query groups and GPUs allow, where the file gives the size."""
    heads, groups = run.maybe("model.num_attention_heads"), run.maybe(GROUPS)
    gpus = run.context.gpus
    tp, copies = run.given_size(TP), run.pp * run.cp
    sizes = range(min(math.ceil(tp) - 1, most or math.ceil(tp), _MOST), 0, -1)
    fitting = [
        size
        for size in sizes
        if all(
            not isinstance(number, int) or number % size == 0 for number in (heads, gpus // copies if gpus and copies else None)
        )
        and (not isinstance(groups, int) or groups <= 0 or groups % size == 0 or size % groups == 0)
    ]
    if not run.wrote(TP) or not fitting:
        return Fix(f"tensor_model_parallel_size: {otherwise}")
    title = f"tensor_model_parallel_size: {fitting[0]}, the largest below {tp} that fits"
    return Fix(title, set_to(run, (TP, fitting[0])))


class WorldDivisible(RejectingRule):
    """The GPUs must divide by TP x PP x CP, and by ETP x EP x PP.

    The first product is checked before anything else, when the data parallel size is computed. The expert product
    fails when the process groups are created.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 gpus=12 launcher=script
    model: {tensor_model_parallel_size: 4, pipeline_model_parallel_size: 1, context_parallel_size: 2}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 gpus=16 launcher=script
    model: {tensor_model_parallel_size: 4, pipeline_model_parallel_size: 1, context_parallel_size: 2}
    ```

    ## Upstream
    - 0.3 to 0.7: `training/config.py`, `ConfigContainer.get_data_parallel_size`
    - all releases: Megatron-Core `parallel_state.py` (expert groups)
    """

    code, slug = "TOP102", "topo/world-divisible"

    def check(self, run: Run) -> Iterator[Finding]:
        sizes = COPY
        tp, pp, cp = (run.given_size(key) for key in sizes)
        size = tp * pp * cp
        place = next((key for key in reversed(sizes) if run.wrote(key)), CP)
        if size == 0:
            yield self.finding(
                run, REJECTED, place, f"TP {tp} x PP {pp} x CP {cp} must be positive", fix=Fix("sizes of 1 or more")
            )
            return
        gpus = run.copy_gpus
        if pp < 0 and gpus % size == 0:
            yield self.finding(
                run,
                REJECTED,
                PP,
                f"pipeline parallel {pp} must be positive",
                fix=Fix("pipeline_model_parallel_size: 1", set_to(run, (PP, 1))),
                station="topo/world-divisible@pipeline",
            )
            return
        if size < 0 and gpus % size == 0:
            yield self.finding(
                run,
                CRASH_DATA,
                place,
                f"TP {tp} x PP {pp} x CP {cp} must be positive",
                why="The division has no remainder, so the start-up goes on; process groups of that size cannot be made.",
                related=sizes,
                fix=Fix("sizes of 1 or more"),
            )
            return
        if gpus % size:
            yield self.finding(
                run,
                REJECTED,
                place,
                f"{gpus} GPUs cannot be divided by {size} = TP {tp} x PP {pp} x CP {cp}",
                why="One copy of the model takes that many GPUs; the rest would be left over.",
                related=sizes,
                fix=self._smaller(run, gpus, size),
            )
            return
        gpus, ep = run.gpus, run.given_size(EP)
        if ep <= 1 or not (isinstance(ep, int) and isinstance(pp, int)) or isinstance(run.maybe(ETP), (str, list, Object)):
            return  # validation does not read the expert tensor parallel size: a text there stops the process groups
        etp = run.etp
        expert = etp * ep * pp
        if expert > 0 and gpus % expert:
            yield self.finding(
                run,
                CRASH_DATA,
                EP,
                f"{gpus} GPUs cannot be divided by {expert} = ETP {etp} x EP {ep} x PP {pp}",
                why="The expert process groups are created before the first step and need whole groups.",
                related=(EP, ETP, PP),
                fix=Fix(f"an expert parallel size of {_divisors(gpus // (etp * pp)) if gpus % (etp * pp) == 0 else '...'}"),
            )

    @staticmethod
    def _smaller(run: Run, gpus: int, size: int | float) -> Fix:
        """The largest size that the GPUs allow for one of the sizes that the file gives; the last of them where it can be."""
        if any(isinstance(run.given_size(key), float) for key in COPY):
            return Fix(f"whole numbers whose product divides {gpus}")
        title = f"sizes whose product divides {gpus}, or a multiple of {size} GPUs"
        for key, own in ((CP, run.cp), (PP, run.pp), (TP, run.tp)):
            rest = size // own
            fitting = [one for one in range(1, min(own, _MOST)) if own % one == 0 and gpus % (rest * one) == 0]
            if run.wrote(key) and fitting:
                title = f"{key.rpartition('.')[2]}: {fitting[-1]}, the largest for {gpus} GPUs; or a multiple of {size} GPUs"
                return Fix(title, set_to(run, (key, fitting[-1])))
        return Fix(title)


class EvalWorldDivisible(RejectingRule):
    """The GPUs must divide by TP x PP x the evaluation context parallel size.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    dist: {eval_context_parallel_size: 8}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    dist: {eval_context_parallel_size: 1}
    ```

    ## Upstream
    - 0.6, 0.7: `training/config.py`, `ConfigContainer.validate`
    """

    code, slug = "TOP103", "topo/eval-world-divisible"
    releases = (R06, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        eval_cp = run.eval_cp
        if eval_cp is None:
            return
        size = run.tp * run.pp * eval_cp
        if size == 0 or run.copy_gpus % size:
            yield self.finding(
                run,
                REJECTED,
                EVAL_CP,
                f"{run.copy_gpus} GPUs cannot be divided by {size} = TP {run.tp} x PP {run.pp} x evaluation CP {eval_cp}",
                related=(TP, PP),
                fix=Fix(
                    f"eval_context_parallel_size: null, as in training, or one that divides {run.gpus} / (TP x PP)",
                    set_to(run, (EVAL_CP, None)),
                ),
            )


class SpWithoutTp(RejectingRule):
    """Sequence parallelism needs tensor parallelism.

    0.3 refuses it at TP 1, and so does every release with a model class that is Megatron-Core's own (Falcon-H1); otherwise, from
    0.4 on, it is switched off without a word, so alignment ignores it.

    ## Bad
    ```yaml
    # mbpack: bridge=0.3 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {tensor_model_parallel_size: 1, sequence_parallel: true}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.3 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {tensor_model_parallel_size: 1, sequence_parallel: false}
    ```

    ## Upstream
    - 0.3: Megatron-Core `model_parallel_config.py`; 0.4 to 0.7: `models/transformer_config.py`, `TransformerConfig.finalize`
    """

    code, slug = "TOP101", "topo/sp-without-tp"

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.sp_asked or run.given_size(TP) > 1:
            return
        fix = Fix("sequence_parallel: false", set_to(run, (SP, False)), safe=True)
        if run.release <= R03 or run.settings.class_at("model") in MADE_AS_CORE:
            yield self.finding(run, REJECTED, SP, "sequence_parallel needs tensor parallel above 1", related=(TP,), fix=fix)
        elif run.wrote(SP):
            yield self.finding(run, DERIVED, SP, "sequence_parallel is switched off at tensor parallel 1", related=(TP,), fix=fix)


class HeadsDivisible(RejectingRule):
    """The attention heads must divide by tensor parallel.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=12 launcher=script
    model: {tensor_model_parallel_size: 3}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {tensor_model_parallel_size: 4}
    ```

    ## Upstream
    - all releases: Megatron-Core `transformer_config.py`, `TransformerConfig.__post_init__`
    """

    code, slug = "TOP106", "topo/heads-divisible"

    def check(self, run: Run) -> Iterator[Finding]:
        tp, heads = run.given_size(TP), run.number("model.num_attention_heads")
        given = run.settings.recipe is not None or run.wrote("model.num_attention_heads")
        if heads == 0 and given and run.number("model.kv_channels") is None:
            yield self.finding(
                run,
                REJECTED,
                "model.num_attention_heads",
                "the model has no attention heads: their width cannot be computed (division by zero)",
                related=("model.hidden_size",),
                fix=Fix("num_attention_heads, and the other sizes of the model"),
            )
        if tp > 0 and heads is not None and heads % tp:
            yield self.finding(
                run,
                REJECTED,
                TP,
                f"{heads} attention heads cannot be split over tensor parallel {tp}",
                related=("model.num_attention_heads",),
                fix=_fitting_tp(run, f"one of {_divisors(int(heads))}"),
            )


class QueryGroupsDivisible(RejectingRule):
    """The query groups must be a multiple or a divisor of tensor parallel.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen25_500m_sft_config gpus=7 launcher=script
    model: {tensor_model_parallel_size: 7}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen25_500m_sft_config gpus=8 launcher=script
    model: {tensor_model_parallel_size: 2}
    ```

    ## Upstream
    - all releases: Megatron-Core `transformer_config.py`, `TransformerConfig.__post_init__`
    - 0.4: `models/qwen_vl/qwen35_vl_provider.py`, `validate_parallelism`
    """

    code, slug = "TOP107", "topo/query-groups-divisible"

    def check(self, run: Run) -> Iterator[Finding]:
        tp = run.given_size(TP)
        if tp == 1 and not run.wrote(GROUPS):
            return
        groups = run.number(GROUPS)
        if groups is None:
            groups = run.number("model.num_attention_heads")
        if groups and tp > groups and run.release is R04 and "Qwen35" in (run.settings.class_at("model") or ""):
            yield self.finding(
                run,
                REJECTED,
                TP,
                f"Qwen3.5-VL refuses tensor parallel {tp} above its {groups} query groups in 0.4",
                related=(GROUPS,),
                fix=_fitting_tp(run, f"at most {groups}, or 0.5", int(groups)),
            )
        elif groups and tp > 0 and groups % tp and tp % groups:
            yield self.finding(
                run,
                REJECTED,
                TP,
                f"{groups} query groups are neither a multiple nor a divisor of tensor parallel {tp}",
                related=(GROUPS,),
                fix=_fitting_tp(run, f"one of {_divisors(int(groups))}"),
            )


RULES: tuple[Rule, ...] = (
    WorldDivisible(),
    EvalWorldDivisible(),
    SpWithoutTp(),
    HeadsDivisible(),
    QueryGroupsDivisible(),
)
