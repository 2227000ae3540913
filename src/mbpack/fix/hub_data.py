"""Data of the Hugging Face hub between releases: a name on the hub up to 0.5, a preset or a path from 0.6 on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mbpack.facts.hf_presets import HF_PRESETS, adapter_for, preset_for
from mbpack.facts.migration import SOURCE_FIELD
from mbpack.facts.releases import R06

if TYPE_CHECKING:
    from mbpack.config.run import Run
    from mbpack.fix.migrate import Migration

_SOURCE = f"dataset.{SOURCE_FIELD}"
_NAME, _PATH, _SUBSET, _SPLIT, _ADAPTER = (
    f"{_SOURCE}.{name}" for name in ("dataset_name", "path_or_dataset", "subset", "split", "schema_adapter")
)


def _held(made: Migration, key: str) -> Any:
    item = made.get(key)
    return None if item is None else item.plain


def after(made: Migration, run: Run | None) -> None:
    """On the way up, after the fields moved: the name on the hub as the preset that reads it, else as a path.

    What the recipe's own source sets and these data do not have is cleared: a source has either a preset or a path.
    """
    name = _held(made, _NAME)
    if made.source >= R06 or made.target.release < R06 or not isinstance(name, str):
        return
    preset = preset_for(name, _held(made, _SUBSET), _held(made, _SPLIT))
    if preset is not None:
        made.edit("set", _NAME, preset, note=f"the preset that reads {name}")
        for key in (_SUBSET, _ADAPTER):
            if made.get(key) is not None:
                made.edit("delete", key, note="the preset has it")
        _clear(made, run, _PATH, _SUBSET, _ADAPTER)
        return
    path = HF_PRESETS[name].path if name in HF_PRESETS else name
    made.edit("rename", _NAME, to=_PATH)
    if path != name:
        made.edit("set", _PATH, path)
    adapter = adapter_for(name)
    if adapter is not None:
        made.edit("set", _ADAPTER, adapter, note=f"how the rows of {name} are read")
    else:
        made.decide.append(f"dataset.preprocessing: which columns of {name} hold what; the recipe's is for its own data")
    _clear(made, run, _NAME, *([] if adapter is not None else [_ADAPTER]), *([] if made.get(_SUBSET) else [_SUBSET]))


def _clear(made: Migration, run: Run | None, *keys: str) -> None:
    if run is None or run.settings.complete:
        return
    for key in keys:
        found = run.settings.peek(key)
        if found is not None and not found.absent and found.value is not None and (key == _NAME or made.get(key) is None):
            made.edit("set", key, None, note="the recipe's source")


def before(made: Migration) -> None:
    """On the way back, before the fields move: the preset or the path as the name on the hub."""
    name, path = _held(made, _NAME), _held(made, _PATH)
    if isinstance(name, str) and name in HF_PRESETS:
        held = HF_PRESETS[name]
        made.edit("set", _NAME, held.path, note=f"what the preset {name} reads")
        if held.subset is not None and _held(made, _SUBSET) is None:
            made.edit("set", _SUBSET, held.subset, note=f"what the preset {name} reads")
        if held.split is not None and _held(made, _SPLIT) is None:
            made.edit("set", _SPLIT, held.split, note=f"what the preset {name} reads")
    for key, value in ((_NAME, name), (_PATH, path), (_SUBSET, _held(made, _SUBSET)), (_ADAPTER, None)):
        if value is None and made.get(key) is not None:
            made.edit("delete", key, note="a release before 0.6 has no presets")
    if isinstance(path, str):
        made.edit("rename", _PATH, to=_NAME)
        text = (
            f"process_example_fn: the function that turns a row of {path} into input and output; the recipe's is for its own data"
        )
        made.decide.append(text)
