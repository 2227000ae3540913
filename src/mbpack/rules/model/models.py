"""Models whose layers mind packed rows: MTP, Mamba hybrids, DeepSeek-V4, Gemma2."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.run import Run
from mbpack.facts import hard_blocks
from mbpack.facts.modes import ENERGON
from mbpack.facts.releases import R04, R05, R06, R07
from mbpack.rules.base import CRASH_STEP, NOTE, SILENT, Finding, Fix, Rule, set_to
from mbpack.rules.lookup import (
    VARIANT,
    is_family,
    is_hybrid,
    packing_key,
    sample_multiple,
    splits_contiguously,
    unpack,
)

CP = "model.context_parallel_size"
MTP, MEM_EFF = "model.mtp_num_layers", "model.use_mamba_mem_eff_path"


class MtpPacked(Rule):
    """Multi-token prediction with packed rows is not checked, and its labels cross pads where samples are padded.

    Upstream documents the combination as unsupported, yet ships recipes with it. Megatron-Core shifts the MTP labels by
    logical sample boundaries over physically padded rows, so with a multiple above 1 some are shifted across samples. The
    main loss is right; the wrong MTP labels reach the shared layers through their gradient.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {mtp_num_layers: 1}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {mtp_num_layers: null}
    ```

    ## Upstream
    - all releases: Megatron-Core `transformer/multi_token_prediction.py`, `_roll_tensor_packed_seq`
    """

    code, slug = "MTP101", "mtp/packed"

    def check(self, run: Run) -> Iterator[Finding]:
        layers = run.number(MTP)
        if not layers or layers <= 0 or not run.packed:
            return
        multiple = sample_multiple(run)
        padded = multiple > 1
        if not padded and run.mode is ENERGON:
            return  # upstream allows it: labels roll inside the boundaries
        yield self.finding(
            run,
            SILENT.as_warning() if padded else NOTE.as_warning(),
            MTP,
            f"{layers} MTP layer(s) with packed rows: "
            + (f"labels likely cross samples, which are padded to {multiple}" if padded else "documented as unsupported"),
            why="Megatron-Core shifts MTP labels by logical boundaries over padded rows; the main loss is right, but the"
            " gradient of the MTP loss reaches the whole model."
            if padded
            else "Nothing checks it, and with a multiple of 1 no defect is known.",
            related=(packing_key(run),),
            fix=Fix("mtp_num_layers: null", set_to(run, (MTP, None))),
        )


class SsmStateLeak(Rule):
    """On 0.4 the state of Mamba layers leaks across packed samples.

    Megatron-Core 0.17 takes the sequence index from the packed parameters, and Bridge 0.4 does not provide it. All
    Nemotron-H recipes are packed, so every such fine-tuning on 0.4 is affected. 0.3 and 0.5 are fine.

    ## Bad
    ```yaml
    # mbpack: bridge=0.4 recipe=nemotronh_8b_sft_config gpus=8 launcher=script
    train: {train_iters: 100}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.5 recipe=nemotronh_8b_sft_config gpus=8 launcher=script
    train: {train_iters: 100}
    ```

    ## Upstream
    - 0.4: `training/gpt_step.py`; Megatron-Core 0.17 `ssm/mamba_mixer.py`, `_ssm_training`
    """

    code, slug = "SSM101", "ssm/04-state-leak"
    releases = (R04, R04)

    def check(self, run: Run) -> Iterator[Finding]:
        if run.offline and is_hybrid(run):
            yield self.finding(
                run,
                SILENT,
                packing_key(run),
                "0.4 lets the state of Mamba layers run on across packed samples",
                why="The sequence index that resets the state is not passed to Megatron-Core 0.17; nothing is printed.",
                fix=Fix("Megatron-Bridge 0.5 or later, or unpacked: packed_sequence_specs: null", unpack(run).edits),
            )


class SsmNonMemEfficient(Rule):
    """Packed Mamba layers need the memory-efficient kernel path.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=nemotronh_8b_sft_config gpus=8 launcher=script
    model: {use_mamba_mem_eff_path: false}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=nemotronh_8b_sft_config gpus=8 launcher=script
    model: {use_mamba_mem_eff_path: true}
    ```

    ## Upstream
    - all releases: Megatron-Core `ssm/mamba_mixer.py`, `MambaMixer.forward`
    """

    code, slug = "SSM102", "ssm/non-mem-efficient"

    def check(self, run: Run) -> Iterator[Finding]:
        if run.packed and is_hybrid(run) and not run.flag(MEM_EFF):
            yield self.finding(
                run,
                CRASH_STEP,
                MEM_EFF,
                "packed rows need use_mamba_mem_eff_path: true in Mamba layers",
                related=(packing_key(run),),
                fix=Fix("use_mamba_mem_eff_path: true", set_to(run, (MEM_EFF, True)), safe=True),
            )


class DeepSeekV4(Rule):
    """DeepSeek-V4 packs, and splits rows over context parallel ranks, only in its one dedicated recipe.

    Its compressor needs consecutive tokens on every rank. Other recipes, and 0.5 altogether, use the usual split and
    stop in the first step with a shape error.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=deepseek_v4_flash_sft_config gpus=64 launcher=script
    model: {context_parallel_size: 2, calculate_per_token_loss: true}
    ddp: {average_in_collective: false}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=deepseek_v4_flash_sft_config gpus=64 launcher=script
    model: {context_parallel_size: 1}
    ```

    ## Upstream
    - 0.6, 0.7: `recipes/deepseek/deepseek_v4.py`, `models/deepseek/deepseek_v4_step.py`
    """

    code, slug = "FAM101", "fam/deepseek-v4"
    releases = (R05, R07)

    def check(self, run: Run) -> Iterator[Finding]:
        if not is_family(run, hard_blocks.DEEPSEEK_V4) and run.value(VARIANT) != hard_blocks.DSV4_VARIANT:
            return
        packed = run.packed
        if packed and run.release >= R06 and splits_contiguously(run):
            return  # the dedicated recipe; step/dsv4-contiguous looks at its step
        if run.cp > 1:
            yield self.finding(
                run,
                CRASH_STEP,
                CP,
                f"DeepSeek-V4 cannot split rows over context parallel {run.cp} in the usual way",
                why="Its compressor needs consecutive tokens on a rank; the split deals them out in 2 x CP pieces.",
                fix=self._advice(run),
            )
        elif packed:
            old = run.release <= R05
            yield self.finding(
                run,
                CRASH_STEP if old else CRASH_STEP.as_warning(),
                packing_key(run),
                "DeepSeek-V4 cannot run packed rows in 0.5"
                if old
                else "packed DeepSeek-V4 is only known to run in its dedicated recipe",
                fix=unpack(run) if old else self._advice(run),
            )

    @staticmethod
    def _advice(run: Run) -> Fix:
        if run.release <= R05:
            return Fix("context parallel 1, unpacked")
        return Fix(f"recipe {hard_blocks.DSV4_PACKED_RECIPE} with --step_func dsv4_step, or CP 1 and unpacked")


class Gemma2Packed(Rule):
    """Gemma2 cannot run packed rows, in any release.

    Its attention caps logits in a layer of its own, which has no packed path. All six Gemma2 fine-tuning recipes are
    packed, so they fail at the first step as they are.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=gemma2_2b_sft_config gpus=8 launcher=script
    train: {train_iters: 100}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=gemma2_2b_sft_config gpus=8 launcher=script
    dataset: {enable_offline_packing: false, offline_packing_specs: null}
    ```

    ## Upstream
    - 0.3 to 0.5: `models/gemma/gemma2_provider.py` (AssertionError); 0.6, 0.7: the same file (ValueError)
    """

    code, slug = "GEM101", "gemma2/packed"

    def check(self, run: Run) -> Iterator[Finding]:
        if is_family(run, hard_blocks.GEMMA2) and run.packed:
            yield self.finding(
                run,
                CRASH_STEP,
                packing_key(run),
                "Gemma2's attention does not take packed rows",
                why="Its capped attention has no packed path and stops at the first step; the recipes pack by default.",
                fix=unpack(run),
            )


RULES: tuple[Rule, ...] = (
    MtpPacked(),
    SsmStateLeak(),
    SsmNonMemEfficient(),
    DeepSeekV4(),
    Gemma2Packed(),
)
