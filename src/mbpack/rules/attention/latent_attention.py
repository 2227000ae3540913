"""Multi-latent attention (DeepSeek, Kimi, Moonlight): its rotary embeddings, output gate and cache."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.run import Run
from mbpack.rules.base import REJECTED, Finding, Fix, RejectingRule, Rule, in_yaml, set_to
from mbpack.rules.stated import stated, touched

LATENT, INTERLEAVED, GATE = "model.multi_latent_attention", "model.rotary_interleaved", "model.attention_output_gate"
FUSION, KIND, CACHE = "model.apply_rope_fusion", "model.rope_type", "model.cache_mla_latents"


class LatentAttention(RejectingRule):
    """Multi-latent attention has no interleaved rotary embeddings and no output gate, and fuses them for YaRN only.

    The class of the model decides about the gate, the kind of rotary embeddings and the cache of latents, which needs
    `apply_rope_fusion: false`; interleaving is refused wherever `multi_latent_attention` is on.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=moonlight_16b_sft_config gpus=8 launcher=script
    model: {rotary_interleaved: true}
    ```
    ```yaml
    # mbpack: bridge=0.6 recipe=moonlight_16b_sft_config gpus=8 launcher=script
    model: {apply_rope_fusion: true, rope_type: rope}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=deepseek_v2_lite_pretrain_config gpus=8 launcher=script
    model: {apply_rope_fusion: true, rope_type: yarn}
    ```

    ## Upstream
    - 0.3 to 0.6: Megatron-Core `transformer_config.py`, `TransformerConfig.__post_init__` (interleaving) and
      `MLATransformerConfig.__post_init__`
    """

    code, slug = "MLA101", "mla/rope-and-gate"

    def check(self, run: Run) -> Iterator[Finding]:
        if not touched(run, LATENT, INTERLEAVED, GATE, FUSION, KIND, CACHE):
            return
        if run.flag(INTERLEAVED) and stated(run, LATENT):
            message = "rotary_interleaved does not go with multi_latent_attention"
            fix = Fix("rotary_interleaved: false", set_to(run, (INTERLEAVED, False)))
            yield self._refuse(run, message, (INTERLEAVED, LATENT), fix, f"{self.slug}@interleaved")
        if not _is_latent(run):
            return
        fusion = stated(run, FUSION)
        off = Fix("apply_rope_fusion: false", set_to(run, (FUSION, False)), safe=True)
        kind = stated(run, KIND)
        if fusion and kind != "yarn" and stated(run, LATENT):
            shown = in_yaml(kind)
            message = f"apply_rope_fusion in multi-latent attention needs rope_type yarn, found {shown}"
            yield self._refuse(run, message, (KIND, FUSION, LATENT), off)
        if run.flag(GATE):
            fix = Fix("attention_output_gate: false", set_to(run, (GATE, False)))
            yield self._refuse(run, "attention_output_gate does not go with a model of multi-latent attention", (GATE,), fix)
        if run.flag(CACHE) and fusion is not False:
            yield self._refuse(run, "cache_mla_latents needs apply_rope_fusion: false", (CACHE, FUSION), off)

    def _refuse(self, run: Run, message: str, keys: tuple[str, ...], fix: Fix, station: str = "") -> Finding:
        return self.finding(
            run,
            REJECTED,
            next((key for key in keys if run.wrote(key)), keys[0]),
            message,
            why="Its keys carry the position in a part of their own, which only some of the kernels handle.",
            related=keys,
            fix=fix,
            station=station,
        )


def _is_latent(run: Run) -> bool:
    """Whether the model's settings are of Megatron-Core's class for multi-latent attention."""
    return "cache_mla_latents" in (run.settings.schema.fields(run.model_class) or ())


RULES: tuple[Rule, ...] = (LatentAttention(),)
