"""What the start-up asks of a run whose Energon loader packs natively (0.7 and later)."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.run import Run
from mbpack.facts.releases import NIGHTLY, R07
from mbpack.rules.base import DERIVED, REJECTED, Finding, Fix, Outcome, RejectingRule, Rule, set_to
from mbpack.rules.lookup import DELAYED, OVERLAP, launcher_mends_loss, overlap_off

BUFFER, MBS, TRAIN_MBS = "dataset.packing_buffer_size", "dataset.micro_batch_size", "train.micro_batch_size"
PER_TOKEN, AVERAGE = "model.calculate_per_token_loss", "ddp.average_in_collective"
MTP, PP = "model.mtp_num_layers", "model.pipeline_model_parallel_size"
GRAPH, VISION_GRAPH = "model.cuda_graph_impl", "model.vision_cuda_graph_impl"
DIST_TRAIN = "model.dist_train.use_dist_train"


class NativeMbs(RejectingRule):
    """Native Energon packing needs micro_batch_size 1.

    The loader already returns full rows. The value has two owners, the dataset and the training section.

    ## Bad
    ```yaml
    # mbpack: bridge=0.7 recipe=qwen3_vl_8b_peft_1gpu_h100_bf16_energon_config gpus=8 launcher=script
    dataset: {path: data/energon, packing_buffer_size: 16, micro_batch_size: 2}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.7 recipe=qwen3_vl_8b_peft_1gpu_h100_bf16_energon_config gpus=8 launcher=script
    dataset: {path: data/energon, packing_buffer_size: 16, micro_batch_size: 1}
    train: {micro_batch_size: 1}
    model: {calculate_per_token_loss: true}
    ddp: {average_in_collective: false}
    checkpoint: {pretrained_checkpoint: ckpt/base}
    ```

    ## Upstream
    - 0.7: `data/builders/energon.py`, `EnergonDatasetConfig.validate`; `training/config.py`, `ConfigContainer.validate`
    """

    code, slug = "NRG101", "nrg/mbs"
    releases = (R07, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.energon_packing:
            return
        for key, station in ((MBS, "nrg/mbs"), (TRAIN_MBS, "nrg/mbs@train")):
            size = run.number(key)
            if size is not None and size != 1:
                yield self.finding(
                    run,
                    REJECTED,
                    key,
                    f"native Energon packing needs {key} 1, found {size}",
                    why="A row of the loader already is a full pack.",
                    related=(BUFFER,),
                    fix=Fix("micro_batch_size: 1 in both sections", set_to(run, (MBS, 1), (TRAIN_MBS, 1)), safe=True),
                    station=station,
                )


class NativePerTokenLoss(RejectingRule):
    """Native Energon packing needs per-token loss, also without context parallelism.

    Packs hold different numbers of supervised tokens; averaging per row would weigh them wrongly. `run_recipe.py` sets
    it only with context parallelism.

    ## Bad
    ```yaml
    # mbpack: bridge=0.7 recipe=qwen3_vl_8b_peft_1gpu_h100_bf16_energon_config gpus=8 launcher=script
    dataset: {path: data/energon, packing_buffer_size: 16, micro_batch_size: 1}
    train: {micro_batch_size: 1}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.7 recipe=qwen3_vl_8b_peft_1gpu_h100_bf16_energon_config gpus=8 launcher=script
    dataset: {path: data/energon, packing_buffer_size: 16, micro_batch_size: 1}
    train: {micro_batch_size: 1}
    model: {calculate_per_token_loss: true}
    ddp: {average_in_collective: false}
    checkpoint: {pretrained_checkpoint: ckpt/base}
    ```

    ## Upstream
    - 0.7: `training/config.py`, `ConfigContainer.validate`
    """

    code, slug = "NRG102", "nrg/per-token-loss"
    releases = (R07, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.energon_packing or run.flag(PER_TOKEN) or launcher_mends_loss(run):
            return
        yield self.finding(
            run,
            REJECTED,
            PER_TOKEN,
            "native Energon packing needs calculate_per_token_loss: true",
            why="Packs hold different numbers of supervised tokens, so the loss is summed over tokens.",
            related=(BUFFER,),
            fix=Fix("calculate_per_token_loss: true", set_to(run, (PER_TOKEN, True))),
        )


class NativeAverage(RejectingRule):
    """Native Energon packing excludes averaging gradients in the collective.

    ## Bad
    ```yaml
    # mbpack: bridge=0.7 recipe=qwen3_vl_8b_peft_1gpu_h100_bf16_energon_config gpus=8 launcher=script
    dataset: {path: data/energon, packing_buffer_size: 16, micro_batch_size: 1}
    train: {micro_batch_size: 1}
    ddp: {average_in_collective: true}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.7 recipe=qwen3_vl_8b_peft_1gpu_h100_bf16_energon_config gpus=8 launcher=script
    dataset: {path: data/energon, packing_buffer_size: 16, micro_batch_size: 1}
    train: {micro_batch_size: 1}
    model: {calculate_per_token_loss: true}
    ddp: {average_in_collective: false}
    checkpoint: {pretrained_checkpoint: ckpt/base}
    ```

    ## Upstream
    - 0.7: `training/config.py`, `ConfigContainer.validate`
    """

    code, slug = "NRG103", "nrg/avg-in-collective"
    releases = (R07, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.energon_packing or not run.flag(AVERAGE) or launcher_mends_loss(run):
            return
        yield self.finding(
            run,
            REJECTED,
            AVERAGE,
            "native Energon packing needs average_in_collective: false",
            why="Per-token loss divides by the tokens of all ranks; the collective must not average once more.",
            related=(BUFFER, PER_TOKEN),
            fix=Fix("average_in_collective: false", set_to(run, (AVERAGE, False))),
        )


class NativeMtp(Rule):
    """MTP with native Energon packing: snapshots of 0.7 from August 2026 refuse it, later ones allow it.

    ## Bad
    ```yaml
    # mbpack: bridge=0.7 recipe=qwen3_vl_8b_peft_1gpu_h100_bf16_energon_config gpus=8 launcher=script
    dataset: {path: data/energon, packing_buffer_size: 16, micro_batch_size: 1}
    train: {micro_batch_size: 1}
    model: {mtp_num_layers: 1, calculate_per_token_loss: true}
    ddp: {average_in_collective: false}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.7 recipe=qwen3_vl_8b_peft_1gpu_h100_bf16_energon_config gpus=8 launcher=script
    dataset: {path: data/energon, packing_buffer_size: 16, micro_batch_size: 1}
    train: {micro_batch_size: 1}
    model: {mtp_num_layers: null, calculate_per_token_loss: true}
    ddp: {average_in_collective: false}
    checkpoint: {pretrained_checkpoint: ckpt/base}
    ```

    ## Upstream
    - 0.7 of 2026-08-10 to 2026-09-07: `training/config.py`, `ConfigContainer.validate`; removed afterwards
    """

    code, slug = "NRG104", "nrg/mtp"
    releases = (R07, R07)
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        if (run.number(MTP) or 0) > 0 and run.energon_packing:
            yield self.finding(
                run,
                DERIVED,
                MTP,
                "development snapshots of 0.7 from August 2026 refuse MTP with native Energon packing",
                why="The check was removed in September 2026: MTP labels roll inside the sample boundaries.",
                related=(BUFFER,),
            )


class NativeGraphs(RejectingRule):
    """Native Energon packing excludes CUDA graphs, of the model and of its vision part.

    ## Bad
    ```yaml
    # mbpack: bridge=0.7 recipe=qwen3_vl_8b_peft_1gpu_h100_bf16_energon_config gpus=8 launcher=script
    dataset: {path: data/energon, packing_buffer_size: 16, micro_batch_size: 1}
    train: {micro_batch_size: 1}
    model: {calculate_per_token_loss: true, vision_cuda_graph_impl: transformer_engine}
    ddp: {average_in_collective: false}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.7 recipe=qwen3_vl_8b_peft_1gpu_h100_bf16_energon_config gpus=8 launcher=script
    dataset: {path: data/energon, packing_buffer_size: 16, micro_batch_size: 1}
    train: {micro_batch_size: 1}
    model: {calculate_per_token_loss: true, cuda_graph_impl: none}
    ddp: {average_in_collective: false}
    checkpoint: {pretrained_checkpoint: ckpt/base}
    ```

    ## Upstream
    - 0.7: `training/config.py`, `ConfigContainer.validate`
    """

    code, slug = "NRG105", "nrg/cuda-graphs"
    releases = (R07, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.energon_packing:
            return
        for key in (GRAPH, VISION_GRAPH):
            impl = run.value(key)
            if impl not in (None, "none"):
                yield self.finding(
                    run,
                    REJECTED,
                    key,
                    f"native Energon packing excludes CUDA graphs, found {key.rpartition('.')[2]} {impl}",
                    why="Rows differ in width and in their sample boundaries from step to step.",
                    related=(BUFFER,),
                    fix=Fix(f"{key.rpartition('.')[2]}: none", set_to(run, (key, "none")), safe=True),
                )


class NativeDistTrain(RejectingRule):
    """Native Energon packing excludes DistTrain.

    ## Bad
    ```yaml
    # mbpack: bridge=0.7 recipe=qwen3_vl_8b_peft_1gpu_h100_bf16_energon_config gpus=8 launcher=script
    dataset: {path: data/energon, packing_buffer_size: 16, micro_batch_size: 1}
    train: {micro_batch_size: 1}
    model: {calculate_per_token_loss: true, dist_train: {use_dist_train: true}}
    ddp: {average_in_collective: false}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.7 recipe=qwen3_vl_8b_peft_1gpu_h100_bf16_energon_config gpus=8 launcher=script
    dataset: {path: data/energon, packing_buffer_size: 16, micro_batch_size: 1}
    train: {micro_batch_size: 1}
    model: {calculate_per_token_loss: true}
    ddp: {average_in_collective: false}
    checkpoint: {pretrained_checkpoint: ckpt/base}
    ```

    ## Upstream
    - 0.7: `training/config.py`, `ConfigContainer.validate`
    """

    code, slug = "NRG106", "nrg/disttrain"
    releases = (R07, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        if run.energon_packing and run.flag(DIST_TRAIN):
            yield self.finding(
                run,
                REJECTED,
                DIST_TRAIN,
                "native Energon packing excludes DistTrain",
                related=(BUFFER,),
                fix=Fix("use_dist_train: false", set_to(run, (DIST_TRAIN, False))),
            )


class NativePp(RejectingRule):
    """Native Energon packing has no pipeline parallelism.

    ## Bad
    ```yaml
    # mbpack: bridge=0.7 recipe=qwen3_vl_8b_peft_1gpu_h100_bf16_energon_config gpus=8 launcher=script
    dataset: {path: data/energon, packing_buffer_size: 16, micro_batch_size: 1}
    train: {micro_batch_size: 1}
    model: {calculate_per_token_loss: true, pipeline_model_parallel_size: 2}
    ddp: {average_in_collective: false}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.7 recipe=qwen3_vl_8b_peft_1gpu_h100_bf16_energon_config gpus=8 launcher=script
    dataset: {path: data/energon, packing_buffer_size: 16, micro_batch_size: 1}
    train: {micro_batch_size: 1}
    model: {calculate_per_token_loss: true, pipeline_model_parallel_size: 1}
    ddp: {average_in_collective: false}
    checkpoint: {pretrained_checkpoint: ckpt/base}
    ```

    ## Upstream
    - 0.7: `training/config.py`, `ConfigContainer.validate`
    """

    code, slug = "NRG107", "nrg/pp"
    releases = (R07, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        if run.energon_packing and run.pp > 1:
            yield self.finding(
                run,
                REJECTED,
                PP,
                f"native Energon packing runs without pipeline parallelism, found {run.pp}",
                why="Later stages do not get the sample boundaries.",
                related=(BUFFER,),
                fix=Fix("pipeline_model_parallel_size: 1", set_to(run, (PP, 1))),
            )


class EpOverlapDisabled(Rule):
    """Native Energon packing switches the overlap of expert communication off.

    ## Bad
    ```yaml
    # mbpack: bridge=0.7 gpus=8 launcher=script
    dataset: {path: data/energon, packing_buffer_size: 16}
    model: {overlap_moe_expert_parallel_comm: true}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.7 gpus=8 launcher=script
    dataset: {path: data/energon, packing_buffer_size: 16}
    model: {overlap_moe_expert_parallel_comm: false}
    ```

    ## Upstream
    - 0.7: `training/config.py`, `_disable_native_energon_packing_moe_overlap`
    """

    code, slug = "NRG116", "nrg/ep-overlap-disabled"
    releases = (R07, NIGHTLY)
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.energon_packing:
            return
        for section in ("model", "comm_overlap"):
            for name in (OVERLAP, DELAYED):
                key = f"{section}.{name}"
                if run.maybe(key) is True:
                    yield self.finding(
                        run,
                        Outcome("warning", "note", "validate"),
                        key,
                        f"the start-up switches {name} off: native Energon packing does not work with it",
                        why="The overlapped schedule passes neither images nor sample boundaries on.",
                        related=(BUFFER,),
                        fix=Fix(f"{name}: false", overlap_off(run, key), safe=True),
                    )


RULES: tuple[Rule, ...] = (
    NativeMbs(),
    NativePerTokenLoss(),
    NativeAverage(),
    NativeMtp(),
    NativeGraphs(),
    NativeDistTrain(),
    NativePp(),
    EpOverlapDisabled(),
)
