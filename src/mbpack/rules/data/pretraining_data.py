"""What GPT pretraining data are made of: paths with weights, splits, cached indices, masks.

The checks run for ``GPTDatasetConfig`` and its two subclasses when the dataset is finalised.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from mbpack.config.document import Interpolation
from mbpack.config.run import Run
from mbpack.config.scalars import MISSING
from mbpack.config.settings import Object, Unknown
from mbpack.facts.classes import DatasetKind
from mbpack.facts.releases import R04
from mbpack.rules.base import REJECTED, Finding, Fix, RejectingRule, Rule, set_to, words

BLEND, PER_SPLIT, PATHS = "dataset.blend", "dataset.blend_per_split", "dataset.data_path"
SPLIT, CACHE = "dataset.split", "dataset.path_to_cache"
SPLITS = ("train", "valid", "test")


def _is_mock(run: Run) -> bool:
    return run.dataset_class == "MockGPTDatasetConfig"


def _settled(key: str, value: Any) -> Any:
    """A value whose shape is known; of a plain mapping, its keys.

    Raises:
        Unknown: an expression or an object stands in its place.
    """
    if isinstance(value, Interpolation) or value is MISSING or (isinstance(value, Object) and value.target):
        raise Unknown(key, (), "its shape is not known")
    return list(value.item.value) if isinstance(value, Object) and value.item is not None else value


def _blend_key(run: Run) -> str | None:
    """The key that says what is blended: ``blend``, else from 0.4 on ``data_path``; None for mock data."""
    if run.is_set(BLEND) and not _is_mock(run):
        return BLEND
    return PATHS if run.release >= R04 and run.is_set(PATHS) else None


def _per_split(run: Run) -> Any:
    """``blend_per_split`` where it counts: a list, or a kind of value that is refused."""
    value = None if _is_mock(run) else run.value(PER_SPLIT)
    items = _settled(PER_SPLIT, value)
    return None if value is None or (isinstance(items, (list, str)) and not any(items)) else value


def _pair_fault(key: str, pair: Any) -> str:
    """Why a value is no pair of paths and weights; "" where it is one.

    Text of two letters or more passes, as upstream's comparison of its first two letters does.
    """
    if not isinstance(_settled(key, pair), (list, str)) or isinstance(pair, Object) or len(pair) < 2:
        return "must be a pair of paths and weights (null: by size)"
    paths, weights = (_settled(key, part) for part in pair[:2])
    if weights is None:
        return ""
    if not all(isinstance(part, (list, str)) for part in (paths, weights)):
        return "must be a list of paths and a list of weights, or null"
    return "" if len(paths) == len(weights) else f"has {len(paths)} paths and {len(weights)} weights"


def _is_split(value: Any) -> bool:
    """Whether a value reads as shares: text with at most three numbers, or none at all."""
    shares = re.findall(r"[.0-9]+", value) if isinstance(value, str) else ["."]
    return len(shares) <= len(SPLITS) and all(re.fullmatch(r"\d+\.?\d*|\.\d+", share) for share in shares)


def _paths_fault(value: Any) -> str:
    """Why ``data_path`` cannot be read as paths, or weights and paths in turn; "" where it can."""
    value = _settled(PATHS, value)
    if not isinstance(value, (str, list)):
        return "must be text or a list"
    items = value.split() if isinstance(value, str) else value
    if not items:
        return "holds no path"
    weights: list[float | None] = []
    for item in items[::2] if len(items) % 2 == 0 else ():
        try:
            weights.append(float(_settled(PATHS, item)))
        except ValueError:
            weights.append(None)
        except (TypeError, OverflowError):
            return "holds something that is neither a path nor a weight"
    if None in weights and any(weight is not None for weight in weights[weights.index(None) :]):
        return "has weights for some of its paths only"
    paths = items[1::2] if weights and None not in weights else items
    return "" if all(isinstance(path, str) for path in paths) else "holds a path that is no text"


class BlendedData(RejectingRule):
    """Pretraining data are one blend with a split, or one blend for each split.

    `blend` is a pair: paths, and as many weights or null. It needs `split`, up to three shares such as "99,1,0", and excludes
    `blend_per_split`, which holds three such pairs (training, validation, test) and excludes `split`. From 0.4 on `data_path`
    stands for a blend: paths, or weights and paths in turn. Mock data take neither blend.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_pretrain_config gpus=8 launcher=script
    dataset: {blend: [[/data/a, /data/b], [0.5]]}
    ```
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_pretrain_config gpus=8 launcher=script
    dataset: {blend: [[/data/a], null], split: null}
    ```
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_pretrain_config gpus=8 launcher=script
    dataset: {blend_per_split: [[[/data/a], null], [[/data/b], null]], split: null}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_pretrain_config gpus=8 launcher=script
    dataset: {blend: [[/data/a, /data/b], [0.5, 0.5]], split: "99,1,0"}
    ```
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_pretrain_config gpus=8 launcher=script
    dataset: {blend_per_split: [[[/data/a], null], [[/data/b], null], null], split: null}
    ```

    ## Upstream
    - all releases: Megatron-Core `blended_megatron_dataset_config.py`, `BlendedMegatronDatasetConfig.__post_init__`
    - 0.3 to 0.7: `training/config.py`, `GPTDatasetConfig.finalize` and `MockGPTDatasetConfig.finalize`
    """

    code, slug = "DAT143", "data/blend"

    def check(self, run: Run) -> Iterator[Finding]:
        if run.dataset is not DatasetKind.PRETRAIN:
            return
        if _is_mock(run):
            yield from self._mock(run)
        key = _blend_key(run)
        if key == PATHS:
            fault = _paths_fault(run.value(PATHS))
            if fault:
                fix = Fix("one path, a list of paths, or weight, path, weight, path, ...")
                yield self._refuse(run, PATHS, f"data_path {fault}", fix, "@paths")
                return
        pairs = _per_split(run)
        if pairs is not None:
            yield from self._for_each_split(run, key, pairs)
        elif key is not None:
            yield from self._one_blend(run, key)

    def _mock(self, run: Run) -> Iterator[Finding]:
        for key in (BLEND, PER_SPLIT):
            if run.flag(key):
                name = key.partition(".")[2]
                fix = Fix(f"{name}: null, or the class GPTDatasetConfig", set_to(run, (key, None)))
                yield self._refuse(run, key, f"mock data take no {name}", fix, "@paths")

    def _for_each_split(self, run: Run, key: str | None, pairs: Any) -> Iterator[Finding]:
        if not isinstance(pairs, (list, str)):
            yield self._refuse(run, PER_SPLIT, "blend_per_split must be a list of three blends or null", Fix("a list of three"))
            return
        for other in (key, SPLIT if run.is_set(SPLIT) else None):
            if other is not None:
                name = other.partition(".")[2]
                fix = Fix(f"{name}: null", set_to(run, (other, None)))
                message = f"{name} and blend_per_split are both set"
                yield self._refuse(run, other if run.wrote(other) else PER_SPLIT, message, fix)
        if len(pairs) != len(SPLITS):
            message = f"blend_per_split must hold three blends, found {len(pairs)}"
            yield self._refuse(run, PER_SPLIT, message, Fix(f"one blend or null for each of {words(SPLITS)}"))
            return
        for name, pair in zip(SPLITS, pairs, strict=True):
            fault = "" if pair is None else _pair_fault(PER_SPLIT, pair)
            if fault:
                fix = Fix("a pair [paths, weights], or null for no data")
                yield self._refuse(run, PER_SPLIT, f"blend_per_split: the blend for {name} {fault}", fix)

    def _one_blend(self, run: Run, key: str) -> Iterator[Finding]:
        fault = _pair_fault(BLEND, run.value(BLEND)) if key == BLEND else ""
        if fault:
            yield self._refuse(run, BLEND, f"blend {fault}", Fix("a pair [paths, weights], or [paths, null]"))
        split = _settled(SPLIT, run.value(SPLIT))
        fix = Fix('split: "99,1,0" or other shares', set_to(run, (SPLIT, "99,1,0")))
        place = SPLIT if run.wrote(SPLIT) else key
        if split is None:
            yield self._refuse(run, place, f"{key.partition('.')[2]} needs a split", fix)
        elif not _is_split(split):
            yield self._refuse(run, place, f"split must be text with at most three shares, found {split}", fix)

    def _refuse(self, run: Run, key: str, message: str, fix: Fix, at: str = "") -> Finding:
        related = tuple(other for other in (BLEND, PER_SPLIT, PATHS, SPLIT) if other != key and run.wrote(other))
        return self.finding(run, REJECTED, key, message, related=related, fix=fix, station=self.slug + at)


RULES: tuple[Rule, ...] = (BlendedData(),)
