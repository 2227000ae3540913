"""The chat template of a tokenizer whose files are here."""

from __future__ import annotations

import os

from mbpack.config.run import Run
from mbpack.facts.chat_templates import GENERATION

MODEL = "tokenizer.tokenizer_model"
#: Files of a Hugging Face tokenizer that hold its chat template, the one that wins first.
_TEMPLATE, _CONFIG = "chat_template.jinja", "tokenizer_config.json"
_LARGEST = 8 << 20


def generation_block(run: Run, base: str) -> bool | None:
    """Whether the local tokenizer's chat template marks the answers; None without such files. Never raises."""
    name = run.maybe(MODEL)
    if not isinstance(name, str) or not name or not os.path.isdir(os.path.join(base, name)):
        return None
    text = _template(os.path.join(base, name))
    return None if text is None else GENERATION.search(text) is not None


def _template(folder: str) -> str | None:
    text = _read(os.path.join(folder, _TEMPLATE))
    if text is not None:
        return text
    config = _read(os.path.join(folder, _CONFIG))
    if config is None:
        return None
    import json  # most runs have no tokenizer on disk

    try:
        found = json.loads(config).get("chat_template")
    except (ValueError, AttributeError, RecursionError):
        return None
    if isinstance(found, list):  # named templates
        found = next((item.get("template") for item in found if isinstance(item, dict) and item.get("name") == "default"), None)
    return found if isinstance(found, str) else None


def _read(path: str) -> str | None:
    try:
        if os.path.getsize(path) > _LARGEST:
            return None
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, ValueError):
        return None
