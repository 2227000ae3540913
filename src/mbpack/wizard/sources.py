"""Where the samples come from: the dataset class that can read them, and the settings that point it at them."""

from __future__ import annotations

import os
from collections.abc import Iterator

from mbpack.facts.classes import DatasetKind
from mbpack.facts.hard_blocks import QWEN3_VL, belongs
from mbpack.facts.hf_presets import HF_PRESET_SPLITS
from mbpack.facts.releases import R06
from mbpack.wizard import catalog
from mbpack.wizard.answers import CHAT, ENERGON_DATA, HF, INDEXED, JSONL
from mbpack.wizard.draft import Draft, Refused
from mbpack.wizard.seen import TRAINING, VALIDATION, look
from mbpack.wizard.yaml_text import Line

LOCAL_TEXT_CLASS, LOCAL_VLM_CLASS = "FinetuningDatasetConfig", "PreloadedVLMConversationProvider"
ENERGON_CLASS, QWEN_ENCODER = "EnergonDatasetConfig", "QwenVLEnergonTaskEncoderConfig"
CHAT_CLASS, COMPLETION_CLASS = "ChatSFTPreprocessingConfig", "PromptCompletionSFTPreprocessingConfig"
SOURCE_CLASS = "HFDatasetSourceConfig"
#: Columns of prompt and completion where the rows were not seen.
COLUMNS = ("input", "output")
_QWEN25_VL = (("qwen25_vl",), ("Qwen25VL",))
#: Hugging Face settings that are refused beside a local folder (0.6 and later).
_HF_ONLY = ("hf_validation_dataset", "hf_test_dataset", "hf_output_root", "hf_validation_proportion")
_SPLIT_FIELDS = ("split", "subset", "load_kwargs")


def choices(draft: Draft) -> tuple[str, ...]:
    """Data sources that make sense for the recipe."""
    kind = draft.recipe_kind
    if kind in (DatasetKind.PRETRAIN, DatasetKind.MOCK_VLM):
        return (INDEXED,)
    if kind is DatasetKind.GPT_SFT:
        return (JSONL, CHAT, HF)
    if kind is DatasetKind.ENERGON:
        return (ENERGON_DATA,)
    return (HF, CHAT, ENERGON_DATA) if _takes_energon(draft) else (HF, CHAT)


def _takes_energon(draft: Draft) -> bool:
    """Whether a Hugging Face recipe can be pointed at Energon data: its task encoder must be known (Qwen-VL, 0.6 on)."""
    marks = (draft.recipe.module, draft.recipe.model_class)
    return draft.release >= R06 and (belongs(QWEN3_VL, *marks) or belongs(_QWEN25_VL, *marks))


def dataset_class(draft: Draft) -> str:
    """The dataset class that reads the chosen data with the chosen recipe.

    Raises:
        Refused: the recipe's dataset cannot read such data in this release.
    """
    data, recipe, release = draft.get("data"), draft.recipe, draft.release
    own = recipe.dataset_class or ""
    if data not in choices(draft):
        raise Refused(_wrong_source(draft, data), "data")
    if draft.recipe_kind is DatasetKind.GPT_SFT and release < R06 and data in (JSONL, CHAT):
        return LOCAL_TEXT_CLASS
    if draft.recipe_kind is DatasetKind.CONVERSATION and data == CHAT:
        return LOCAL_VLM_CLASS
    if draft.recipe_kind is DatasetKind.DIRECT_HF and data == ENERGON_DATA:
        return ENERGON_CLASS
    return own


def _wrong_source(draft: Draft, data: str) -> str:
    recipe, allowed = draft.recipe, ", ".join(choices(draft))
    if data == ENERGON_DATA and catalog.modality(recipe) == "vlm":
        names = [
            other.name
            for other in catalog.usable(draft.release.name)
            if other.dataset_class in ("EnergonDatasetConfig", "EnergonProvider", "QwenVLEnergonProvider")
        ]
        hint = f"; Energon recipes of {draft.release}: {', '.join(names)}" if names else ""
        return f"no Energon task encoder is known for {recipe.name} in {draft.release}{hint}"
    if data == JSONL and catalog.modality(recipe) == "vlm":
        return f"{recipe.name} reads conversations with images: use --data chat for local files, not prompt-completion"
    if choices(draft) == (INDEXED,):
        return f"{recipe.name} is a pretraining recipe: it reads indexed token files, not {data} data"
    return f"{recipe.name} reads {recipe.dataset_class}: data must be one of {allowed}, not {data}"


