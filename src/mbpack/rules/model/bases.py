"""Sizes that a model computes others from: its width, the width that MuP starts from, the Mamba chunk, the initial deviation."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.run import Run
from mbpack.config.settings import Origin
from mbpack.facts.releases import NIGHTLY, R04, R06
from mbpack.rules.base import REJECTED, Finding, Fix, RejectingRule, Rule, in_yaml, set_to

MUP, BASE, WIDTH = "model.use_mup", "model.mup_base_hidden_size", "model.hidden_size"
POWER = "model.mup_attn_scale_power"
CHUNK, HEAD, FFN = "model.mamba_chunk_size", "model.kv_channels", "model.ffn_hidden_size"
DEVIATION, INIT, OUTPUT_INIT = "model.init_method_std", "model.init_method", "model.output_layer_init_method"


class MupBase(RejectingRule):
    """Maximal update parametrization needs a positive width of the base model.

    `mup_base_hidden_size` is the width that learning rates were tuned for; null stands for the model's own. Attention scores are
    divided by a power of the width of a head, which then may not be 0.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {use_mup: true, mup_base_hidden_size: 0}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {use_mup: true, mup_base_hidden_size: 256}
    ```

    ## Upstream
    - 0.4 to 0.7: Megatron-Core `transformer_config.py`, `TransformerConfig.__post_init__`
    """

    code, slug = "MUP101", "mup/base-size"
    releases = (R04, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.flag(MUP):
            return
        yield from self._base(run)
        yield from self._head(run)

    def _base(self, run: Run) -> Iterator[Finding]:
        key = BASE if run.is_set(BASE) else WIDTH
        size = run.number(key)
        if size is not None and size > 0 and key == BASE and run.wrote(WIDTH):  # the ratio of the two scales weights and logits
            key, size = WIDTH, run.number(WIDTH)
        if size is not None and size <= 0:
            yield self.finding(
                run,
                REJECTED,
                key,
                f"{key.rpartition('.')[2]} must be positive with use_mup, found {size}",
                why="Widths are compared with that of the base model.",
                related=(MUP,),
                fix=Fix("mup_base_hidden_size: null, for the model's own width", set_to(run, (BASE, None)))
                if key == BASE
                else Fix("hidden_size: a positive width"),
            )

    def _head(self, run: Run) -> Iterator[Finding]:
        """Scores are divided by a power of a head's width, unless the scale is given."""
        if run.is_set("model.softmax_scale"):
            return
        run.number("model.mup_base_head_dim")
        power = run.number(POWER)
        if power is None:
            message, fix = f"{POWER.partition('.')[2]} is null, a number is needed with use_mup", set_to(run, (POWER, 1.0))
            title = f"{POWER.partition('.')[2]}: 1.0"
            yield self.finding(run, REJECTED, POWER, message, related=(MUP,), fix=Fix(title, fix))
        elif power != 0 and run.wrote(HEAD) and run.number(HEAD) == 0:
            message = "kv_channels must not be 0 with use_mup: scores are divided by a power of it"
            yield self.finding(run, REJECTED, HEAD, message, related=(MUP,), fix=Fix("kv_channels: the width of a head"))


class ChunkSize(RejectingRule):
    """The chunks that Mamba layers work on have at least one token.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=nemotronh_8b_sft_config gpus=8 launcher=script
    model: {mamba_chunk_size: 0}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=nemotronh_8b_sft_config gpus=8 launcher=script
    model: {mamba_chunk_size: 256}
    ```

    ## Upstream
    - 0.6, 0.7: `models/hybrid/hybrid_provider.py`, `HybridModelProvider.finalize`
    """

    code, slug = "SSM105", "ssm/chunk-size"
    releases = (R06, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.wrote(CHUNK):
            return
        size = run.number(CHUNK, 1)
        if size is None or size < 1:
            yield self.finding(
                run,
                REJECTED,
                CHUNK,
                f"mamba_chunk_size must be at least 1, found {in_yaml(size)}",
                why="Mamba layers scan the tokens of a row in chunks.",
                fix=Fix("mamba_chunk_size: 128", set_to(run, (CHUNK, 128))),
            )


class NullSize(RejectingRule):
    """The width of a model and the deviation of its initial weights are numbers where something is computed from them.

    A `hidden_size` of null stops where the width of a head or of the feed-forward layers is to follow from it, an `init_method_std`
    of null unless the initialization is given as functions.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {init_method_std: null}
    ```
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {hidden_size: null, kv_channels: null}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {init_method_std: 0.01, kv_channels: null}
    ```

    ## Upstream
    - all releases: Megatron-Core `transformer_config.py`, `TransformerConfig.__post_init__` (TypeError)
    """

    code, slug = "CFG133", "cfg/null-size"

    def stops_at(self, run: Run) -> str:
        return self.slug if self._width_used(run) and isinstance(run.maybe(WIDTH), str) else f"{self.slug}@init"

    def check(self, run: Run) -> Iterator[Finding]:
        if run.wrote(WIDTH) and self._width_used(run) and run.number(WIDTH) is None:
            yield self._null(run, WIDTH, "The width of a head, or of the feed-forward layers, is computed from it.", self.slug)
        elif run.wrote(WIDTH) and run.release >= R04 and run.flag(MUP) and run.number(WIDTH) is None:
            yield self._null(run, WIDTH, "The widths of this model and of the base model are compared.", "mup/base-size")
        if run.wrote(DEVIATION) and self._deviation_used(run) and run.number(DEVIATION) is None:
            yield self._null(run, DEVIATION, "The deviation of the last layers is computed from it.", f"{self.slug}@init")

    @staticmethod
    def _width_used(run: Run) -> bool:
        return _nothing(run, HEAD) or _nothing(run, FFN)

    @staticmethod
    def _deviation_used(run: Run) -> bool:
        return _nothing(run, OUTPUT_INIT) or (run.flag(MUP) and _nothing(run, INIT))

    def _null(self, run: Run, key: str, why: str, station: str) -> Finding:
        name = key.rpartition(".")[2]
        fix = Fix(f"{name}: a number, or no line for {name}")
        return self.finding(run, REJECTED, key, f"{key} is null, a number is needed", why=why, fix=fix, station=station)


def _nothing(run: Run, key: str) -> bool:
    """Whether a value is null; a feed-forward width that a converted recipe leaves out is not."""
    setting, recipe = run.setting(key), run.settings.recipe
    if setting.value is not None:
        return False
    return key != FFN or recipe is None or not recipe.likely or setting.origin is not Origin.DEFAULT


RULES: tuple[Rule, ...] = (MupBase(), ChunkSize(), NullSize())
