"""What an attention variant must have: the frequency of gated-delta-net layers, the indexer of sparse attention (DSA)."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.run import Run
from mbpack.facts.attention import DSA_KERNELS, GATED_DELTA_NET
from mbpack.facts.hard_blocks import DSA_VARIANT
from mbpack.facts.releases import NIGHTLY, R06
from mbpack.rules.base import REJECTED, Finding, Fix, RejectingRule, Rule, in_yaml, set_to, words
from mbpack.rules.lookup import VARIANT
from mbpack.rules.stated import stated, touched

FREQUENCY = "model.linear_attention_freq"
KERNELS, BIAS = "model.dsa_kernel_backend", "model.add_bias_linear"
EVERY, SKIPPED = "model.dsa_indexer_topk_freq", "model.dsa_indexer_skip_topk_offset"


class GdnFrequency(RejectingRule):
    """Gated delta net needs to know which layers it takes.

    `linear_attention_freq` is a number (with 4, every fourth layer keeps full attention) or a list with one entry a layer.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_next_80b_a3b_sft_config gpus=64 launcher=script
    model: {linear_attention_freq: null}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=qwen3_next_80b_a3b_sft_config gpus=64 launcher=script
    model: {linear_attention_freq: 4}
    ```

    ## Upstream
    - 0.3 to 0.6: Megatron-Core `transformer_config.py`, `TransformerConfig.__post_init__`
    """

    code, slug = "GDN102", "gdn/frequency"

    def check(self, run: Run) -> Iterator[Finding]:
        if not touched(run, VARIANT, FREQUENCY):
            return
        if run.value(VARIANT) != GATED_DELTA_NET or stated(run, FREQUENCY) is not None:
            return
        yield self.finding(
            run,
            REJECTED,
            FREQUENCY if run.wrote(FREQUENCY) else VARIANT,
            "experimental_attention_variant gated_delta_net needs linear_attention_freq, found null",
            why="It says which layers use gated delta net and which full attention.",
            related=(VARIANT, FREQUENCY),
            fix=Fix("linear_attention_freq: a number or a list, 4 in Qwen3-Next"),
        )


class DsaFields(RejectingRule):
    """Sparse attention (DeepSeek-V3.2, GLM-5): its kernels by name, no linear bias, numbers of its indexer in range.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=moonlight_16b_sft_config gpus=8 launcher=script
    model: {experimental_attention_variant: dsa, apply_rope_fusion: false, dsa_indexer_topk_freq: 0}
    ```
    ```yaml
    # mbpack: bridge=0.6 recipe=moonlight_16b_sft_config gpus=8 launcher=script
    model: {experimental_attention_variant: dsa, apply_rope_fusion: false, dsa_kernel_backend: triton}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=deepseek_v2_lite_pretrain_config gpus=8 launcher=script
    model: {experimental_attention_variant: dsa, apply_rope_fusion: false, dsa_indexer_topk_freq: 4}
    ```

    ## Upstream
    - 0.6: Megatron-Core `transformer_config.py`, `TransformerConfig.__post_init__`; `utils.py`,
      `_validate_dsa_kernel_backend_dependencies`
    """

    code, slug = "DSA103", "dsa/fields"
    releases = (R06, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        if not touched(run, VARIANT, KERNELS, BIAS, EVERY, SKIPPED):
            return
        if run.value(VARIANT) != DSA_VARIANT:
            return
        kernels = run.value(KERNELS)
        if kernels not in DSA_KERNELS:
            shown = in_yaml(kernels)
            message = f"dsa_kernel_backend must be {words(DSA_KERNELS, 'or')}, found {shown}"
            yield self._refuse(run, KERNELS, message, DSA_KERNELS[0], "Only these kernels of sparse attention exist.")
        if stated(run, BIAS):
            message = "sparse attention (DSA) needs add_bias_linear: false"
            yield self._refuse(run, BIAS, message, False, "Its attention layer absorbs a projection and has no bias there.")
        for key, least in ((EVERY, 1), (SKIPPED, 0)):
            number = run.number(key)
            if number is None or number < least:
                name, shown = key.rpartition(".")[2], in_yaml(number)
                message = f"{name} must be {least} or more, found {shown}"
                yield self._refuse(run, key, message, least, "It says on which layers the indexer chooses tokens anew.")

    def _refuse(self, run: Run, key: str, message: str, value: object, why: str) -> Finding:
        shown = str(value).lower()
        return self.finding(
            run,
            REJECTED,
            key if run.wrote(key) else VARIANT,
            message,
            why=why,
            related=(VARIANT, key),
            fix=Fix(f"{key.rpartition('.')[2]}: {shown}", set_to(run, (key, value))),
        )


RULES: tuple[Rule, ...] = (GdnFrequency(), DsaFields())
