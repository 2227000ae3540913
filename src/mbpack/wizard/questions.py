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

    ``label``: its name in the review. ``why``: what depends on it, for the help key, together with what `mbpack explain`
    has about ``topics`` and ``rules`` (codes; the first one in full). ``options``: the choices, None for free answers.
    ``search``: options are found by typing parts of their name. ``asked``: whether the answers so far leave anything to
    choose. ``first``: whether recipe, data and machine leave it open, so that it is asked before the review; all others
    have a default there.
    """

    key: str
    label: str
    prompt: str
    why: str
    asked: Callable[[Draft], bool] = lambda draft: True
    first: Callable[[Draft], bool] = lambda draft: False
    options: Callable[[Draft], list[Option]] | None = None
    search: bool = False
    rules: tuple[str, ...] = ()
    topics: Callable[[Draft], tuple[str, ...]] = lambda draft: ()


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


def _family_topic(draft: Draft) -> tuple[str, ...]:
    found = catalog.find_family(draft.release, draft.get("family")) if draft.given("family") else None
    return (found,) if found is not None else ()


def _has_path(draft: Draft) -> bool:
    return draft.default("data_path").known


def _untold(draft: Draft) -> bool:
    """Whether a path was named that does not show what it holds."""
    return draft.given("data_path") and not draft.default("data").known


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
        "Release",
        "Megatron-Bridge release",
        "Key names, class paths and what the start-up checks differ between releases; a key of another release is"
        " ignored without a word.",
        options=_releases,
        rules=("CFG101",),
    ),
    Question(
        "workload",
        "Training",
        "What are you training",
        "Fine-tuning samples vary in length and gain from packing; pretraining rows are cut to the sequence length"
        " already. LoRA and DoRA start from a PEFT recipe.",
        first=lambda draft: not draft.given("recipe"),
        options=_workloads,
    ),
    Question(
        "recipe",
        "Recipe",
        "Recipe or model family",
        "The file is a difference to a recipe: its values are the defaults from here on, and what contradicts the answers"
        " is overridden. Type parts of a name, such as `qwen3 8b`, or a model family, such as `llama`, to see its recipes.",
        first=lambda draft: True,
        options=_recipes,
        search=True,
        topics=_family_topic,
    ),
    Question(
        "data_path",
        "Data path",
        "Your data: a path, or a name on the Hugging Face Hub",
        "A folder every node can read. JSONL: it holds training.jsonl and validation.jsonl, and the packs are built beside them."
        " Where it can be read from here, its first rows say what they are. Enter takes the recipe's own data.",
        asked=_has_path,
        first=lambda draft: True,
        rules=("DAT124",),
    ),
    Question(
        "data",
        "Data",
        "What the data are",
        "The dataset class follows from it. From 0.6 on local files and a recipe's own Hugging Face dataset exclude each"
        " other; before, local files need another class than the recipe's.",
        first=_untold,
        options=_data,
        rules=("DAT123",),
    ),
    Question(
        "checkpoint",
        "Checkpoint",
        "Megatron checkpoint of the base model",
        "Fine-tuning starts from it; a PEFT run without one is refused. The import command is printed at the end.",
        asked=_fine_tuning,
        rules=("PFT101",),
    ),
    Question(
        "gpu",
        "Kind of GPU",
        "Kind of GPU",
        "Its memory decides which topology and length fit; what they need is shown from here on. The recipe's name says which one"
        " it was written for.",
        options=_gpus,
        rules=("MEM101",),
    ),
    Question(
        "gpus",
        "GPUs",
        "GPUs in all",
        "Data parallel size = GPUs / (TP x PP x CP); the global batch must be a multiple of it.",
        first=lambda draft: True,
        rules=("TOP102",),
        topics=lambda draft: ("data_parallel_size",),
    ),
    Question(
        "tp",
        "Tensor parallel",
        "Tensor parallel size",
        "Splits every layer over this many GPUs. It must divide the attention heads.",
        rules=("TOP106", "TOP107"),
    ),
    Question(
        "pp",
        "Pipeline",
        "Pipeline parallel size",
        "Splits the layers over this many stages. More stages need more microbatches in a step.",
        rules=("PPL107", "TOP104"),
    ),
    Question(
        "vpp",
        "Virtual pipeline",
        "Virtual pipeline size (none or a number)",
        "Model chunks per stage: less idle time for more communication.",
        asked=lambda draft: draft.pp > 1,
        rules=("TOP104",),
    ),
    Question(
        "cp",
        "Context parallel",
        "Context parallel size",
        "Splits every row over this many GPUs: what makes 32K and longer fit. Each packed sample must then divide by"
        " 2 x CP, or it attends to its neighbour.",
        rules=("ALN101", "CPL101"),
    ),
    Question(
        "ep",
        "Expert parallel",
        "Expert parallel size",
        "Spreads the experts over this many GPUs.",
        asked=lambda draft: draft.moe,
        rules=("TOP105",),
    ),
    Question(
        "etp",
        "Expert tensor",
        "Expert tensor parallel size (none or a number)",
        "Splits every expert. Unset it is 1 with expert parallelism from 0.6 on, before that the tensor parallel size.",
        asked=lambda draft: draft.moe and draft.tp > 1,
        rules=("TOP102",),
    ),
    Question(
        "sp",
        "Sequence parallel",
        "Sequence parallel",
        "Splits activations over the tensor parallel ranks as well; experts with tensor parallelism need it.",
        asked=lambda draft: draft.tp > 1,
        rules=("ALN102", "MOE105"),
    ),
    Question(
        "seq_length",
        "Sequence length",
        "Sequence length in tokens",
        "Longest sample, width of a packed row and length of the model's buffers at once: all three must agree.",
        rules=("SEQ101", "SEQ102", "ALN106"),
    ),
    Question(
        "long_samples",
        "Full samples",
        "Do most samples fill that length by themselves",
        "Then there is nothing to join: long-context training without packing, one sample a row.",
        asked=_maybe_long,
    ),
    Question(
        "cuda_graphs",
        "CUDA graphs",
        "CUDA graphs",
        "A captured graph replays fixed shapes, so rows need one width, and attention over packed rows cannot be captured"
        " at all.",
        options=_graphs,
        rules=("GRA103", "GRA101"),
    ),
    Question(
        "packing",
        "Packing",
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
        "Micro batch",
        "Micro batch size",
        "Rows of one microbatch; in-batch packing joins them into one, so it needs two or more.",
        asked=_free_rows,
        rules=("BAT105",),
    ),
    Question(
        "gbs",
        "Global batch",
        "Global batch size",
        "Rows of one optimizer step, a multiple of MBS x DP. Packed rows hold several samples each: the same token slots"
        " as before need fewer of them.",
        asked=lambda draft: not draft.given("token_slots"),
        rules=("GBS101", "GBS102", "GBS106"),
        topics=lambda draft: ("token_slots_per_step",),
    ),
    Question(
        "buffer",
        "Packing buffer",
        "Packing buffer, samples per worker",
        "The loader packs inside blocks of this many samples; a small buffer leaves packs half empty, a large one holds"
        " images in memory.",
        asked=_native,
        rules=("NRG120",),
    ),
    Question(
        "launcher",
        "Launcher",
        "How will you launch",
        "run_recipe.py takes no file, only KEY=VALUE, and from 0.6 on repairs some values before the start-up checks them;"
        " a script trains what the file says.",
        options=_launchers,
    ),
)

BY_KEY: dict[str, Question] = {question.key: question for question in QUESTIONS}
