"""OmegaConf as the judge of what a YAML text means, and the settings of the property tests that ask it."""

from __future__ import annotations

import io
import math
import os
import pathlib
import warnings
from typing import Any

import yaml
from hypothesis import HealthCheck, settings
from omegaconf import OmegaConf
from omegaconf._utils import get_yaml_loader

from mbpack.config.document import Document

REFUSED = "refused"
FACTOR = int(os.environ.get("MBPACK_FUZZ_FACTOR", "1"))
_LOADER = get_yaml_loader()


def examples(count: int) -> settings:
    """Settings for `count` examples: the same ones in every run, or FACTOR times as many new ones."""
    return settings(
        max_examples=count * FACTOR,
        derandomize=FACTOR == 1,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


def read_word(text: str) -> Any:
    """An unquoted word as OmegaConf's loader reads it, or REFUSED."""
    loader = _LOADER("")
    node = yaml.ScalarNode(loader.resolve(yaml.ScalarNode, text, (True, False)), text)
    try:
        return loader.construct_object(node)
    except Exception:  # whatever it is, OmegaConf lets it through to the caller
        return REFUSED


def read_text(text: str) -> Any:
    """A text as OmegaConf.load reads a file with it: plain data, or REFUSED. A list at the top cannot be merged."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            data = OmegaConf.to_container(OmegaConf.load(io.StringIO(text)), resolve=False)
        except Exception:  # YAMLError, ValueError, KeyError, RecursionError, OmegaConfBaseException, ...
            return REFUSED
    return data if isinstance(data, dict) else REFUSED


def our_reading(document: Document) -> Any:
    """The same from mbpack's document."""
    if not document.readable:
        return REFUSED
    assert document.root is not None
    return document.root.plain


def same(left: Any, right: Any) -> bool:
    """Equality that tells 1, 1.0 and true apart and takes one nan for another."""
    if isinstance(left, pathlib.PurePath):  # mbpack keeps the path as text
        left = str(left)
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        pairs = zip(sorted(left.items(), key=_order), sorted(right.items(), key=_order), strict=False)
        return len(left) == len(right) and all(same(a, c) and same(b, d) for (a, b), (c, d) in pairs)
    if isinstance(left, list):
        return len(left) == len(right) and all(same(a, b) for a, b in zip(left, right, strict=True))
    if isinstance(left, float):
        if math.isnan(left) or math.isnan(right):
            return math.isnan(left) and math.isnan(right)
        return left == right and math.copysign(1, left) == math.copysign(1, right)
    return bool(left == right)


def _order(pair: tuple[Any, Any]) -> tuple[str, str]:
    return type(pair[0]).__name__, str(pair[0])
