"""Names of single precision, as overrides and complete files of a release read them."""

from __future__ import annotations

import pytest

from mbpack.facts.dtypes import is_float32
from mbpack.facts.releases import R03, R04, R06, Release


@pytest.mark.parametrize(
    ("release", "name", "complete", "single"),
    [
        (R03, "torch.float", False, True),  # an attribute of torch
        (R03, "fp32", False, False),
        (R04, "torch.float", False, False),  # not in the table
        (R04, "fp32", False, True),
        (R06, "32-true", False, True),
        (R06, "torch.float", True, True),
        (R06, "fp32", True, False),  # torch.fp32 is no attribute
        (R06, "torch.fp32", True, False),
        (R06, "numpy.float32", True, False),
    ],
)
def test_which_texts_are_single_precision(release: Release, name: str, complete: bool, single: bool) -> None:
    assert is_float32(release, name, complete) is single
