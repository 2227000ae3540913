"""How layers and microbatches divide over pipeline stages, and the overlapped expert schedule."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.run import Run
from mbpack.config.settings import Object, Unknown
from mbpack.facts import formulas
from mbpack.facts.modes import IN_BATCH as IN_BATCH_MODE
from mbpack.facts.releases import NIGHTLY, R04, R07
from mbpack.facts.stage_split import uneven
from mbpack.rules.base import CRASH_DATA, REJECTED, SILENT, WASTE, Finding, Fix, RejectingRule, Rule, in_yaml, set_to
from mbpack.rules.lookup import is_hybrid, overlap_key, overlap_off, packing_key, step_of
from mbpack.rules.parallel.stage_counts import COUNTS, FIRST, LAST, LAYERS, LAYOUT, PP, VPP, counts_unknown

#: The class whose objects describe a model and the settings of its transformer apart.
BUILT = "GPTModelConfig"


class Bubble(Rule):
    """Fewer microbatches than pipeline stages leave the stages idle.

    A stage waits while the pipeline fills and drains: (PP - 1) / (microbatches + PP - 1) of a step. Lowering the global
    batch for packing, which makes one pack out of many samples, is the usual cause.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {tensor_model_parallel_size: 1, pipeline_model_parallel_size: 8}
    train: {global_batch_size: 4}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {tensor_model_parallel_size: 1, pipeline_model_parallel_size: 4}
    train: {global_batch_size: 32}
    ```

    ## Upstream
    - all releases: Megatron-Core `pipeline_parallel/schedules.py`
    """

    code, slug = "PPL107", "pp/bubble"
    reports_unknown = False

    #: Above this share of idle time a warning is worth it.
    LIMIT = 1 / 3

    def check(self, run: Run) -> Iterator[Finding]:
        pp = run.pp
        if pp <= 1:
            return
        count, vpp = run.microbatches.value, run.maybe(VPP)
        share = formulas.bubble_share(pp, count, vpp if isinstance(vpp, int) else 1)
        if count >= pp or share.value <= self.LIMIT:
            return
        yield self.finding(
            run,
            WASTE,
            "train.global_batch_size",
            f"{count} microbatch(es) on {pp} pipeline stages: {share.value:.0%} of a step is idle",
            why=f"{share}; {count} = {run.microbatches.because}.",
            related=(PP, "train.micro_batch_size"),
            fix=Fix("a larger global_batch_size, fewer pipeline stages, or a virtual pipeline size"),
        )


class EpOverlapDropsPacked(Rule):
    """Overlap of expert communication drops the sample boundaries of a packed run.

    The overlapped schedule is built without packed parameters, so attention runs across samples; multimodal plans lose
    the images as well. 0.7 mends `gpt_step` only; native Energon packing switches the overlap off by itself.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_30b_a3b_sft_config gpus=16 launcher=script
    comm_overlap:
      _target_: megatron.bridge.training.comm_overlap.CommOverlapConfig
      tp_comm_overlap: false
      overlap_moe_expert_parallel_comm: true
    model: {recompute_granularity: null, recompute_method: null, recompute_num_layers: null}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_30b_a3b_sft_config gpus=16 launcher=script
    model: {overlap_moe_expert_parallel_comm: false}
    ```

    ## Upstream
    - 0.3 to 0.6: `training/gpt_step.py`, `_forward_step_common`
    - 0.3 to 0.7: `training/vlm_step.py` and `models/qwen_vl/qwen3_vl_step.py`, `forward_step`
    """

    code, slug = "EPL101", "ep/overlap-drops-packed"

    def check(self, run: Run) -> Iterator[Finding]:
        key = overlap_key(run)
        if key is None or not run.packed:
            return
        if run.release >= R07 and run.mode is not IN_BATCH_MODE:
            return
        if run.release >= R07 and step_of(run) not in ("vlm_step", "qwen3_vl_step"):
            return
        yield self.finding(
            run,
            SILENT,
            key,
            f"{key.rpartition('.')[2]} builds its schedule without the boundaries of packed samples",
            why="Attention runs across samples without a message.",
            related=(packing_key(run),),
            fix=Fix("overlap_moe_expert_parallel_comm: false", overlap_off(run, key), safe=True),
        )


class BuilderChunks(RejectingRule):
    """A model that is described by `GPTModelConfig` is split into equal chunks, whatever the pipeline size.

    Layers divided by stages must divide by the virtual size, also where there is one stage, unless the ends of the pipeline differ
    or a layout is given. Whether embedding and loss count as layers is true or false, nothing else.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 gpus=8 launcher=script
    _target_: megatron.bridge.training.config.ConfigContainer
    model:
      _target_: megatron.bridge.models.gpt.gpt_builder.GPTModelConfig
      transformer:
        _target_: megatron.bridge.models.transformer_config.TransformerConfig
        num_layers: 12
        hidden_size: 64
        num_attention_heads: 4
        virtual_pipeline_model_parallel_size: 7
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 gpus=8 launcher=script
    _target_: megatron.bridge.training.config.ConfigContainer
    model:
      _target_: megatron.bridge.models.gpt.gpt_builder.GPTModelConfig
      transformer:
        _target_: megatron.bridge.models.transformer_config.TransformerConfig
        num_layers: 12
        hidden_size: 64
        num_attention_heads: 4
        virtual_pipeline_model_parallel_size: null
    train: {train_iters: 10, global_batch_size: 8, micro_batch_size: 1}
    ```

    ## Upstream
    - 0.4, 0.5: `models/gpt/gpt_builder.py`, `GPTModelConfig.finalize`
    - 0.6, 0.7: Megatron-LM `training/models/gpt.py`, the same
    """

    code, slug = "PPL114", "pp/builder-chunks"
    releases = (R04, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        if run.settings.class_at("model") != BUILT or not isinstance(run.value("model.transformer"), Object):
            return
        embedding, loss = COUNTS
        key = embedding if run.flag(embedding) else loss
        counted = run.value(key)
        if not isinstance(counted, (bool, int)):
            message = f"{key.rpartition('.')[2]} must be true or false, found {in_yaml(counted)}"
            yield self.finding(
                run, REJECTED, key, message, fix=Fix("true or false", set_to(run, (key, False))), station="topo/vpp"
            )
            return
        ends = run.value(FIRST) or run.value(LAST)
        if counted or ends is not None or run.value(LAYOUT) is not None:
            return
        vpp = run.number(VPP)
        layers, pp = (run.number(LAYERS), run.number(PP)) if vpp else (None, None)
        if layers is not None and pp and layers // pp % vpp:
            yield self.finding(
                run,
                REJECTED,
                VPP,
                f"{layers // pp} layers a stage cannot be divided over {vpp} virtual stages",
                related=(LAYERS, PP),
                fix=Fix("virtual_pipeline_model_parallel_size: null", set_to(run, (VPP, None))),
                station="topo/vpp",
            )


CHUNKS = BuilderChunks()


class Vpp(Rule):
    """The layers must divide by the pipeline stages, and each stage's layers by the virtual stages.

    The start-up accepts every number; the model fails to build. Where the first or last stage has a count of its own, embedding and
    loss count as layers, or a layout is given, the start-up checks the split itself (`pp/stage-counts`, `pp/stage-layout`). Mamba
    hybrids have no virtual pipeline.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 gpus=8 launcher=script
    model:
      _target_: megatron.bridge.models.gpt_provider.GPTModelProvider
      num_layers: 30
      num_layers_in_first_pipeline_stage: null
      num_layers_in_last_pipeline_stage: null
      pipeline_model_parallel_layout: null
      account_for_embedding_in_pipeline_split: false
      account_for_loss_in_pipeline_split: false
      pipeline_model_parallel_size: 4
      virtual_pipeline_model_parallel_size: null
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {tensor_model_parallel_size: 1, pipeline_model_parallel_size: 4, virtual_pipeline_model_parallel_size: 2}
    train: {global_batch_size: 32}
    ```

    ## Upstream
    - all releases: Megatron-Core `transformer_block.py`, `get_num_layers_to_build`; `parallel_state.py`,
      `initialize_model_parallel`; hybrids `hybrid_layer_allocation.py`, `select_pipeline_segment`
    """

    code, slug = "TOP104", "topo/vpp"

    def check(self, run: Run) -> Iterator[Finding]:
        pp, vpp = run.pp, run.vpp
        if any(CHUNKS.check(run)) and CHUNKS.applies(run.release):
            return  # pp/builder-chunks
        if vpp is not None and pp <= 1:
            if not self._refused(run, pp, vpp):
                yield self._say(run, VPP, f"virtual pipeline size {vpp} needs pipeline parallel above 1", (PP,))
            return
        if pp <= 1 or run.value(LAYOUT) is not None:
            return
        if is_hybrid(run):
            if vpp is not None:
                yield self._say(run, VPP, "Mamba hybrids have no virtual pipeline", (PP,))
            if self._pattern(run) or self._likely(run):
                return
        layers = run.number(LAYERS)
        if not isinstance(layers, int) or layers <= 0:
            return
        if run.value(FIRST) is not None or run.value(LAST) is not None or any(run.flag(key) for key in COUNTS):
            return
        if layers % pp and counts_unknown(run):
            raise Unknown(COUNTS[0], (), "the recipe may count the embedding and the loss as layers")
        if layers % pp:
            yield self._say(run, PP, f"{layers} layers cannot be divided over {pp} pipeline stages", (LAYERS, FIRST, LAST))
        elif vpp is not None and vpp > 0 and layers // pp % vpp:
            yield self._say(run, VPP, f"{layers // pp} layers a stage cannot be divided over {vpp} virtual stages", (LAYERS, PP))

    @staticmethod
    def _refused(run: Run, pp: int, vpp: int) -> bool:
        """Whether the start-up already refuses how the layers are split."""
        if run.maybe(LAYOUT) is not None:
            return True
        layers, ends = run.maybe(LAYERS), (run.maybe(FIRST), run.maybe(LAST))
        if not isinstance(layers, int) or any(not isinstance(end, int) for end in ends if end is not None):
            return False
        return uneven(layers, pp, vpp, *ends) is not None

    @staticmethod
    def _pattern(run: Run) -> bool:
        """A hybrid's own stage marks, which replace the even split."""
        patterns = (run.value("model.hybrid_layer_pattern"), run.value("model.hybrid_override_pattern"))
        return any(isinstance(pattern, str) and "|" in pattern for pattern in patterns)

    @staticmethod
    def _likely(run: Run) -> bool:
        layers = run.settings.peek(LAYERS)
        return layers is not None and layers.likely

    def _say(self, run: Run, key: str, message: str, related: tuple[str, ...]) -> Finding:
        likely = self._likely(run)
        return self.finding(
            run,
            CRASH_DATA.as_warning() if likely else CRASH_DATA,
            key,
            message,
            why="The start-up accepts it; building the model fails."
            + (" Likely: the number of layers is taken from the public model, not from the recipe." if likely else ""),
            related=related,
            fix=Fix("sizes that divide the layers, or pipeline_model_parallel_layout"),
        )


RULES: tuple[Rule, ...] = (
    Bubble(),
    EpOverlapDropsPacked(),
    CHUNKS,
    Vpp(),
)
