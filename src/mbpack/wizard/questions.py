"""The questions of ``mbpack init`` as data: what is asked, why, when, and what may be chosen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mbpack.facts.gpus import GPUS
from mbpack.facts.knowledge import KNOWLEDGE
from mbpack.facts.modes import ENERGON as NATIVE
from mbpack.facts.modes import IN_BATCH, MODES, NONE
from mbpack.facts.recipes import Recipe
from mbpack.facts.releases import DEFAULT, RELEASES, Release
from mbpack.wizard import answers as words
from mbpack.wizard import catalog, sources
from mbpack.wizard.draft import Draft, Refused
from mbpack.wizard.modes import LONG, assess, chosen_mode


@dataclass(frozen=True, slots=True)
class Option:
    """One choice: the answer, how it is called, and a remark; ``refused`` says why it cannot be taken."""

    value: str
    title: str
    note: str = ""
    refused: str | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """One question.

    ``why``: what depends on it, for the help key, together with what `mbpack explain` has about ``topics`` and ``rules``
    (codes; the first one in full). ``options``: the choices, None for free answers. ``search``: options are found by
    typing parts of their name. ``asked``: whether the answers so far leave anything to ask. ``optional``: nobody misses it
    where no terminal can ask.
    """

    key: str
    prompt: str
    why: str
    asked: Callable[[Draft], bool] = lambda draft: True
    options: Callable[[Draft], list[Option]] | None = None
    search: bool = False
    rules: tuple[str, ...] = ()
    topics: Callable[[Draft], tuple[str, ...]] = lambda draft: ()
    optional: bool = False


# ---------------------------------------------------------------------- options


def _releases(draft: Draft) -> list[Option]:
    return [Option(release.name, release.name, _known_as(release)) for release in reversed(RELEASES)]


def _known_as(release: Release) -> str:
    known = KNOWLEDGE[release]
    if known.lists_complete:
        return "newest whose package was run" if release is DEFAULT else ""
    return f"{known.published}; read as of {known.as_of}"


def _workloads(draft: Draft) -> list[Option]:
    return [
        Option(words.SFT, "SFT", "all weights; text packs offline"),
        Option(words.LORA, "LoRA", "packs exactly like SFT"),
        Option(words.DORA, "DoRA", "packs exactly like SFT"),
        Option(words.PRETRAIN, "Pretraining, long context", "rows are full already: no packing"),
    ]


def _modalities(draft: Draft) -> list[Option]:
    return [Option(words.TEXT_MODALITY, "Text"), Option(words.VLM, "Text with images or video")]


def _recipes(draft: Draft) -> list[Option]:
    found = catalog.matching(
        draft.release,
        draft.get("workload"),
        catalog.find_family(draft.release, draft.get("family")) if draft.given("family") else None,
        draft.get("modality") if draft.given("modality") else None,
    )
    return [Option(recipe.name, recipe.name, _size(recipe)) for recipe in sorted(found, key=lambda one: one.name)]


def _size(recipe: Recipe) -> str:
    return f"{recipe.gpus} GPU{'s' if recipe.gpus > 1 else ''}" if recipe.gpus else ""


def _gpus(draft: Draft) -> list[Option]:
    return [Option(gpu.name, gpu.name, f"{gpu.usable:.0f} GiB usable") for gpu in GPUS.values()]


def _data(draft: Draft) -> list[Option]:
    titles = {
        words.JSONL: ("JSONL, prompt and completion", "training.jsonl, validation.jsonl"),
        words.CHAT: ("JSONL, chat", "one conversation a row"),
        words.HF: ("Hugging Face dataset", "the recipe's own unless you name another"),
        words.ENERGON_DATA: ("Energon WebDataset", "prepared with energon prepare"),
        words.INDEXED: ("Megatron indexed data", ".bin and .idx, or the recipe's own"),
    }
    return [Option(name, *titles[name]) for name in sources.choices(draft)]


def _graphs(draft: Draft) -> list[Option]:
    from mbpack.wizard.graphs import ATTENTION_REFUSED

    packs = not draft.pretraining and draft.get("packing") != NONE.name and not draft.get("long_samples")
    return [
        Option(words.NO_GRAPHS, "None"),
        Option(words.MLP, "MLP only", "dense layers; rows of one width"),
        Option(words.FULL_ITERATION, "Full iteration", "rows of one width, boundary arrays of one length"),
        Option(words.ATTN, "Attention", refused=ATTENTION_REFUSED if packs else None),
    ]


def _packing(draft: Draft) -> list[Option]:
    options = [Option(words.AUTO, "Recommended", _recommended(draft))]
    for mode in MODES.values():
        found = assess(draft, mode)
        options.append(Option(mode.name, mode.title, "; ".join(found.doubts) or mode.counts, found.obstacle))
    return options


def _recommended(draft: Draft) -> str:
    try:
        return chosen_mode(draft.having(packing=words.AUTO)).title
    except Refused:
        return ""


def _launchers(draft: Draft) -> list[Option]:
    return [
        Option(words.SCRIPT, "A script that loads this file", "trains what it says"),
        Option(words.RUN_RECIPE, "scripts/training/run_recipe.py", "KEY=VALUE; repairs some values"),
    ]


# ---------------------------------------------------------------------- when to ask


def _open_recipe(draft: Draft) -> bool:
    return not draft.given("recipe") and not draft.given("family")


def _family_topic(draft: Draft) -> tuple[str, ...]:
    found = catalog.find_family(draft.release, draft.get("family")) if draft.given("family") else None
    return (found,) if found is not None else ()


def _unnamed_gpu(draft: Draft) -> bool:
    from mbpack.wizard.memory import own_gpu

    return own_gpu(draft) is None


def _has_path(draft: Draft) -> bool:
    return draft.default("data_path").known


def _fine_tuning(draft: Draft) -> bool:
    return not draft.pretraining


def _maybe_long(draft: Draft) -> bool:
    return _fine_tuning(draft) and int(draft.get("seq_length")) >= LONG


def _may_pack(draft: Draft) -> bool:
    return _fine_tuning(draft) and not draft.get("long_samples")


def _free_rows(draft: Draft) -> bool:
    return chosen_mode(draft) in (IN_BATCH, NONE)


def _native(draft: Draft) -> bool:
    return chosen_mode(draft) is NATIVE


QUESTIONS: tuple[Question, ...] = (
    Question(
        "bridge",
        "Megatron-Bridge release",
        "Key names, class paths and what the start-up checks differ between releases; a key of another release is"
        " ignored without a word.",
        options=_releases,
        rules=("CFG101",),
    ),
    Question(
        "workload",
        "What are you training",
        "Fine-tuning samples vary in length and gain from packing; pretraining rows are cut to the sequence length"
        " already. LoRA and DoRA start from a PEFT recipe.",
        options=_workloads,
    ),
    Question(
        "modality",
        "What does the model read",
        "Text is packed before training, images and video while they are loaded.",
        asked=_open_recipe,
        options=_modalities,
    ),
    Question(
        "recipe",
        "Recipe or model family",
        "The file is a difference to a recipe: its values are the defaults from here on, and what contradicts the answers"
        " is overridden. Type parts of a name, such as `qwen3 8b`, or a model family, such as `llama`, to see its recipes.",
        options=_recipes,
        search=True,
        topics=_family_topic,
    ),
    Question(
        "data",
        "Data",
        "The dataset class follows from it. From 0.6 on local files and a recipe's own Hugging Face dataset exclude each"
        " other; before, local files need another class than the recipe's.",
        options=_data,
        rules=("DAT123",),
    ),
    Question(
        "data_path",
        "Path of the data",
        "A folder every node can read. JSONL: it holds training.jsonl and validation.jsonl, and the packs are built beside them.",
        asked=_has_path,
        rules=("DAT124",),
    ),
    Question(
        "checkpoint",
        "Megatron checkpoint of the base model",
        "Fine-tuning starts from it; a PEFT run without one is refused. The import command is printed at the end.",
        asked=_fine_tuning,
        rules=("PFT101",),
    ),
    Question(
        "gpu",
        "Kind of GPU",
        "Its memory decides which topology and length fit; what they need is shown from here on. The recipe's name says which one"
        " it was written for.",
        asked=_unnamed_gpu,
        options=_gpus,
        rules=("MEM101",),
        optional=True,
    ),
    Question(
        "gpus",
        "GPUs in all",
        "Data parallel size = GPUs / (TP x PP x CP); the global batch must be a multiple of it.",
        rules=("TOP102",),
        topics=lambda draft: ("data_parallel_size",),
    ),
    Question(
        "tp",
        "Tensor parallel size",
        "Splits every layer over this many GPUs. It must divide the attention heads.",
        rules=("TOP106", "TOP107"),
    ),
    Question(
        "pp",
        "Pipeline parallel size",
        "Splits the layers over this many stages. More stages need more microbatches in a step.",
        rules=("PPL107", "TOP104"),
    ),
    Question(
        "vpp",
        "Virtual pipeline size (none or a number)",
        "Model chunks per stage: less idle time for more communication.",
        asked=lambda draft: draft.pp > 1,
        rules=("TOP104",),
    ),
    Question(
        "cp",
        "Context parallel size",
        "Splits every row over this many GPUs: what makes 32K and longer fit. Each packed sample must then divide by"
        " 2 x CP, or it attends to its neighbour.",
        rules=("ALN101", "CPL101"),
    ),
    Question(
        "ep",
        "Expert parallel size",
        "Spreads the experts over this many GPUs.",
        asked=lambda draft: draft.moe,
        rules=("TOP105",),
    ),
    Question(
        "etp",
        "Expert tensor parallel size (none or a number)",
        "Splits every expert. Unset it is 1 with expert parallelism from 0.6 on, before that the tensor parallel size.",
        asked=lambda draft: draft.moe and draft.tp > 1,
        rules=("TOP102",),
    ),
    Question(
        "sp",
        "Sequence parallel",
        "Splits activations over the tensor parallel ranks as well; experts with tensor parallelism need it.",
        asked=lambda draft: draft.tp > 1,
        rules=("ALN102", "MOE105"),
    ),
    Question(
        "seq_length",
        "Sequence length in tokens",
        "Longest sample, width of a packed row and length of the model's buffers at once: all three must agree.",
        rules=("SEQ101", "SEQ102", "ALN106"),
    ),
    Question(
        "long_samples",
        "Do most samples fill that length by themselves",
        "Then there is nothing to join: long-context training without packing, one sample a row.",
        asked=_maybe_long,
    ),
    Question(
        "cuda_graphs",
        "CUDA graphs",
        "A captured graph replays fixed shapes, so rows need one width, and attention over packed rows cannot be captured"
        " at all.",
        options=_graphs,
        rules=("GRA103", "GRA101"),
    ),
    Question(
        "packing",
        "Packing",
        "Offline: packs are built once, before training. In-batch: rows of a microbatch are joined as they are loaded."
        " Energon: the loader packs. Global-batch: Megatron-Core's scheduler packs each step.",
        asked=_may_pack,
        options=_packing,
        rules=("BAT101", "BAT105"),
        topics=lambda draft: tuple(MODES),
    ),
    Question(
        "mbs",
        "Micro batch size",
        "Rows of one microbatch; in-batch packing joins them into one, so it needs two or more.",
        asked=_free_rows,
        rules=("BAT105",),
    ),
    Question(
        "gbs",
        "Global batch size",
        "Rows of one optimizer step, a multiple of MBS x DP. Packed rows hold several samples each: the same token slots"
        " as before need fewer of them.",
        asked=lambda draft: not draft.given("token_slots"),
        rules=("GBS101", "GBS102", "GBS106"),
        topics=lambda draft: ("token_slots_per_step",),
    ),
    Question(
        "buffer",
        "Packing buffer, samples per worker",
        "The loader packs inside blocks of this many samples; a small buffer leaves packs half empty, a large one holds"
        " images in memory.",
        asked=_native,
        rules=("NRG120",),
    ),
    Question(
        "launcher",
        "How will you launch",
        "run_recipe.py takes no file, only KEY=VALUE, and from 0.6 on repairs some values before the start-up checks them;"
        " a script trains what the file says.",
        options=_launchers,
    ),
)

BY_KEY: dict[str, Question] = {question.key: question for question in QUESTIONS}
