"""What single model classes check when they are completed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mbpack.config.run import Run
from mbpack.config.settings import Origin, Unknown
from mbpack.facts.releases import NIGHTLY, R04, R06
from mbpack.rules.base import REJECTED, Finding, Fix, RejectingRule, Rule, set_to

_LISTS = ("recompute_modules", "offload_modules")


class GemmaExperts(RejectingRule):
    """Gemma 4 with experts has its own forward pass, which several modes of Megatron-Core go past.

    CUDA graphs, the overlap of shared experts, MLP chunks, optimised inference, selective recompute of layer norms and the
    offloading of MLP norms are refused.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 gpus=8 launcher=script
    _target_: megatron.bridge.training.config.ConfigContainer
    model: {_target_: megatron.bridge.models.gemma.gemma4_provider.Gemma4ModelProvider, moe_shared_expert_overlap: true}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {recompute_granularity: selective, recompute_modules: [layernorm]}
    ```

    ## Upstream
    - 0.6: `models/gemma/gemma4_provider.py`, `_validate_gemma4_moe_orchestration`
    """

    code, slug = "MOE131", "moe/gemma-experts"
    releases = (R06, NIGHTLY)
    CLASSES = ("Gemma4ModelProvider", "Gemma4VLModelProvider")

    def check(self, run: Run) -> Iterator[Finding]:
        if run.settings.class_at("model") not in self.CLASSES:
            return
        for name, value, wanted in self._modes(run):
            yield self.finding(
                run,
                REJECTED,
                f"model.{name}",
                f"{name} {value} does not go with Gemma 4's experts",
                why="Their forward pass has separate inputs for router, shared and routed experts.",
                fix=Fix(f"{name}: {'null' if wanted is None else wanted}", set_to(run, (f"model.{name}", wanted))),
                station="section:model",
            )

    @staticmethod
    def _modes(run: Run) -> Iterator[tuple[str, Any, Any]]:
        """Settings that are refused, with their values and what they should be."""
        if run.value("model.transformer_impl") == "inference_optimized":
            yield "transformer_impl", "inference_optimized", "transformer_engine"
        impl = run.value("model.cuda_graph_impl", "none")
        if impl != "none":
            yield "cuda_graph_impl", impl, "none"
        for name in ("moe_shared_expert_overlap", "inference_fuse_tp_communication"):
            if run.flag(f"model.{name}"):
                yield name, "true", False
        for name in ("mlp_chunks_for_prefill", "mlp_chunks_for_training"):
            chunks = run.number(f"model.{name}", 1)
            if chunks is not None and chunks > 1:
                yield name, chunks, 1
        recompute, offload = (run.value(f"model.{name}") for name in _LISTS)
        if run.value("model.recompute_granularity") == "selective" and isinstance(recompute, list) and "layernorm" in recompute:
            yield "recompute_modules", recompute, [name for name in recompute if name != "layernorm"]
        if run.flag("model.fine_grained_activation_offloading") and isinstance(offload, list) and "mlp_norm" in offload:
            yield "offload_modules", offload, [name for name in offload if name != "mlp_norm"]


class OmniInputs(RejectingRule):
    """Nemotron Omni takes images of any resolution, and tokens that stand for images and sound.

    `dynamic_resolution` must be true and `image_token_index` positive; with `has_sound` so must `sound_context_token_id`, and
    `sound_config` must be given. They come with the public model, so a complete file has them.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 gpus=8 launcher=script
    _target_: megatron.bridge.training.config.ConfigContainer
    model:
      _target_: megatron.bridge.models.nemotron_omni.nemotron_omni_provider.NemotronOmniModelProvider
      image_token_index: 0
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    train: {global_batch_size: 8}
    ```

    ## Upstream
    - 0.6: `models/nemotron_omni/nemotron_omni_provider.py`, `_validate_omni_config`
    """

    code, slug = "VLM110", "vlm/omni-inputs"
    releases = (R06, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        if run.settings.class_at("model") != "NemotronOmniModelProvider":
            return
        for name, value, wanted in self._wrong(run):
            yield self.finding(
                run,
                REJECTED,
                f"model.{name}",
                f"Nemotron Omni needs {name} {wanted}, found {value}",
                why="It comes with the public model's configuration.",
                fix=Fix(f"{name}: {'true' if wanted == 'true' else 'the value of the public model'}"),
                station="section:model",
            )

    @classmethod
    def _wrong(cls, run: Run) -> Iterator[tuple[str, Any, str]]:
        if cls._told(run, "dynamic_resolution") is not True:
            yield "dynamic_resolution", run.value("model.dynamic_resolution"), "true"
        token = cls._told(run, "image_token_index")
        if token is None or token <= 0:
            yield "image_token_index", token, "above 0"
        if not run.flag("model.has_sound"):
            return
        sound = cls._told(run, "sound_context_token_id")
        if sound is not None and sound <= 0:
            yield "sound_context_token_id", sound, "above 0"
        if cls._told(run, "sound_config") is None:
            yield "sound_config", None, "given"

    @staticmethod
    def _told(run: Run, name: str) -> Any:
        """A value that the file gives; over a recipe, which takes it from the public model, it is else not known.

        Raises:
            Unknown: the recipe has it from the public model.
        """
        setting = run.setting(f"model.{name}")
        if not run.complete and setting.item is None:
            raise Unknown(f"model.{name}", (), "moot")
        if setting.origin is Origin.RECIPE and setting.likely:
            raise Unknown(f"model.{name}", (), "moot")
        return run.number(f"model.{name}") if name.endswith(("index", "id")) else setting.value


class SarvamLayout(RejectingRule):
    """Sarvam MoE writes a pipeline layout of its own where its 19 layers do not divide.

    It knows 2, 4 and 8 stages, and none of its layouts holds MTP layers or another number of layers.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 gpus=8 launcher=script
    _target_: megatron.bridge.training.config.ConfigContainer
    model:
      _target_: megatron.bridge.models.sarvam.sarvam_provider.SarvamMoEModelProvider
      pipeline_model_parallel_size: 2
      mtp_num_layers: 1
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    train: {global_batch_size: 8}
    ```

    ## Upstream
    - 0.4 to 0.6: `models/sarvam/sarvam_provider.py`, `SarvamMoEModelProvider.finalize`
    """

    code, slug = "PPL118", "pp/sarvam-layout"
    releases = (R04, NIGHTLY)
    LAYERS, STAGES = 19, (2, 4, 8)
    SPLITS = ("pipeline_model_parallel_layout", "num_layers_in_first_pipeline_stage", "num_layers_in_last_pipeline_stage")

    def check(self, run: Run) -> Iterator[Finding]:
        if run.settings.class_at("model") != "SarvamMoEModelProvider" or run.pp <= 1:
            return
        layers = run.number("model.num_layers")
        if not layers or layers % run.pp == 0 or any(run.is_set(f"model.{name}") for name in self.SPLITS):
            return
        mtp = run.number("model.mtp_num_layers")
        if run.pp not in self.STAGES:
            what = f"no layout of Sarvam MoE has {run.pp} stages; it has them for 2, 4 and 8"
        elif layers != self.LAYERS:
            what = f"the layout of Sarvam MoE holds {self.LAYERS} layers, num_layers is {layers}"
        elif mtp:
            what = "the layout of Sarvam MoE holds no MTP layers"
        else:
            return
        yield self.finding(
            run,
            REJECTED,
            "model.pipeline_model_parallel_size",
            what,
            why="The model class writes the layout where the layers do not divide by the stages and nothing else splits them.",
            related=("model.num_layers", "model.mtp_num_layers"),
            fix=Fix("pipeline_model_parallel_layout with a layout of your own"),
            station="pp/stage-layout" if run.pp in self.STAGES else "section:model",
        )


RULES: tuple[Rule, ...] = (GemmaExperts(), OmniInputs(), SarvamLayout())
