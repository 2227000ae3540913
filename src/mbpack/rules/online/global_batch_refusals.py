"""Global-batch online packing (0.7 and later): what the start-up refuses."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config import in_effect
from mbpack.config.run import Run
from mbpack.facts import formulas
from mbpack.facts.classes import DatasetKind
from mbpack.facts.releases import NIGHTLY, R07
from mbpack.rules.base import REJECTED, Finding, Fix, RejectingRule, Rule, in_yaml, is_number, set_to
from mbpack.rules.lookup import launcher_mends_loss, packs_online

SWITCH, LOADER, SEQ = "dataset.enable_global_batch_packing", "dataset.dataloader_type", "dataset.seq_length"
MBS, PER_TOKEN, AVERAGE = "train.micro_batch_size", "model.calculate_per_token_loss", "ddp.average_in_collective"
PP, VPP = "model.pipeline_model_parallel_size", "model.virtual_pipeline_model_parallel_size"
CP, PER_RANK, MODEL_SEQ = "model.context_parallel_size", "model.max_seqlen_per_dp_cp_rank", "model.seq_length"
GRAPHS = ("model.cuda_graph_impl", "model.vision_cuda_graph_impl")


class OnlineRule(RejectingRule):
    """A rule about runs that pack online."""

    releases = (R07, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        if packs_online(run):
            yield from self.refuse(run)

    def refuse(self, run: Run) -> Iterator[Finding]:
        """Yield what such a run is refused for."""
        raise NotImplementedError


class OnlineMbsOne(OnlineRule):
    """Global-batch packing needs micro_batch_size 1.

    ## Bad
    ```yaml
    # mbpack: bridge=0.7 gpus=8 launcher=script
    dataset: {enable_global_batch_packing: true}
    train: {micro_batch_size: 2}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.7 gpus=8 launcher=script
    dataset: {enable_global_batch_packing: true}
    train: {micro_batch_size: 1}
    ```

    ## Upstream
    - 0.7: `training/config.py`, `_validate_global_batch_packing`
    """

    code, slug = "GBP101", "gbp/mbs-one"

    def refuse(self, run: Run) -> Iterator[Finding]:
        size = run.number(MBS)
        if size is not None and size != 1:
            yield self.finding(
                run,
                REJECTED,
                MBS,
                f"global-batch packing needs micro_batch_size 1, found {size}",
                why="The scheduler hands out packs one by one.",
                related=(SWITCH,),
                fix=Fix("micro_batch_size: 1", set_to(run, (MBS, 1)), safe=True),
            )


class OnlinePerTokenLoss(OnlineRule):
    """Global-batch packing needs per-token loss, also without context parallelism.

    ## Bad
    ```yaml
    # mbpack: bridge=0.7 gpus=8 launcher=script
    dataset: {enable_global_batch_packing: true}
    model: {calculate_per_token_loss: false}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.7 gpus=8 launcher=script
    dataset: {enable_global_batch_packing: true}
    model: {calculate_per_token_loss: true}
    ```

    ## Upstream
    - 0.7: `training/config.py`, `_validate_global_batch_packing`
    """

    code, slug = "GBP102", "gbp/per-token-loss"

    def refuse(self, run: Run) -> Iterator[Finding]:
        if not run.flag(PER_TOKEN) and not launcher_mends_loss(run):
            yield self.finding(
                run,
                REJECTED,
                PER_TOKEN,
                "global-batch packing needs calculate_per_token_loss: true",
                why="Ranks train on different numbers of packs and tokens, so the loss is summed over tokens.",
                related=(SWITCH,),
                fix=Fix("calculate_per_token_loss: true", set_to(run, (PER_TOKEN, True))),
            )


class OnlineAverage(OnlineRule):
    """Global-batch packing excludes averaging gradients in the collective.

    ## Bad
    ```yaml
    # mbpack: bridge=0.7 gpus=8 launcher=script
    dataset: {enable_global_batch_packing: true}
    ddp: {average_in_collective: true}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.7 gpus=8 launcher=script
    dataset: {enable_global_batch_packing: true}
    ddp: {average_in_collective: false}
    ```

    ## Upstream
    - 0.7: `training/config.py`, `_validate_global_batch_packing`
    """

    code, slug = "GBP103", "gbp/average-in-collective"

    def refuse(self, run: Run) -> Iterator[Finding]:
        if run.flag(AVERAGE) and not launcher_mends_loss(run):
            yield self.finding(
                run,
                REJECTED,
                AVERAGE,
                "global-batch packing needs average_in_collective: false",
                why="Per-token loss divides by the tokens of all ranks; the collective must not average once more.",
                related=(SWITCH,),
                fix=Fix("average_in_collective: false", set_to(run, (AVERAGE, False))),
            )


class OnlineGraphs(OnlineRule):
    """Global-batch packing excludes CUDA graphs.

    ## Bad
    ```yaml
    # mbpack: bridge=0.7 gpus=8 launcher=script
    dataset: {enable_global_batch_packing: true}
    model: {cuda_graph_impl: transformer_engine, cuda_graph_scope: null, cuda_graph_modules: [mlp]}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.7 gpus=8 launcher=script
    dataset: {enable_global_batch_packing: true}
    model: {cuda_graph_impl: none, cuda_graph_scope: null, cuda_graph_modules: null}
    ```

    ## Upstream
    - 0.7: `training/config.py`, `_validate_global_batch_packing`
    """

    code, slug = "GBP104", "gbp/cuda-graphs"

    def refuse(self, run: Run) -> Iterator[Finding]:
        for key in GRAPHS:
            impl, name = run.value(key), key.partition(".")[2]
            if impl not in (None, "none"):
                yield self.finding(
                    run,
                    REJECTED,
                    key,
                    f"global-batch packing excludes CUDA graphs, found {impl}",
                    why="The number of microbatches and their boundaries change with every step.",
                    related=(SWITCH,),
                    fix=Fix(f"{name}: none", set_to(run, (key, "none")), safe=True),
                )


class OnlinePp(OnlineRule):
    """Global-batch packing has no pipeline parallelism.

    ## Bad
    ```yaml
    # mbpack: bridge=0.7 gpus=8 launcher=script
    dataset: {enable_global_batch_packing: true}
    model: {pipeline_model_parallel_size: 2, virtual_pipeline_model_parallel_size: null}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.7 gpus=8 launcher=script
    dataset: {enable_global_batch_packing: true}
    model: {pipeline_model_parallel_size: 1, virtual_pipeline_model_parallel_size: null}
    ```

    ## Upstream
    - 0.7: `training/config.py`, `_validate_global_batch_packing`
    """

    code, slug = "GBP105", "gbp/pp"

    def refuse(self, run: Run) -> Iterator[Finding]:
        for key, size, place in ((PP, run.pp, ""), (VPP, run.vpp, "@virtual")):
            if size is not None and (size > 1 if key == PP else size != 1):
                yield self.finding(
                    run,
                    REJECTED,
                    key,
                    f"global-batch packing runs without pipeline parallelism, found {key.rpartition('.')[2]} {size}",
                    why="The number of microbatches varies per step and rank.",
                    related=(SWITCH,),
                    fix=Fix("pipeline parallel 1, no virtual pipeline", set_to(run, (PP, 1), (VPP, None))),
                    station=self.slug + place,
                )


class OnlineLoader(OnlineRule):
    """Global-batch packing needs dataloader_type single or cyclic.

    The class default is `batch` for GPT-SFT data and null for pretraining data, which nightly can pack too.

    ## Bad
    ```yaml
    # mbpack: bridge=0.7 gpus=8 launcher=script
    dataset: {enable_global_batch_packing: true, dataloader_type: batch}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.7 gpus=8 launcher=script
    dataset: {enable_global_batch_packing: true, dataloader_type: cyclic}
    ```

    ## Upstream
    - 0.7: `data/builders/gpt_sft.py`, `GPTSFTDatasetConfig.validate`; `training/config.py`, `_validate_global_batch_packing`
    """

    code, slug = "GBP108", "gbp/dataloader-type"

    def refuse(self, run: Run) -> Iterator[Finding]:
        kind = run.value(LOADER)
        if kind not in ("single", "cyclic"):
            yield self.finding(
                run,
                REJECTED,
                LOADER,
                f"global-batch packing needs dataloader_type single or cyclic, found {in_yaml(kind)}",
                why="The scheduler takes sample by sample; the other loaders hand out whole batches.",
                related=(SWITCH,),
                fix=Fix("dataloader_type: cyclic", set_to(run, (LOADER, "cyclic")), safe=True),
                station=f"{self.slug}@dataset" if run.dataset is DatasetKind.GPT_SFT else "",
            )


class MaxSeqlenRequired(OnlineRule):
    """Global-batch packing needs max_seqlen_per_dp_cp_rank: the tokens of a pack on one rank.

    ## Bad
    ```yaml
    # mbpack: bridge=0.7 gpus=8 launcher=script
    dataset: {enable_global_batch_packing: true}
    model: {max_seqlen_per_dp_cp_rank: null}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.7 gpus=8 launcher=script
    dataset: {enable_global_batch_packing: true}
    model: {max_seqlen_per_dp_cp_rank: 4096}
    ```

    ## Upstream
    - 0.7: `training/config.py`, `_validate_global_batch_packing`
    """

    code, slug = "GBP109", "gbp/max-seqlen-required"

    def refuse(self, run: Run) -> Iterator[Finding]:
        if run.is_set(PER_RANK):
            return
        length, cp = run.maybe(SEQ), run.maybe(CP, 1)
        size = -(-length // cp) if isinstance(length, int) and isinstance(cp, int) and cp > 0 else None
        yield self.finding(
            run,
            REJECTED,
            PER_RANK,
            "global-batch packing needs max_seqlen_per_dp_cp_rank",
            why="It is the capacity of a pack on one rank; without it nothing says how full a pack may get.",
            related=(SWITCH,),
            fix=Fix(
                f"max_seqlen_per_dp_cp_rank: {size} = seq_length {length} / CP {cp}, or more"
                if size
                else "max_seqlen_per_dp_cp_rank: at least seq_length / CP",
                set_to(run, (PER_RANK, size)) if size else (),
            ),
        )


class OnlineCapacity(OnlineRule):
    """A pack must hold the longest sample: max_seqlen_per_dp_cp_rank x CP >= dataset.seq_length.

    ## Bad
    ```yaml
    # mbpack: bridge=0.7 gpus=8 launcher=script
    dataset: {enable_global_batch_packing: true, seq_length: 8192}
    model: {max_seqlen_per_dp_cp_rank: 2048, context_parallel_size: 2}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.7 gpus=8 launcher=script
    dataset: {enable_global_batch_packing: true, seq_length: 8192}
    model: {seq_length: 8192, max_seqlen_per_dp_cp_rank: 4096, context_parallel_size: 2}
    ```

    ## Upstream
    - 0.7: `training/config.py`, `_validate_global_batch_packing`
    """

    code, slug = "GBP110", "gbp/capacity"

    def refuse(self, run: Run) -> Iterator[Finding]:
        per_rank = run.number(PER_RANK)
        if not is_number(per_rank) or run.dynamic_cp:
            return
        cp = in_effect.cp_size(run)
        length, capacity = run.number(SEQ) or run.number(MODEL_SEQ), formulas.pack_capacity(per_rank, cp)
        if is_number(length) and capacity.value < length:
            need = -(-length // cp)
            yield self.finding(
                run,
                REJECTED,
                PER_RANK,
                f"a pack holds {capacity.value} tokens, but samples may have {length}",
                why=f"{capacity}.",
                related=(CP, SEQ),
                fix=Fix(f"max_seqlen_per_dp_cp_rank: {need}", set_to(run, (PER_RANK, need))),
            )


class OnlineLength(OnlineRule):
    """Samples that are packed per global batch must not be longer than the model's sequence length.

    `run_recipe.py` copies the dataset's length to the model.

    ## Bad
    ```yaml
    # mbpack: bridge=0.7 gpus=8 launcher=script
    dataset: {enable_global_batch_packing: true, seq_length: 16384}
    model: {seq_length: 8192}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.7 gpus=8 launcher=script
    dataset: {enable_global_batch_packing: true, seq_length: 8192}
    model: {seq_length: 8192}
    ```

    ## Upstream
    - 0.7: `training/config.py`, `_validate_global_batch_packing`
    """

    code, slug = "GBP119", "new/gbp-seq-exceeds-model"
    topic = "gbp"

    def refuse(self, run: Run) -> Iterator[Finding]:
        if run.repaired:
            return
        length, model = run.number(SEQ), run.number(MODEL_SEQ)
        if is_number(length) and is_number(model) and length > model:
            yield self.finding(
                run,
                REJECTED,
                SEQ if run.wrote(SEQ) or not run.wrote(MODEL_SEQ) else MODEL_SEQ,
                f"dataset.seq_length {length} is longer than model.seq_length {model}",
                why="A sample of that length has no positions in the model.",
                related=(SWITCH, SEQ, MODEL_SEQ),
                fix=Fix(f"model.seq_length: {length}", set_to(run, (MODEL_SEQ, length))),
            )


RULES: tuple[Rule, ...] = (
    OnlineMbsOne(),
    OnlinePerTokenLoss(),
    OnlineAverage(),
    OnlineGraphs(),
    OnlinePp(),
    OnlineLoader(),
    MaxSeqlenRequired(),
    OnlineCapacity(),
    OnlineLength(),
)
