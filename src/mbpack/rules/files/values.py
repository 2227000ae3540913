"""Values of the wrong kind: quoted booleans, fractions, expressions, enums and dtypes given as text."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.document import Interpolation
from mbpack.config.loading import located
from mbpack.config.run import COLLATING, Run
from mbpack.config.settings import Setting
from mbpack.config.written import written_texts, written_values
from mbpack.facts.keys import TP
from mbpack.facts.names import NOWHERE
from mbpack.facts.releases import NIGHTLY, R03, R06
from mbpack.rules.base import (
    CRASH_DATA,
    IGNORED,
    REJECTED,
    SILENT,
    Edit,
    Finding,
    Fix,
    RejectingRule,
    Rule,
    in_yaml,
)

_BOOLEANS = frozenset({"true", "false", "yes", "no", "on", "off"})


class QuotedBool(Rule):
    """A quoted boolean is text, and any text counts as true.

    `"false"` switches a setting on; `"true"` fails where upstream asks for exactly true.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {sequence_parallel: "false"}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {sequence_parallel: false}
    ```
    """

    code, slug = "CFG112", "cfg/quoted-bool"

    def check(self, run: Run) -> Iterator[Finding]:
        for written in written_texts(run):
            value = written.item.value
            if isinstance(value, str) and "bool" in written.kinds and "str" not in written.kinds:
                yield from self._say(run, written.setting, value)
        for name, setting in self._kwargs(run):
            if isinstance(setting.value, str) and name.startswith(("pad_to", "answer_only", "chat")):
                if setting.value.lower() in _BOOLEANS:
                    yield from self._say(run, setting, setting.value)

    @staticmethod
    def _kwargs(run: Run) -> list[tuple[str, Setting]]:
        found = []
        for layer in reversed(run.settings.layers):
            section = layer.root.value.get("dataset") if isinstance(layer.root.value, dict) else None
            held = section.value.get("dataset_kwargs") if section is not None and isinstance(section.value, dict) else None
            if held is not None and isinstance(held.value, dict):
                for name, item in held.value.items():
                    path = f"dataset.dataset_kwargs.{name}"
                    found.append((str(name), Setting(path, item.value, layer.origin, item, layer.document)))
        return found

    def _say(self, run: Run, setting: Setting, value: str) -> Iterator[Finding]:
        if isinstance(setting.item.value if setting.item else None, Interpolation):
            return
        meant = value.strip().lower() in ("true", "yes", "on", "1")
        yield self.finding(
            run,
            SILENT,
            setting.key,
            f"{setting.key} is text ({value!r}), which counts as true"
            if not meant
            else f"{setting.key} is text ({value!r}), not the boolean true",
            why="Any non-empty text is true in Python." if not meant else "Checks that ask for exactly true fail.",
            setting=setting,
            fix=Fix(f"{setting.key.rpartition('.')[2]}: {in_yaml(meant)}", (Edit("set", setting.key, meant),)),
        )


class FloatInt(RejectingRule):
    """A fraction where a whole number is needed.

    `8e3` is 8000.0 to OmegaConf. Validation accepts it, and building data or model fails later; from 0.6 on the sizes
    that the padding multiple is made of (context parallel, tensor parallel under sequence parallel) are refused.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {context_parallel_size: 2.0, calculate_per_token_loss: true}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {context_parallel_size: 2, calculate_per_token_loss: true}
    ddp: {average_in_collective: false}
    dataset: {offline_packing_specs: {pad_seq_to_mult: 4}}
    ```

    ## Upstream
    - 0.6, 0.7: `training/config.py`, `ConfigContainer.validate` (`math.lcm` of the sizes)
    """

    code, slug = "CFG110", "cfg/float-int"

    def check(self, run: Run) -> Iterator[Finding]:
        for written in written_values(run):
            value = written.item.value
            if type(value) is float and "int" in written.kinds and "float" not in written.kinds:
                whole = int(value) if value == value and abs(value) < 1e18 and value == int(value) else None
                fix = (
                    Fix(f"{written.path.rpartition('.')[2]}: {whole}", (Edit("set", written.path, whole),), True)
                    if whole is not None
                    else Fix("a whole number")
                )
                refused = self._refused(run, written.path)
                yield self.finding(
                    run,
                    REJECTED if refused else CRASH_DATA,
                    written.path,
                    f"{written.path} is the fraction {value!r}, a whole number is needed",
                    why="The padding multiple cannot be computed from a fraction."
                    if refused
                    else "Validation accepts it; data or buffers are then built with a fractional size.",
                    setting=written.setting,
                    fix=fix,
                    station="section:dist" if refused else "",
                )

    @staticmethod
    def _refused(run: Run, path: str) -> bool:
        """Whether start-up computes a least common multiple of the size."""
        if run.release < R06:
            return False
        if path == "dataset.pad_to_multiple_of":
            return run.dataset in COLLATING and not run.in_batch
        if path.partition(".")[0] not in ("model", "dist"):
            return False
        tp = run.maybe(TP)
        sequence_parallel = bool(run.maybe("model.sequence_parallel")) and isinstance(tp, (int, float)) and tp > 1
        if path.endswith("context_parallel_size"):  # a size of 1 is replaced by the whole number 1
            return sequence_parallel or (isinstance(size := run.maybe(path), float) and size > 1)
        return path.endswith("tensor_model_parallel_size") and sequence_parallel


class EnumString(Rule):
    """An enum given as text stays text and is not recognised.

    Graph scopes are the exception: Megatron-Core converts their names.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    train: {exit_signal: SIGUSR1}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    train:
      exit_signal: {_target_: signal.Signals, _call_: true, _args_: [10]}
    ```
    """

    code, slug = "CFG115", "cfg/enum-string"

    def check(self, run: Run) -> Iterator[Finding]:
        for written in written_texts(run):
            kind = written.field.type
            if not kind.startswith("enum:") or "cuda_graph" in written.path or written.path.endswith(".attention_backend"):
                continue
            value = written.item.value
            if isinstance(value, str) and not isinstance(value, Interpolation):
                name = kind.partition(":")[2].partition("|")[0]
                yield self.finding(
                    run,
                    IGNORED.as_warning(),
                    written.path,
                    f"{written.path} is the text {value!r}, not a {name}: it is not recognised",
                    setting=written.setting,
                    fix=Fix("a mapping with _target_, _call_: true and _args_"),
                )


class DtypeString(RejectingRule):
    """A dtype name that the release does not convert stays text.

    0.3 knows only the long names (`torch.bfloat16`); from 0.4 on `bf16` and `bfloat16` work too, and the model's
    `params_dtype` and `pipeline_dtype` must be a name that is known there, unless mixed precision writes its own over
    them.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 gpus=8 launcher=script
    _target_: megatron.bridge.training.config.ConfigContainer
    model: {_target_: megatron.bridge.models.gpt_provider.GPTModelProvider, params_dtype: half}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.3 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {params_dtype: torch.bfloat16}
    ```

    ## Upstream
    - 0.4 to 0.7: `models/transformer_config.py`, `_resolve_string_fields` (ValueError for an unknown name)
    """

    code, slug = "CFG116", "cfg/dtype-string"

    #: What the model's two fields take from 0.4 on; a whole file may also name any dtype of torch as an object.
    MODEL = ("params_dtype", "pipeline_dtype")
    NAMES = frozenset(
        "fp32 float32 32 32-true fp16 float16 16 16-mixed bf16 bfloat16 bf16-mixed fp8 float8_e4m3fn float8_e5m2 "
        "torch.fp32 torch.float32 torch.fp16 torch.float16 torch.bf16 torch.bfloat16 torch.fp8 torch.float8_e4m3fn "
        "torch.float8_e5m2".split()
    )

    LONG = frozenset(
        f"torch.{name}" for name in "float16 bfloat16 float32 float64 half float double int8 int16 int32 int64 uint8".split()
    )
    SHORT = frozenset("bf16 bfloat16 fp16 float16 half fp32 float32 float fp64 float64".split())

    def check(self, run: Run) -> Iterator[Finding]:
        for written in written_texts(run):
            value = written.item.value
            if "torch.dtype" not in written.kinds or not isinstance(value, str) or isinstance(value, Interpolation):
                continue
            known = value in self.LONG or (run.release > R03 and value in self.SHORT)
            nowhere = run.complete and value.startswith("torch.") and located(run.settings, value) is NOWHERE
            if nowhere or self._refused(run, written.path, value):
                yield self.finding(
                    run,
                    REJECTED,
                    written.path,
                    f"{written.path}: {value!r} is not a dtype {run.release} knows",
                    setting=written.setting,
                    fix=Fix("torch.bfloat16", (Edit("set", written.path, "torch.bfloat16"),)),
                    station="section:model",
                )
            elif not known:
                yield self.finding(
                    run,
                    IGNORED.as_warning(),
                    written.path,
                    f"{written.path}: {value!r} is not a dtype {run.release} converts; it stays text",
                    setting=written.setting,
                    fix=Fix("torch.bfloat16", (Edit("set", written.path, "torch.bfloat16"),)),
                )

    @classmethod
    def _refused(cls, run: Run, path: str, value: str) -> bool:
        """Whether the model's own finalization looks the name up in vain."""
        section, _, name = path.rpartition(".")
        if section == "mixed_precision" and name in cls.MODEL and run.release > R03:
            return value not in cls.NAMES  # it is copied to the model
        if run.release <= R03 or section not in ("model", "model.transformer") or name not in cls.MODEL:
            return False
        if value in cls.NAMES or (run.complete and value.startswith("torch.")):
            return False
        return run.value("mixed_precision") is None


