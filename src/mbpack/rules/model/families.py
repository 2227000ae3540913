"""Model families that a packing mode does not work for, or that upstream keeps unpacked."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.run import Run
from mbpack.config.settings import ABSENT, Origin, Setting
from mbpack.facts import hard_blocks
from mbpack.facts.hard_blocks import HARD, IN_BATCH_MODE, OFFLINE_MODE, SILENT, blocks
from mbpack.facts.releases import NIGHTLY, R03, R04, R05
from mbpack.rules import base
from mbpack.rules.base import CRASH_STEP, NOTE, REJECTED, REJECTED_LOAD, Finding, Fix, RejectingRule, Rule
from mbpack.rules.lookup import IN_BATCH, is_family, model_marks, packing_key, unpack


class NoInBatchGuard(Rule):
    """In-batch packing trains Gemma3-VL and Nemotron-VL wrongly, without a guard before 0.6.

    Gemma3-VL lets image tokens attend to each other by a mask that packed rows do not use, and Nemotron-VL inserts image
    embeddings after the sample boundaries were computed. The shipped recipes of 0.4 and 0.5 switch in-batch packing on. From 0.6 on
    Nemotron-VL refuses it at the first step; for Gemma3-VL only the recipes keep it off.

    ## Bad
    ```yaml
    # mbpack: bridge=0.5 recipe=gemma3_vl_4b_sft_config gpus=8 launcher=script
    dataset: {pack_sequences_in_batch: true}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.5 recipe=gemma3_vl_4b_sft_config gpus=8 launcher=script
    dataset: {pack_sequences_in_batch: false}
    ```

    ## Upstream
    - 0.4 to 0.7: `models/gemma_vl/modeling_gemma3_vl.py`
    - 0.4, 0.5: `models/nemotron_vl`; 0.6, 0.7: `models/nemotron_vl/data/collate_fn.py` raises ValueError
    """

    code, slug = "FAM102", "fam/no-inbatch-guard"
    releases = (R04, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.in_batch:
            return
        for block in blocks(run.release, IN_BATCH_MODE, *model_marks(run)):
            if block.kind == SILENT or block.family == "Nemotron-VL":
                yield self.finding(
                    run,
                    base.SILENT if block.kind == SILENT else CRASH_STEP,
                    IN_BATCH,
                    f"in-batch packing does not work with {block.family}",
                    why=f"{block.reason[0].upper()}{block.reason[1:]}"
                    + ("; nothing is printed." if block.kind == SILENT else "."),
                    fix=unpack(run),
                )


class OmniMetadata(Rule):
    """Up to 0.5 in-batch packing of Nemotron-Omni may have no effect on attention.

    Where the processor has already joined the rows, a guard that counts rows leaves the boundaries out, and attention
    runs across samples (reported).

    ## Bad
    ```yaml
    # mbpack: bridge=0.5 recipe=nemotron_omni_cord_v2_sft_config gpus=8 launcher=script
    dataset: {pack_sequences_in_batch: true}
    train: {micro_batch_size: 2, global_batch_size: 16}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.5 recipe=nemotron_omni_cord_v2_sft_config gpus=8 launcher=script
    dataset: {pack_sequences_in_batch: false}
    ```

    ## Upstream
    - 0.5: `models/nemotron_omni`; 0.6 rewrote direct packing
    """

    code, slug = "FAM103", "fam/omni-metadata"
    releases = (R03, R05)

    def check(self, run: Run) -> Iterator[Finding]:
        if run.in_batch and is_family(run, hard_blocks.NEMOTRON_OMNI):
            yield self.finding(
                run,
                base.SILENT.as_warning(),
                IN_BATCH,
                "in-batch packing of Nemotron-Omni likely runs attention across samples before 0.6",
                why="Where the processor joins the rows itself, their boundaries are not passed on.",
                fix=Fix("packing off, or Megatron-Bridge 0.6 or later", unpack(run).edits),
            )


class InBatchUnsupported(Rule):
    """In-batch packing on a family whose code refuses it, or whose recipes keep it off.

    The Qwen-Omni models and Qwen3-ASR raise NotImplementedError at the first step. For GLM-4.5V, Kimi-VL, Exaone4.5-VL,
    Gemma4-VL and (from 0.7 on) Ministral3 nobody is known to have run it.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=glm_45v_sft_config gpus=64 launcher=script
    dataset: {enable_in_batch_packing: true}
    train: {micro_batch_size: 2}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen25_vl_7b_sft_config gpus=8 launcher=script
    dataset: {enable_in_batch_packing: true}
    ```

    ## Upstream
    - 0.4 to 0.7: `models/qwen_omni/modeling_qwen25_omni/thinker_model.py`
    - 0.5 to 0.7: the `thinker_model.py` of Qwen3-Omni and Qwen3-ASR
    - 0.4 to 0.7: `recipes/` of the other families
    """

    code, slug = "FAM104", "fam/inbatch-unsupported"

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.in_batch:
            return
        for block in blocks(run.release, IN_BATCH_MODE, *model_marks(run)):
            if block.kind == SILENT or block.family == "Nemotron-VL":
                continue
            hard = block.kind == HARD
            yield self.finding(
                run,
                CRASH_STEP if hard else NOTE.as_warning(),
                IN_BATCH,
                f"{block.family} does not run in-batch packing"
                if hard
                else f"in-batch packing of {block.family} is not supported upstream",
                why=f"{block.reason[0].upper()}{block.reason[1:]}.",
                fix=unpack(run),
            )


class OfflineUnsupported(Rule):
    """Offline packing on a family whose code refuses it, or whose recipes keep it off.

    Qwen3-Next cannot run packed rows before 0.5 (`gdn/packed`); later, and for GLM-4.5, only the recipes abstain.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=glm45_air_106b_sft_config gpus=64 launcher=script
    dataset:
      enable_offline_packing: true
      offline_packing_specs:
        _target_: megatron.bridge.data.packing.config.PackedSequenceSpecs
        packed_sequence_size: 2048
        pad_seq_to_mult: 1
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    train: {train_iters: 100}
    ```

    ## Upstream
    - 0.3 to 0.7: `recipes/glm/glm45.py`, `recipes/qwen/qwen3_next.py`
    """

    code, slug = "FAM105", "fam/offline-unsupported"

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.offline:
            return
        for block in blocks(run.release, OFFLINE_MODE, *model_marks(run)):
            hard = block.kind == HARD
            yield self.finding(
                run,
                CRASH_STEP if hard else NOTE.as_warning(),
                packing_key(run),
                f"{block.family} does not run offline packs in {run.release}"
                if hard
                else f"offline packing of {block.family} is not supported upstream",
                why=f"{block.reason[0].upper()}{block.reason[1:]}.",
                fix=unpack(run),
            )


class DiffusionGemma(RejectingRule):
    """DiffusionGemma refuses every packing mode (nightly).

    ## Bad
    ```yaml
    # mbpack: bridge=nightly gpus=8 launcher=script
    model: {_target_: megatron.bridge.models.gemma.diffusion_gemma_provider.DiffusionGemmaModelProvider}
    dataset: {enable_offline_packing: true}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=nightly gpus=8 launcher=script
    model: {_target_: megatron.bridge.models.gemma.diffusion_gemma_provider.DiffusionGemmaModelProvider}
    dataset: {enable_offline_packing: false, offline_packing_specs: null}
    ```

    ## Upstream
    - nightly (documented): `training/config.py`, `ConfigContainer.validate`
    """

    code, slug = "FAM106", "fam/diffusiongemma"
    releases = (NIGHTLY, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        target, recipe = run.settings.target_at("model"), run.context.recipe
        names = (str(target.value) if target is not None else "", recipe or "")
        if any("diffusiongemma" in name.lower().replace("_", "") for name in names) and run.packed:
            yield self.finding(
                run,
                REJECTED,
                packing_key(run),
                "DiffusionGemma refuses every packing mode",
                fix=unpack(run),
            )


class RecipePeftMissing(RejectingRule):
    """A recipe that only raises NotImplementedError: Qwen3-Next has full fine-tuning only.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_next_80b_a3b_peft_config gpus=8 launcher=script
    train: {train_iters: 100}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_next_80b_a3b_sft_config gpus=64 launcher=script
    train: {train_iters: 100}
    ```

    ## Upstream
    - 0.3 to 0.7: `recipes/qwen/qwen3_next.py`
    """

    code, slug = "FAM107", "fam/recipe-peft-missing"

    def check(self, run: Run) -> Iterator[Finding]:
        recipe = run.settings.recipe
        if recipe is None or recipe.unavailable is None or "NotImplementedError" not in recipe.unavailable:
            return
        yield self.finding(
            run,
            REJECTED_LOAD,
            "recipe",
            f"{recipe.name} is not implemented: calling the recipe raises NotImplementedError",
            fix=Fix(f"{recipe.name.replace('_peft_', '_sft_')}: only full fine-tuning exists"),
            setting=Setting("recipe", ABSENT, Origin.RECIPE),
            station="load",
        )


RULES: tuple[Rule, ...] = (
    NoInBatchGuard(),
    OmniMetadata(),
    InBatchUnsupported(),
    OfflineUnsupported(),
    DiffusionGemma(),
    RecipePeftMissing(),
)
