"""Named Hugging Face sources that the data builders know, with the logical splits each has (0.6, 0.7).

Source: `data/sources/hf.py`; the adapters `data/sources/hf_adapters.py`.
"""

from __future__ import annotations

from typing import NamedTuple

HF_PRESET_SPLITS: dict[str, tuple[str, ...]] = {
    "cord_v2": ("train", "validation", "test"),
    "cv17": ("train", "validation", "test", "validated"),
    "gsm8k": ("train", "test"),
    "llava_video_178k": ("train", "open_ended"),
    "medpix": ("train", "validation"),
    "openmathinstruct2": ("train", "train_1M", "train_2M", "train_5M"),
    "openmathinstruct2_thinking": ("train", "train_1M", "train_2M", "train_5M"),
    "raven": ("train",),
    "rdr": ("train",),
    "squad": ("train", "validation"),
    "tulu3": ("train",),
}

#: Adapter arguments without which a preset is refused.
HF_PRESET_ARGUMENTS: dict[str, tuple[str, ...]] = {"llava_video_178k": ("video_root_path",)}

#: Adapters that turn the rows of a source into conversations or prompts, by name.
HF_ADAPTERS = frozenset(
    "cord_v2 cv17 default_audio gsm8k llava_video_178k medpix openmathinstruct2 openmathinstruct2_thinking raven rdr squad "
    "valor32k_avqa".split()
)

#: Fields of a source that its ``load_kwargs`` must not repeat.
LOAD_FIELDS = ("name", "path", "split")


class Preset(NamedTuple):
    """What a named source stands for: a dataset of the hub, the subset it fixes, and how its rows are read."""

    path: str
    subset: str | None = None
    split: str | None = None
    adapter: str | None = None


#: Two of them read the same dataset; the plain one comes first.
HF_PRESETS: dict[str, Preset] = {
    "cord_v2": Preset("naver-clova-ix/cord-v2", adapter="cord_v2"),
    "cv17": Preset("ysdede/commonvoice_17_tr_fixed", adapter="cv17"),
    "gsm8k": Preset("openai/gsm8k", "main", adapter="gsm8k"),
    "llava_video_178k": Preset("lmms-lab/LLaVA-Video-178K", "0_30_s_nextqa", "open_ended", "llava_video_178k"),
    "medpix": Preset("mmoukouba/MedPix-VQA", adapter="medpix"),
    "openmathinstruct2": Preset("nvidia/OpenMathInstruct-2", split="train_1M", adapter="openmathinstruct2"),
    "openmathinstruct2_thinking": Preset("nvidia/OpenMathInstruct-2", split="train_1M", adapter="openmathinstruct2_thinking"),
    "raven": Preset("HuggingFaceM4/the_cauldron", "raven", adapter="raven"),
    "rdr": Preset("quintend/rdr-items", adapter="rdr"),
    "squad": Preset("rajpurkar/squad", adapter="squad"),
    "tulu3": Preset("allenai/tulu-3-sft-mixture"),
}


def preset_for(name: str, subset: object, split: object) -> str | None:
    """The preset that reads a dataset of the hub, given by its name there; None where none does, or not with these settings."""
    for preset, held in HF_PRESETS.items():
        if name in (preset, held.path) and preset not in HF_PRESET_ARGUMENTS:
            fits = subset in (None, held.subset) and (split is None or split in HF_PRESET_SPLITS[preset])
            return preset if fits and (held.subset is None or subset == held.subset or name == preset) else None
    return None


def adapter_for(name: str) -> str | None:
    """The adapter that turns the rows of a dataset of the hub, given by its name there, into prompts or conversations."""
    return next((held.adapter for preset, held in HF_PRESETS.items() if name in (preset, held.path)), None)