class EnvVars(RejectingRule):
    """Environment variables need a name and a single value.

    From 0.6 on `env_vars` is put into the environment before anything else; what is already set there stays.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    env_vars: {NCCL_ALGO: [Ring, Tree]}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    env_vars: {NCCL_ALGO: Ring}
    ```

    ## Upstream
    - 0.6, 0.7: `training/config.py`, `apply_environment_variables`
    """

    code, slug = "CFG130", "cfg/env-vars"
    releases = (R06, NIGHTLY)

    def check(self, run: Run) -> Iterator[Finding]:
        if run.settings.peek("env_vars") is None and not run.wrote("env_vars"):
            return
        for name, setting in run.settings.mapping("env_vars").items():
            if not isinstance(name, str) or not name:
                what, fix = "must be a name", Fix("the name of a variable, in quotes where YAML reads it as a number")
            elif not isinstance(setting.value, (str, int, float, bool)):
                what, fix = "needs a single value", Fix(f"env_vars.{name}: one word or number")
            else:
                continue
            yield self.finding(run, REJECTED, setting.key, f"env_vars: {name!s} {what}", setting=setting, fix=fix)


RULES: tuple[Rule, ...] = (
    QuotedBool(),
    FloatInt(),
    EnumString(),
    DtypeString(),
    EnvVars(),
)