def lines(draft: Draft) -> Iterator[Line]:
    """The settings that point the dataset at the data."""
    kind = draft.recipe_kind
    if kind is DatasetKind.GPT_SFT:
        yield from _text_lines(draft)
    elif kind in (DatasetKind.PRETRAIN, DatasetKind.MOCK_VLM):
        yield from _indexed_lines(draft)
    elif draft.get("data") == ENERGON_DATA:
        yield from _energon_lines(draft)
    elif draft.get("data") == CHAT:
        yield from _local_vlm_lines(draft)
    else:
        yield from _hf_vlm_lines(draft)


# ---------------------------------------------------------------------- text


def _text_lines(draft: Draft) -> Iterator[Line]:
    data = draft.get("data")
    if draft.release < R06:
        yield from _old_text_lines(draft, data)
    elif data == HF:
        yield from _hf_lines(draft, "dataset.hf_dataset")
    else:
        yield from _local_text_lines(draft, data)


def _old_text_lines(draft: Draft, data: str) -> Iterator[Line]:
    if data == HF:
        if draft.given("data_path"):
            raise Refused(
                f"a {draft.release} recipe processes its own Hugging Face dataset with a function no file can replace:"
                " convert yours to JSONL and use --data jsonl or --data chat",
                "data_path",
            )
        return
    if draft.recipe.dataset_class != LOCAL_TEXT_CLASS:
        target = draft.schema.path(LOCAL_TEXT_CLASS)
        yield Line("dataset._target_", target, "the recipe's class reads only its own Hugging Face dataset")
    yield Line("dataset.dataset_root", _root(draft), "holds training.jsonl and validation.jsonl")
    yield from _validation_lines(draft)
    if data == JSONL and _columns(draft) != COLUMNS:
        prompt, completion = _columns(draft)
        yield Line("dataset.dataset_kwargs.prompt_template", f"{{{prompt}}} {{{completion}}}", "the columns of the rows")
        yield Line("dataset.dataset_kwargs.label_key", completion)
        yield Line("dataset.dataset_kwargs.truncation_field", prompt)
    if data == CHAT:
        yield Line("dataset.dataset_kwargs.chat", True, "rows are conversations")
        yield Line("dataset.dataset_kwargs.use_hf_tokenizer_chat_template", True, "the tokenizer's own template")


def _local_text_lines(draft: Draft, data: str) -> Iterator[Line]:
    yield Line("dataset.dataset_root", _root(draft), "holds training.jsonl and validation.jsonl")
    if draft.recipe_value("dataset.hf_dataset") is not None:
        yield Line("dataset.hf_dataset", None, "the recipe's own source; exactly one may be set")
    for name in _HF_ONLY:
        if draft.recipe_value(f"dataset.{name}") is not None:
            yield Line(f"dataset.{name}", None, "refused beside dataset_root")
    if draft.recipe_value("dataset.hf_rewrite") is True:
        yield Line("dataset.hf_rewrite", False, "refused beside dataset_root")
    yield from _validation_lines(draft)
    yield from _preprocessing_lines(draft, data)


def _validation_lines(draft: Draft) -> Iterator[Line]:
    """Nothing is evaluated on where the folder is here and has nothing for it; packing would stop there."""
    if draft.given("data_path") and look(draft.get("data_path")).no_validation:
        yield Line("dataset.do_validation", False, f"there is no {VALIDATION}")


def _root(draft: Draft) -> str:
    """The folder of the data: the one that holds the file, where that was named.

    Raises:
        Refused: the path is a file under another name than the one that is read.
    """
    path = str(draft.get("data_path"))
    found = look(path)
    if found.folder:
        return found.folder
    if os.path.isfile(os.path.expanduser(path)):
        raise Refused(f"{path} is a file: {TRAINING} and {VALIDATION} are read, in a folder that is named here", "data_path")
    return path


def _columns(draft: Draft) -> tuple[str, str]:
    """The columns of prompt and completion: those of the first rows, else the usual ones."""
    return (look(draft.get("data_path")).columns if draft.given("data_path") else None) or COLUMNS


