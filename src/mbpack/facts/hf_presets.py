"""Named Hugging Face sources that the data builders know, with the logical splits each has (0.6, 0.7).

Source: `data/sources/hf.py`; the adapters `data/sources/hf_adapters.py`.
"""

from __future__ import annotations

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
