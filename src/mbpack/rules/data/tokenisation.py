"""From raw rows to packed samples: chat data, templates, end-of-sequence padding, virtual tokens."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mbpack.config.in_effect import DATA_SEQ, PAD_MULT, pad_multiple, sample_limit
from mbpack.config.run import Run
from mbpack.facts.preprocessing import SEMANTIC_KWARGS
from mbpack.facts.releases import R03, R05, R06, R07
from mbpack.facts.schema import schema
from mbpack.rules.base import CRASH_DATA, SILENT, Finding, Fix, Outcome, Rule, set_to
from mbpack.rules.packs.lookup import (
    KWARGS,
    PATHS,
    PREPROCESSING,
    ROOT,
    TOKENIZER_TYPE,
    WARN_CRASH_DATA,
    WARN_SILENT,
    is_chat,
    prepares,
    ready,
    splits,
)

#: Tokenizers whose end-of-document token may differ from their end-of-sequence token.
_TWO_ENDS = (
    "SentencePieceTokenizer",
    "GPTSentencePieceTokenizer",
    "Llama2Tokenizer",
    "TikTokenizer",
    "TikTokenTokenizer",
)
CHAT_TARGET = "megatron.bridge.data.sft_processing.ChatSFTPreprocessingConfig"


class ChatOverlong(Rule):
    """Chat rows longer than the sample limit are not simply cut.

    Up to 0.5 they are kept whole, and packing stops with an IndexError. From 0.6 on they are dropped with a warning or,
    with a padding multiple above 1, cut to the last multiple below the limit. `mbpack plan` counts them.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    # found: {lengths: {500: 900, 6000: 100}}
    dataset:
      preprocessing: {_target_: megatron.bridge.data.sft_processing.ChatSFTPreprocessingConfig, loss_mode: assistant}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    # found: {lengths: {500: 900, 4000: 100}}
    dataset:
      preprocessing: {_target_: megatron.bridge.data.sft_processing.ChatSFTPreprocessingConfig, loss_mode: assistant}
    ```

    ## Upstream
    - 0.3 to 0.5: `data/datasets/packing_utils.py`, `create_hist`
    - 0.6, 0.7: `data/packing/algorithms.py`, `create_hist`; `data/packing/offline.py`, `tokenize_dataset`
    """

    code, slug = "DAT127", "data/chat-overlong-index-error"

    def check(self, run: Run) -> Iterator[Finding]:
        if not prepares(run) or not is_chat(run) or ready(run):
            return
        limit, multiple = sample_limit(run), pad_multiple(run) or 1
        if limit is None or limit <= 0:
            return
        lengths = run.evidence.lengths
        long = {length - 1: rows for length, rows in lengths.items() if length - 1 > limit}
        if not long:
            return
        rows, all_rows = sum(long.values()), sum(lengths.values())
        tokens = sum(length * count for length, count in long.items())
        all_tokens = sum(max(length - 1, 0) * count for length, count in lengths.items())
        kept = limit // multiple * multiple
        lost = tokens - (kept * rows if run.release >= R06 and multiple > 1 else 0)
        old = run.release < R06
        what = "stop packing" if old else f"are cut to {kept:,}" if multiple > 1 else "are dropped"
        yield self.finding(
            run,
            WARN_CRASH_DATA if old else Outcome("warning", "silent", "data"),
            DATA_SEQ,
            f"{rows:,} of {all_rows:,} chat rows are longer than {limit:,} tokens and {what}",
            why="Chat rows are not cut to the limit, and the histogram of lengths ends there (IndexError)."
            if old
            else f"That takes away {lost / all_tokens:.0%} of the tokens, with a line in the log at most.",
            related=(PAD_MULT,),
            fix=Fix(f"seq_length of at least {max(long)}, or shorter conversations"),
        )


class ChatPadTypeError(Rule):
    """Up to 0.5 chat data cannot be packed for context parallelism.

    Chat samples are tensors, and the padding to a multiple adds a list to them: a TypeError. 0.6 turns them into lists.

    ## Bad
    ```yaml
    # mbpack: bridge=0.5 recipe=llama3_8b_sft_config gpus=8 launcher=script
    dataset:
      dataset_kwargs: {chat: true}
      packed_sequence_specs: {pad_seq_to_mult: 4}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.5 recipe=llama3_8b_sft_config gpus=8 launcher=script
    dataset:
      dataset_kwargs: {chat: true}
      packed_sequence_specs: {pad_seq_to_mult: 1}
    ```

    ## Upstream
    - 0.3 to 0.5: `data/datasets/packed_sequence.py`, `tokenize_dataset`
    """

    code, slug = "DAT128", "data/chat-pad-type-error"
    releases = (R03, R05)

    def check(self, run: Run) -> Iterator[Finding]:
        if not prepares(run) or not is_chat(run):
            return
        multiple = pad_multiple(run)
        if multiple is None or multiple <= 1 or ready(run):
            return
        yield self.finding(
            run,
            CRASH_DATA,
            PAD_MULT,
            f"chat data cannot be padded to a multiple of {multiple} in {run.release}",
            why="Chat samples are tensors; padding adds a list to them and packing stops with a TypeError.",
            related=(f"{KWARGS}.chat",),
            fix=Fix("Megatron-Bridge 0.6 or later (pad_seq_to_mult: 1 only without context parallelism)"),
        )


class PadLossLegacyPrompt(Rule):
    """In 0.7 the old prompt template puts loss on alignment padding.

    Samples without a loss mask of their own get one from the start of the answer to the end of the padded sample. Until
    0.6 that was mended when rows were collated, where end-of-sequence tokens lost their mask; 0.7 no longer does it.
    Explicit preprocessing gives every sample its own mask.

    ## Bad
    ```yaml
    # mbpack: bridge=0.7 recipe=llama3_8b_sft_config gpus=8 launcher=script
    dataset:
      dataset_root: data/sft
      hf_dataset: null
      hf_validation_proportion: null
      preprocessing: null
      offline_packing_specs: {pad_seq_to_mult: 8}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.7 recipe=llama3_8b_sft_config gpus=8 launcher=script
    dataset:
      dataset_root: data/sft
      hf_dataset: null
      hf_validation_proportion: null
      offline_packing_specs: {pad_seq_to_mult: 8}
    ```

    ## Upstream
    - 0.3 to 0.6: `GPTSFTPackedDataset.collate_fn` masks end-of-sequence tokens
    - 0.7: `data/packing/algorithms.py`, `fill_packing_strategy`; `data/packing/offline.py`, `_pre_pad_data_point`
    """

    code, slug = "DAT129", "data/pad-loss-legacy-prompt"
    releases = (R07, R07)

    def check(self, run: Run) -> Iterator[Finding]:
        if not prepares(run):
            return
        multiple = pad_multiple(run)
        if multiple is None or multiple <= 1:
            return
        seen = [split for split in splits(run) if split in run.evidence.packs]
        yield from self._in_packs(run, seen)
        if run.is_set(PREPROCESSING) or not run.is_set(ROOT) or is_chat(run):
            return
        if run.value(f"{KWARGS}.answer_only_loss", True) is False:
            return
        yield self.finding(
            run,
            SILENT,
            PREPROCESSING,
            f"without preprocessing, padding to a multiple of {multiple} carries loss in 0.7",
            why="The mask is cut at the start of the answer only, so it covers the end-of-sequence tokens that fill"
            " up the multiple; 0.7 no longer masks them when rows are collated.",
            related=(PAD_MULT, f"{KWARGS}.answer_only_loss"),
            fix=self._explicit(run),
        )

    @staticmethod
    def _explicit(run: Run) -> Fix:
        """The old defaults (columns input and output) in the new words; other columns only their owner knows."""
        title = "dataset.preprocessing: PromptCompletionSFTPreprocessingConfig with your columns, and new packs"
        target = schema(run.release.name).path("PromptCompletionSFTPreprocessingConfig")
        if target is None or SEMANTIC_KWARGS & run.settings.mapping(KWARGS).keys():
            return Fix(title)
        columns = {"_target_": target, "prompt_column": "input", "completion_column": "output", "separator": " "}
        return Fix(title, set_to(run, (PREPROCESSING, columns)))

    def _in_packs(self, run: Run, seen: Iterable[str]) -> Iterator[Finding]:
        for split in seen:
            found = run.evidence.packs[split].statistics
            if found is not None and found.samples_with_pad_loss:
                yield self.finding(
                    run,
                    SILENT,
                    PATHS[split],
                    f"{found.samples_with_pad_loss:,} samples in the {split} packs carry loss on their padding",
                    why=f"Token {found.eos} fills them up to the multiple and counts as an answer; 0.7 uses the mask as it is.",
                    related=(PAD_MULT,),
                    fix=Fix("rebuild the packs with explicit dataset.preprocessing"),
                )


class ChatTemplatePop(Rule):
    """dataset_kwargs.chat_template works on rank 0 of the run that packs, and nowhere else.

    Tokenising takes the key out of the settings; where packs exist, or on another rank, it stays and goes to a
    constructor that does not know it: a TypeError. The template belongs into the tokenizer.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    dataset: {dataset_kwargs: {chat_template: "{{ messages }}"}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    tokenizer: {chat_template: "{{ messages }}"}
    ```

    ## Upstream
    - 0.3 to 0.5: `data/datasets/packed_sequence.py`, `tokenize_dataset`
    - 0.6, 0.7: `data/packing/offline.py`, `tokenize_dataset`; `data/builders/gpt_sft.py`, `build_gpt_sft_split`
    """

    code, slug = "DAT130", "data/chat-template-pop"

    def check(self, run: Run) -> Iterator[Finding]:
        key = f"{KWARGS}.chat_template"
        if not prepares(run) or "chat_template" not in run.settings.mapping(KWARGS):
            return
        if run.context.gpus == 1 and ready(run) is False:
            return  # the one rank packs and takes the key out
        yield self.finding(
            run,
            CRASH_DATA,
            key,
            "dataset_kwargs.chat_template fails where packs exist and on every rank but 0",
            why="Only the rank that packs takes the key out; everywhere else it reaches the dataset's constructor,"
            " which does not know it (TypeError).",
            fix=Fix("set the chat template in the tokenizer's files, or tokenizer.chat_template where the release has it"),
        )


class MemmapEosVsEod(Rule):
    """Padding is recognised by the end-of-sequence token but written with the end-of-document token.

    Hugging Face tokenizers have one token for both. Where a SentencePiece or Tiktoken tokenizer has two, padding counts
    as text and samples keep a wrong logical length.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    tokenizer: {tokenizer_type: SentencePieceTokenizer}
    dataset: {offline_packing_specs: {pad_seq_to_mult: 8}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    tokenizer: {tokenizer_type: HuggingFaceTokenizer}
    dataset: {offline_packing_specs: {pad_seq_to_mult: 8}}
    ```

    ## Upstream
    - 0.3 to 0.5: `data/datasets/packed_sequence.py`, `tokenize_dataset`; `data/datasets/sft.py`, `collate_fn`
    - 0.6, 0.7: `data/packing/offline.py`, `tokenize_dataset`; `data/packing/gpt_sft.py`, `collate_fn`
    """

    code, slug = "DAT134", "data/memmap-eos-vs-eod"
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        if not prepares(run):
            return
        kind, multiple = run.value(TOKENIZER_TYPE), pad_multiple(run)
        if kind not in _TWO_ENDS or multiple is None or multiple <= 1:
            return
        yield self.finding(
            run,
            WARN_SILENT,
            TOKENIZER_TYPE,
            f"{kind}: padding is likely taken for text if its eod and eos tokens differ",
            why="Samples are padded with eod, and their real length is found by the last token that is not eos.",
            related=(PAD_MULT,),
            fix=Fix("check that both ids are equal, or use the Hugging Face tokenizer"),
        )


class VirtualTokens(Rule):
    """P-tuning does not work with packed rows.

    The packed dataset refuses virtual tokens when it is built.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    dataset: {dataset_kwargs: {virtual_tokens: 20}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    dataset: {dataset_kwargs: {virtual_tokens: 0}}
    ```

    ## Upstream
    - 0.3 to 0.5: `data/datasets/sft.py`, `GPTSFTPackedDataset`
    - 0.6, 0.7: `data/packing/gpt_sft.py`, `GPTSFTPackedDataset`
    """

    code, slug = "DAT135", "data/virtual-tokens"

    def check(self, run: Run) -> Iterator[Finding]:
        key = f"{KWARGS}.virtual_tokens"
        if not prepares(run) or "virtual_tokens" not in run.settings.mapping(KWARGS) or run.value(key, 0) == 0:
            return
        yield self.finding(
            run,
            CRASH_DATA,
            key,
            "virtual tokens (P-tuning) cannot be combined with packed rows",
            why="The packed dataset asserts that there are none.",
            fix=Fix("another adapter such as LoRA, or no packing"),
        )


RULES: tuple[Rule, ...] = (
    ChatOverlong(),
    ChatPadTypeError(),
    PadLossLegacyPrompt(),
    ChatTemplatePop(),
    MemmapEosVsEod(),
    VirtualTokens(),
)
