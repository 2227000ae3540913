"""What a start-up refuses about loading and saving checkpoints, and about the process groups they travel through."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.run import Run
from mbpack.facts.releases import NIGHTLY, R05, R06, R07
from mbpack.rules.base import REJECTED, Finding, Fix, RejectingRule, Rule, set_to, words

FORMAT, LOAD, STEP = "checkpoint.ckpt_format", "checkpoint.load", "checkpoint.ckpt_step"
MAIN, OPTIM = "checkpoint.load_main_params_from_ckpt", "checkpoint.load_optim"
RESHARD = "checkpoint.dist_ckpt_optim_fully_reshardable"
FRUGAL = "checkpoint.distrib_optim_fully_reshardable_mem_efficient"
EXPORT, LOCAL = "checkpoint.also_save_hf_checkpoint", "checkpoint.non_persistent_ckpt_type"
SOURCES = ("checkpoint.hf_source_path", "model.hf_model_id", "tokenizer.tokenizer_model")
GLOO, DECENTRAL = "dist.use_gloo_process_groups", "dist.use_decentralized_pg"
SHARDED = ("ddp.use_distributed_optimizer", "optimizer.use_distributed_optimizer")


class Loading(RejectingRule):
    """What is asked of a checkpoint must fit together.

    A step needs a folder to load from. The main parameters come from the checkpoint's weights or from its optimizer
    state, so only one may be asked for. A fully reshardable optimizer state has no memory-efficient form up to 0.6; from 0.7 on
    that form needs Gloo process groups.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    checkpoint: {load: null, ckpt_step: 100}
    ```
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    checkpoint: {load_main_params_from_ckpt: true}
    ```
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    checkpoint: {dist_ckpt_optim_fully_reshardable: true, distrib_optim_fully_reshardable_mem_efficient: true}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    checkpoint: {load: checkpoints/run, ckpt_step: 100, load_main_params_from_ckpt: true, load_optim: false}
    ```

    ## Upstream
    - 0.3 to 0.7: `training/config.py`, `CheckpointConfig.finalize`
    """

    code, slug = "CKP101", "ckpt/loading"

    def check(self, run: Run) -> Iterator[Finding]:
        if run.flag(MAIN) and run.flag(OPTIM):
            yield self.finding(
                run,
                REJECTED,
                MAIN,
                "load_main_params_from_ckpt needs load_optim: false",
                why="With load_optim the main parameters come from the optimizer state.",
                related=(OPTIM,),
                fix=Fix("load_optim: false, for a fresh optimizer", set_to(run, (OPTIM, False))),
                station=f"{self.slug}@main-params",
            )
        if run.is_set(STEP) and not run.is_set(LOAD):
            yield self.finding(
                run,
                REJECTED,
                STEP,
                f"ckpt_step is {run.value(STEP)} and checkpoint.load is not set",
                why="Nothing says which checkpoints the step is one of.",
                related=(LOAD,),
                fix=Fix("checkpoint.load: the folder of the checkpoints, or ckpt_step: null", set_to(run, (STEP, None))),
            )
        if run.flag(RESHARD) and run.flag(FRUGAL) and (run.release < R07 or not run.flag(GLOO)):
            late = run.release >= R07
            yield self.finding(
                run,
                REJECTED,
                FRUGAL,
                "the memory-efficient form of a fully reshardable optimizer state needs Gloo groups"
                if late
                else "a fully reshardable optimizer state has no memory-efficient form here",
                related=(RESHARD, GLOO) if late else (RESHARD,),
                fix=Fix("distrib_optim_fully_reshardable_mem_efficient: false", set_to(run, (FRUGAL, False)), safe=True),
                station=f"{self.slug}@{'gloo' if late else 'reshardable'}",
            )


class HuggingFaceExport(RejectingRule):
    """A Hugging Face copy of every checkpoint needs ordinary checkpoints and something to copy the configuration from.

    `also_save_hf_checkpoint` works neither with ckpt_format fsdp_dtensor nor with local non-persistent checkpoints, and takes
    the files beside the weights from `hf_source_path`, from the model's `hf_model_id`, or from `tokenizer_model`.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    checkpoint: {also_save_hf_checkpoint: true, non_persistent_ckpt_type: local}
    ```
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    checkpoint: {also_save_hf_checkpoint: true}
    model: {hf_model_id: null}
    tokenizer: {tokenizer_model: null}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    checkpoint: {also_save_hf_checkpoint: true, non_persistent_ckpt_type: global}
    ```

    ## Upstream
    - 0.6, 0.7: `training/config.py`, `CheckpointConfig.finalize` and `_validate_hf_checkpoint_export_source`
    """

    code, slug = "CKP103", "ckpt/hf-export"
    releases = (R06, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.flag(EXPORT):
            return
        if run.value(FORMAT) == "fsdp_dtensor":
            yield self._refuse(run, "also_save_hf_checkpoint does not work with ckpt_format fsdp_dtensor", (FORMAT,))
        elif run.value(LOCAL) == "local":
            yield self.finding(
                run,
                REJECTED,
                LOCAL,
                "also_save_hf_checkpoint does not work with local non-persistent checkpoints",
                related=(EXPORT,),
                fix=Fix("non_persistent_ckpt_type: global", set_to(run, (LOCAL, "global"))),
            )
        if not any(run.flag(key) for key in SOURCES):
            why = f"The configuration and tokenizer files come from {words(SOURCES, 'or')}."
            yield self._refuse(
                run, "also_save_hf_checkpoint has no Hugging Face model to take files from", SOURCES, "@source", why
            )

    def _refuse(self, run: Run, message: str, related: tuple[str, ...], at: str = "", why: str = "") -> Finding:
        title = "checkpoint.hf_source_path: the model on the hub" if at else "also_save_hf_checkpoint: false"
        return self.finding(
            run,
            REJECTED,
            EXPORT,
            message,
            why=why,
            related=related,
            fix=Fix(title, () if at else set_to(run, (EXPORT, False))),
            station=self.slug + at,
        )


class GlooGroups(RejectingRule):
    """Gloo process groups exclude decentralized groups, and legacy checkpoints need them.

    `use_gloo_process_groups` is on unless it is switched off. `use_decentralized_pg` knows NCCL only. Without Gloo the state
    of a distributed optimizer can only be saved in ckpt_format torch_dist, from 0.5 on also in fsdp_dtensor.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    dist: {use_decentralized_pg: true}
    ```
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    dist: {use_gloo_process_groups: false}
    checkpoint: {ckpt_format: torch}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    dist: {use_decentralized_pg: true, use_gloo_process_groups: false}
    checkpoint: {ckpt_format: torch_dist}
    ```

    ## Upstream
    - 0.3 to 0.7: `training/config.py`, `ConfigContainer.validate`
    """

    code, slug = "DST101", "dist/gloo"

    def check(self, run: Run) -> Iterator[Finding]:
        if run.flag(GLOO):
            if run.flag(DECENTRAL):
                yield self.finding(
                    run,
                    REJECTED,
                    DECENTRAL,
                    "use_decentralized_pg needs use_gloo_process_groups: false",
                    why="Decentralized process groups know NCCL only; Gloo groups are on unless switched off.",
                    related=(GLOO,),
                    fix=Fix("use_gloo_process_groups: false", set_to(run, (GLOO, False))),
                )
            return
        formats = ("torch_dist",) if run.release < R05 else ("torch_dist", "fsdp_dtensor")
        form = run.value(FORMAT)
        if form not in formats and any(run.flag(key) for key in SHARDED):
            yield self.finding(
                run,
                REJECTED,
                FORMAT,
                f"without Gloo groups a distributed optimizer needs ckpt_format {words(formats, 'or')}, found {form}",
                why="Other formats collect the optimizer state on one rank through Gloo.",
                related=(GLOO, *SHARDED),
                fix=Fix("use_gloo_process_groups: true", set_to(run, (GLOO, True))),
                station=f"{self.slug}@format",
            )


RULES: tuple[Rule, ...] = (Loading(), HuggingFaceExport(), GlooGroups())
