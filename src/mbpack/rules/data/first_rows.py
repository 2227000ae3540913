"""What the first rows of the training file say about the configuration that reads them."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.evidence import RawData, Row
from mbpack.config.run import Run
from mbpack.config.settings import Object, Unknown
from mbpack.facts.classes import DatasetKind
from mbpack.facts.preprocessing import CHAT_CLASS, COMPLETION_CLASS
from mbpack.facts.releases import R06
from mbpack.rules.base import CRASH_DATA, SILENT, Edit, Finding, Fix, Rule, set_to, words

ROOT, PREPROCESSING = "dataset.dataset_root", "dataset.preprocessing"
_CHAT_TARGET = f"megatron.bridge.data.sft_processing.{CHAT_CLASS}"
#: Columns that every release reads whatever the preprocessing names.
_CANONICAL = ("prompt", "completion")
#: What templates before 0.6 read where nothing else is said.
_OLD_COLUMNS = ("input", "output")
_SPEAKERS = frozenset({"assistant", "gpt", "model", "bot"})


def _seen(run: Run) -> RawData:
    """The raw data that this run reads; raises Unknown where nobody looked, or something else is read."""
    raw = run.evidence.raw
    if run.dataset is not DatasetKind.GPT_SFT or run.dataset_class == "HFDatasetConfig":
        raise Unknown(ROOT, (), "moot")
    if run.release >= R06 and run.is_set("dataset.hf_dataset"):
        raise Unknown(ROOT, (), "moot")
    packs = run.evidence.packs.get("training")
    if packs is not None and not packs.missing:
        raise Unknown(ROOT, (), "moot")  # they are packed already
    return raw


class RootIsFile(Rule):
    """The data root is a file, and a folder is needed.

    The builder looks for `training.jsonl` (and `validation.jsonl`, `test.jsonl`) in a folder; below a file there is nothing.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    # found: {raw: {root: data/training.jsonl, is_file: true}}
    dataset: {dataset_root: data/training.jsonl, hf_dataset: null, hf_validation_proportion: null}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    # found: {raw: {root: data}}
    dataset: {dataset_root: data, hf_dataset: null, hf_validation_proportion: null}
    ```

    ## Upstream
    - all releases: `data/builders`, the paths below `dataset_root`
    """

    code, slug = "DAT160", "data/root-is-file"
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        raw = _seen(run)
        if raw.is_file and run.wrote(ROOT):
            folder, _, name = raw.root.rpartition("/")
            edits = set_to(run, (ROOT, folder or ".")) if name == "training.jsonl" else ()
            fix = Fix(
                f"dataset_root: {folder or '.'}" if edits else "the folder that holds it, with the file named training.jsonl",
                edits,
            )
            yield self.finding(
                run,
                CRASH_DATA,
                ROOT,
                f"{ROOT} is a file: the builder looks for training.jsonl in a folder",
                fix=fix,
            )


class RowSchema(Rule):
    """The rows have another form than the preprocessing reads.

    Conversations (`messages`) need the chat preprocessing, prompt-completion rows the columns that the preprocessing names. The
    first row that does not fit stops the building of the data.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    # found: {raw: {root: data, first: [{line: 1, columns: [messages], roles: [user, assistant]}]}}
    dataset: {dataset_root: data, hf_dataset: null, hf_validation_proportion: null}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    # found: {raw: {root: data, first: [{line: 1, columns: [messages], roles: [user, assistant]}]}}
    dataset:
      dataset_root: data
      hf_dataset: null
      hf_validation_proportion: null
      preprocessing: {_target_: megatron.bridge.data.sft_processing.ChatSFTPreprocessingConfig, loss_mode: assistant}
    ```

    ## Upstream
    - 0.6, 0.7: `data/sft_processing.py`, `normalize_sft_example` (ValueError)
    - 0.3 to 0.5: `data/datasets/sft.py`, `GPTSFTDataset` and `GPTSFTChatDataset` (KeyError)
    """

    code, slug = "DAT161", "data/row-schema"
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        rows = [row for row in _seen(run).first if not row.problem]
        if not rows:
            return
        yield from self._modern(run, rows) if run.release >= R06 else self._old(run, rows)

    def _modern(self, run: Run, rows: list[Row]) -> Iterator[Finding]:
        cls = run.settings.class_at(PREPROCESSING)
        chat = next((row for row in rows if row.chat), None)
        if cls == COMPLETION_CLASS and chat is not None:
            target = {"_target_": _CHAT_TARGET, "loss_mode": "assistant"}
            fix = Fix(f"preprocessing: {{_target_: {_CHAT_TARGET}, loss_mode: assistant}}", (Edit("set", PREPROCESSING, target),))
            yield self._say(
                run, chat, f"a conversation (`{chat.chat}`), and the preprocessing reads prompt and completion columns", fix
            )
        elif cls == COMPLETION_CLASS:
            names = tuple(run.value(f"{PREPROCESSING}.{name}") for name in ("prompt_column", "completion_column"))
            odd = next((row for row in rows if not _has(row, names) and not _has(row, _CANONICAL)), None)
            if odd is not None and all(isinstance(name, str) for name in names):
                yield self._say(
                    run, odd, f"the columns {words(odd.columns)}, and the preprocessing reads {words(names)}", _named(run, odd)
                )
        elif cls == CHAT_CLASS:
            odd = next((row for row in rows if not row.chat and not _has(row, _CANONICAL)), None)
            if odd is not None:
                fix = Fix("the preprocessing for prompts and completions, with the names of the columns")
                yield self._say(
                    run, odd, f"the columns {words(odd.columns)} and no conversation, which the preprocessing reads", fix
                )

    def _old(self, run: Run, rows: list[Row]) -> Iterator[Finding]:
        kwargs = run.settings.mapping("dataset.dataset_kwargs")
        chat = bool(kwargs["chat"].value) if "chat" in kwargs else False
        talk = next((row for row in rows if row.chat), None)
        if talk is not None and not chat and not _has(talk, _OLD_COLUMNS) and "prompt_template" not in kwargs:
            fix = Fix("dataset_kwargs: {chat: true, use_hf_tokenizer_chat_template: true}")
            yield self._say(
                run, talk, f"a conversation (`{talk.chat}`), and without `chat: true` the columns input and output are read", fix
            )
        elif chat and talk is None:
            fix = Fix("no chat in dataset_kwargs")
            yield self._say(
                run, rows[0], f"the columns {words(rows[0].columns)} and no conversation, which `chat: true` reads", fix
            )

    def _say(self, run: Run, row: Row, what: str, fix: Fix) -> Finding:
        key = ROOT if run.wrote(ROOT) else PREPROCESSING
        return self.finding(
            run,
            CRASH_DATA,
            key,
            f"line {row.line} of training.jsonl holds {what}",
            why="The first row that does not fit stops the building of the data, on rank 0; the others wait.",
            related=(PREPROCESSING,) if isinstance(run.maybe(PREPROCESSING), Object) else (),
            fix=fix,
        )


def _has(row: Row, names: tuple[object, ...]) -> bool:
    return all(name in row.columns for name in names)


def _named(run: Run, row: Row) -> Fix:
    """The columns by their names, where there are two of them."""
    if len(row.columns) != 2:
        return Fix("prompt_column and completion_column: the columns that hold the two")
    prompt, completion = row.columns
    edits = set_to(run, (f"{PREPROCESSING}.prompt_column", prompt), (f"{PREPROCESSING}.completion_column", completion))
    return Fix(f"prompt_column: {prompt} and completion_column: {completion}", edits)


class BrokenRows(Rule):
    """One of the first rows cannot be used.

    A line that is no JSON object stops the building of the data. A conversation in which no assistant speaks has nothing to
    learn from: every token is masked.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    # found: {raw: {root: data, first: [{line: 3, problem: no JSON}]}}
    dataset: {dataset_root: data, hf_dataset: null, hf_validation_proportion: null}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    # found: {raw: {root: data, first: [{line: 3, columns: [prompt, completion]}]}}
    dataset: {dataset_root: data, hf_dataset: null, hf_validation_proportion: null}
    ```

    ## Upstream
    - all releases: `data/datasets` (json.loads of every line); the loss mask of conversations
    """

    code, slug = "DAT162", "data/broken-rows"
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        rows = _seen(run).first
        key = ROOT if run.wrote(ROOT) else "dataset.seq_length"
        for row in rows:
            if row.problem:
                yield self.finding(
                    run,
                    CRASH_DATA,
                    key,
                    f"line {row.line} of training.jsonl is {row.problem}",
                    why="Every line must be one JSON object.",
                    fix=Fix(f"mend or delete line {row.line}"),
                )
                return
        spoken = [row for row in rows if row.chat and row.roles]
        if spoken and not any(_SPEAKERS & {role.lower() for role in row.roles} for row in spoken):
            roles = words(sorted({role for row in spoken for role in row.roles}))
            yield self.finding(
                run,
                SILENT.as_warning(),
                key,
                f"in the first {len(spoken)} conversations of training.jsonl nobody answers (roles: {roles})",
                why="The loss is taken on the assistant's turns; without one every token is masked.",
                fix=Fix("name the role of the answers assistant"),
            )


RULES: tuple[Rule, ...] = (RootIsFile(), RowSchema(), BrokenRows())
