"""Chat templates: where the answers of a conversation begin, and who says so."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.run import Run
from mbpack.facts.chat_templates import has_generation_block
from mbpack.facts.classes import DatasetKind
from mbpack.facts.releases import NIGHTLY, R03, R05, R07
from mbpack.rules.base import CRASH_DATA, NOTE, SILENT, Finding, Fix, Rule
from mbpack.rules.packs.lookup import KWARGS, PREPROCESSING, answers_only, is_chat, ready

CHAT, USE_TEMPLATE = f"{KWARGS}.chat", f"{KWARGS}.use_hf_tokenizer_chat_template"
MODEL = "tokenizer.tokenizer_model"


class ChatTemplateGeneration(Rule):
    """Up to 0.5 a chat template without a generation block does not say where answers begin.

    The mask of the answers comes from `{% generation %}` in the template. Few published models have it: the templates of
    Qwen, Llama, Mistral and Nemotron do not. 0.3 and 0.4 then train on the whole conversation without a word, 0.5 stops
    with a ValueError. From 0.6 on the boundaries of known templates are inferred.

    ## Bad
    ```yaml
    # mbpack: bridge=0.4 recipe=qwen3_8b_sft_config gpus=8 launcher=script
    dataset: {dataset_kwargs: {chat: true, use_hf_tokenizer_chat_template: true}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.4 recipe=qwen3_8b_sft_config gpus=8 launcher=script
    # found: {training: {rows: 100}, validation: {rows: 10}, generation_block: true}
    dataset: {dataset_kwargs: {chat: true, use_hf_tokenizer_chat_template: true}}
    ```

    ## Upstream
    - 0.3, 0.4: `data/datasets/utils.py`, `_chat_preprocess` (all ones); 0.5 raises there
    """

    code, slug = "DAT147", "data/chat-template-generation"
    releases = (R03, R05)
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        if run.dataset is not DatasetKind.GPT_SFT or not is_chat(run) or not run.flag(USE_TEMPLATE) or not answers_only(run):
            return
        if run.offline and ready(run):
            return  # packs that exist have their mask: loss/mask-density reads it
        seen = run.evidence.generation_block
        known = has_generation_block(self._model(run)) if seen is None else seen
        if known:
            return
        silent = run.release < R05
        outcome = SILENT if silent else CRASH_DATA
        asked = run.complete or run.wrote(USE_TEMPLATE) or run.wrote(CHAT)
        yield self.finding(
            run,
            outcome.as_warning() if known is False and asked else outcome.as_info(),
            USE_TEMPLATE,
            ("the chat template" if known is False else "a chat template")
            + " without a generation block "
            + ("trains on the whole conversation" if silent else "cannot be used for answers only"),
            why="The mask of the answers comes from that block; "
            + (
                "without it every token carries loss, and nothing is printed."
                if silent
                else "without it packing raises a ValueError."
            )
            + ("" if known is False else " Whether this model's template has one is not known here."),
            related=(CHAT, MODEL),
            fix=Fix("{% generation %} around the answers in the tokenizer's template, or Megatron-Bridge 0.6, and new packs"),
        )

    @staticmethod
    def _model(run: Run) -> str | None:
        name = run.maybe(MODEL)
        recipe = run.settings.recipe
        return name if isinstance(name, str) else recipe.hf_id if recipe is not None else None


class ChatTemplateDefault(Rule):
    """0.7 renders chats with the tokenizer's template unless told otherwise.

    Up to 0.6 `use_hf_tokenizer_chat_template` is off where nobody sets it, and conversations get the legacy prompt. In 0.7
    it is on: the same file trains on another text. Packs of 0.6 keep their directory name and are used as they are.

    ## Bad
    ```yaml
    # mbpack: bridge=0.7 recipe=llama3_8b_sft_config gpus=8 launcher=script
    dataset: {dataset_root: data/chat, hf_dataset: null, hf_validation_proportion: null, preprocessing: null, dataset_kwargs: {chat: true}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    dataset: {dataset_root: data/chat, hf_dataset: null, hf_validation_proportion: null, preprocessing: null, dataset_kwargs: {chat: true}}
    ```

    ## Upstream
    - 0.7: `data/builders/gpt_sft.py`, `build_gpt_sft_split`
    """

    code, slug = "DAT148", "data/chat-template-default"
    notes_only = True
    releases = (R07, NIGHTLY)
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        if run.dataset is not DatasetKind.GPT_SFT or run.maybe(PREPROCESSING) is not None or not run.value(CHAT):
            return
        if "use_hf_tokenizer_chat_template" in run.settings.mapping(KWARGS):
            return
        yield self.finding(
            run,
            NOTE,
            CHAT,
            f"{run.release} renders these chats with the tokenizer's template; up to 0.6 they got the legacy prompt",
            why="use_hf_tokenizer_chat_template is on where nobody sets it. Packs of 0.6 keep their name and would be used"
            " as they are.",
            fix=Fix("use_hf_tokenizer_chat_template: true or false, written out; new packs after an upgrade"),
        )


RULES: tuple[Rule, ...] = (ChatTemplateGeneration(), ChatTemplateDefault())