def _preprocessing_lines(draft: Draft, data: str) -> Iterator[Line]:
    """Preprocessing for the rows; what the recipe holds is merged in, so fields of the other class are set over."""
    held = draft.recipe_value("dataset.preprocessing")
    own = draft.schema.class_of(held.target) if held is not None and getattr(held, "target", None) else None
    if data == CHAT and own != CHAT_CLASS:
        value = {"_target_": draft.schema.path(CHAT_CLASS), "loss_mode": "assistant"}
        yield Line("dataset.preprocessing", value, "rows are conversations; loss on the assistant's turns")
    elif data == JSONL:
        prompt, completion = _columns(draft)
        named = {"prompt_column": prompt, "completion_column": completion}
        why = f"rows hold the columns `{prompt}` and `{completion}`"
        if own != COMPLETION_CLASS:
            value = {"_target_": draft.schema.path(COMPLETION_CLASS), **named, "loss_mode": "completion"}
            yield Line("dataset.preprocessing", value, why)
        elif draft.given("data_path") and look(draft.get("data_path")).columns:
            for name, column in named.items():
                if draft.recipe_value(f"dataset.preprocessing.{name}") != column:
                    yield Line(f"dataset.preprocessing.{name}", column, why)


def _hf_lines(draft: Draft, key: str) -> Iterator[Line]:
    """Another Hugging Face dataset than the recipe's, a preset of the release or a repository, where one was named."""
    if not draft.given("data_path"):
        return
    name = draft.get("data_path")
    preset = name.replace("-", "_") if name.replace("-", "_") in HF_PRESET_SPLITS else None
    value = {
        "_target_": draft.schema.path(SOURCE_CLASS),
        "dataset_name": preset,
        "path_or_dataset": None if preset else name,
    }
    for field in _SPLIT_FIELDS:
        if draft.recipe_value(f"{key}.{field}") is not None:
            value[field] = None
    yield Line(key, value, f"instead of the recipe's {draft.recipe_value(f'{key}.dataset_name') or 'dataset'}")


def _indexed_lines(draft: Draft) -> Iterator[Line]:
    if not draft.given("data_path") or draft.recipe_kind is DatasetKind.MOCK_VLM:
        return
    path = draft.get("data_path")
    if "data_path" in (draft.schema.fields(draft.dataset_class) or {}):
        yield Line("dataset.data_path", path, "prefix of the .bin and .idx files")
    else:
        yield Line("dataset.blend", [[path], None], "prefix of the .bin and .idx files")


# ---------------------------------------------------------------------- images and video


def _hf_vlm_lines(draft: Draft) -> Iterator[Line]:
    if draft.release >= R06:
        yield from _hf_lines(draft, "dataset.source")
    elif draft.given("data_path"):
        yield Line("dataset.maker_name", draft.get("data_path"), "instead of the recipe's dataset")


def _local_vlm_lines(draft: Draft) -> Iterator[Line]:
    path = draft.get("data_path")
    if draft.release < R06:
        target = draft.schema.path(LOCAL_VLM_CLASS)
        yield Line("dataset._target_", target, "the recipe's class reads only Hugging Face datasets")
        yield Line("dataset.train_data_path", path, "one conversation a row; image paths are relative to image_folder")
        return
    source = {
        "_target_": draft.schema.path(SOURCE_CLASS),
        "dataset_name": None,
        "path_or_dataset": "json",
        "split": "train",
        "load_kwargs": {"data_files": {"train": path}},
    }
    yield Line("dataset.source", source, "one conversation a row")
    for name in ("validation_source", "test_source"):
        if draft.recipe_value(f"dataset.{name}") is not None:
            yield Line(f"dataset.{name}", None)
    yield Line("dataset.do_validation", False, "only a training file is named")
    if draft.recipe_value("dataset.do_test") is not False:
        yield Line("dataset.do_test", False)


def _energon_lines(draft: Draft) -> Iterator[Line]:
    if draft.recipe_kind is not DatasetKind.ENERGON:
        yield Line("dataset._target_", draft.schema.path(ENERGON_CLASS), "the recipe's class reads Hugging Face datasets")
        processor = draft.recipe_value("dataset.hf_processor_path") or draft.recipe.hf_id
        encoder = {"_target_": draft.schema.path(QWEN_ENCODER), "hf_processor_path": processor}
        yield Line("dataset.task_encoder", encoder)
        if draft.recipe_value("dataset.do_test") is not False:
            yield Line("dataset.do_test", False, "Energon data have no test split here")
    yield Line("dataset.path", draft.get("data_path"), "the prepared WebDataset")
