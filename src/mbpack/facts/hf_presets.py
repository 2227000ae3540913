"""Named Hugging Face sources that the data builders know, with the logical splits each has (0.6, 0.7).

Source: `data/sources/hf.py`.
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
